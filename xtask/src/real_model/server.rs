//! The model server: a child process on loopback that lives exactly as long as it is needed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

const SERVE: &str = include_str!("serve.py");
/// Loading takes seconds on an idle machine, minutes on a busy one.
const READY_SECONDS_MAX: f64 = 600.0;
const POLL_EVERY: Duration = Duration::from_millis(500);
/// The longest a poll waits for its answer.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);

/// What is started where.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// The Python that has the server's package.
    pub(super) python: &'a Path,
    /// The weights.
    pub(super) weights: &'a Path,
    /// Where its log goes.
    pub(super) cache: &'a Path,
    /// Threads it computes with.
    pub(super) threads: u16,
    /// How many answers it writes at a time.
    pub(super) slots: u16,
    /// Its port; 0 takes a free one.
    pub(super) port: u16,
}

/// A server that answers. It is stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Server {
    /// Starts the server and waits until it has loaded the model.
    pub(super) fn start(place: &Place<'_>) -> anyhow::Result<Self> {
        let port = free_port(place.port)?;
        let log = place.cache.join("server.log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(place.python)
            .args(["-c", SERVE])
            .arg(place.weights)
            .args([port, place.threads, place.slots].map(|number| number.to_string()))
            // Held open by this process: the server ends when it closes.
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("cannot start the model server")?;
        let mut server = Self { child, port, log };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Returns the address for the configuration.
    pub(super) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Stops the server and waits for its end.
    pub(super) fn stop(mut self) {
        self.end();
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let started = now();
        while !is_healthy(self.port) {
            let log = self.log.display();
            if let Some(status) = self.child.try_wait()? {
                bail!("the model server ended with {status}; its log is {log}");
            }
            if started.elapsed().as_secs_f64() > READY_SECONDS_MAX {
                bail!(
                    "the model server was not ready after {READY_SECONDS_MAX} seconds; its log is {log}"
                );
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    fn end(&mut self) {
        // It may have ended by itself; waiting then only collects it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads the clock.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask depends on none of our crates"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Checks that a port can be had on loopback, or finds one.
fn free_port(wanted: u16) -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).with_context(|| {
        format!(
            "port {wanted} on 127.0.0.1 cannot be used; choose another with --port, or 0 for any"
        )
    })?;
    Ok(listener.local_addr()?.port())
}

/// Asks `/health` once.
fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, POLL_TIMEOUT)?;
        stream.set_read_timeout(Some(POLL_TIMEOUT))?;
        stream.set_write_timeout(Some(POLL_TIMEOUT))?;
        stream
            .write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = free_port(port).unwrap_err().to_string();
        assert!(
            error.contains(&port.to_string()) && error.contains("--port"),
            "{error}"
        );
        assert_ne!(free_port(0).unwrap(), 0);
    }
}
