//! What a machine needs before the tests can run, and how to get it.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::cargo::{answers, cargo};

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
