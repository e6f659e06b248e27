//! Measures the chat backends and prints one JSON object; `cargo xtask bench backends` runs it.
//!
//! The server and each measurement are processes of their own, which this program starts of itself:
//! what the system says a process has used is then the clients' alone.

mod measure;
mod serve;

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};
use skillopt_backends::conformance::Kit;
use skillopt_backends::conformance::kits;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let told = match *words.as_slice() {
        [] => all()?,
        ["serve", kit, how, certificate] => {
            return serve::run(find(kit)?, how, Path::new(certificate));
        }
        [what, kit, url, certificate] => {
            measure::run(what, find(kit)?, url, Path::new(certificate))?
        }
        _ => return Err("called by `cargo xtask bench backends` without arguments".into()),
    };
    #[expect(clippy::print_stdout, reason = "what the program is for")]
    {
        println!("{told}");
    }
    Ok(())
}

fn find(name: &str) -> Outcome<Kit> {
    let found = kits::ALL.iter().find(|(known, _)| *known == name);
    Ok(found.ok_or("no such backend")?.1)
}

/// A server as a process; it ends with the value.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(kit: &str, how: &str, certificate: &str) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", kit, how, certificate])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        BufReader::new(stdout).read_line(&mut url)?;
        let url = url.trim().to_owned();
        Ok(Self { child, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Measures in a process of its own.
fn measured(what: &str, kit: &str, how: &str, certificate: &str) -> Outcome<Value> {
    let server = Server::start(kit, how, certificate)?;
    let output = Command::new(std::env::current_exe()?)
        .args([what, kit, &server.url, certificate])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("`{what} {kit}` ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn all() -> Outcome<Value> {
    let folder = tempfile::tempdir()?;
    let certificate = folder.path().join("ca.pem");
    let certificate = certificate.to_str().ok_or("a path without a name")?;
    let mut cpu = Map::new();
    for (kit, _) in kits::ALL {
        let mut least = json!({});
        for how in ["plain", "tls", "h2"] {
            let mut micros = f64::INFINITY;
            for _ in 0..3 {
                let seen = measured("cpu", kit, how, certificate)?;
                micros = micros.min(seen["us"].as_f64().ok_or("no time")?);
            }
            least[how] = json!(micros);
        }
        cpu.insert((*kit).to_owned(), least);
    }
    Ok(json!({
        "cpu": cpu,
        "flight": measured("flight", "openai_compatible", "slow", certificate)?,
        "flight_tls": measured("flight", "openai_compatible", "slow_tls", certificate)?,
        "flight_h2": measured("flight", "openai_compatible", "slow_h2", certificate)?,
        "soak": measured("soak", "openai_compatible", "bad", certificate)?,
    }))
}
