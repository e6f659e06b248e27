//! The Azure command line, for people at their own machine.

use std::ffi::OsString;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use skillopt_core::secret::Secret;

use crate::cli::{Run, environment};
use crate::error::CallError;
use crate::failure;
use crate::tokens::{Fetched, Source, ends_in};

/// How long the program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a token lasts whose end is not told, in seconds.
const LASTS: u64 = 3_000;

/// `az account get-access-token`.
pub(super) struct AzureCli {
    pub(super) program: String,
    pub(super) resource: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "accessToken")]
    token: String,
    /// Seconds since 1970.
    #[serde(default)]
    expires_on: Option<Value>,
}

#[async_trait]
impl Source for AzureCli {
    async fn fetch(&self) -> Result<Fetched, CallError> {
        let program = &self.program;
        let run = Run {
            endpoint: program,
            program: environment::program(program),
            args: ["account", "get-access-token", "--output", "json"]
                .into_iter()
                .chain(["--resource", &self.resource])
                .map(Into::into)
                .collect(),
            env: surroundings(),
            folder: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            stdin: Vec::new(),
            limit: LIMIT,
            setting: "model.azure_openai_cli_path",
        };
        let output = run.output().await.map_err(unstarted)?;
        if output.code != Some(0) {
            return Err(refused(program.clone(), output.stderr.as_bytes()));
        }
        let answer: Answer =
            serde_json::from_slice(&output.stdout).map_err(|_| CallError::Connection {
                endpoint: program.clone(),
                detail: "it gave no token".to_owned(),
            })?;
        let ends_ms = seconds(answer.expires_on.as_ref())
            .map_or_else(|| ends_in(LASTS), |at| at.saturating_mul(1_000));
        Ok(Fetched {
            token: Secret::new(answer.token),
            ends_ms,
        })
    }
}

/// The machine's user is logged in there, with whatever settings the program reads.
fn surroundings() -> Vec<(String, OsString)> {
    let pairs = std::env::vars_os();
    pairs
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .collect()
}

/// A program that is not there can be done without.
fn unstarted(mut error: CallError) -> CallError {
    if let CallError::Misconfigured { detail, .. } = &mut error {
        detail.push_str(", or set another `model.azure_openai_auth_mode`");
    }
    error
}

/// Only a person can sign in again; anything else may pass.
fn refused(endpoint: String, stderr: &[u8]) -> CallError {
    let detail = failure::detail(stderr, &[]);
    let wants_login = ["az login", "AADSTS", "az account"]
        .iter()
        .any(|words| detail.contains(words));
    if wants_login {
        CallError::Unauthorized {
            endpoint,
            status: 0,
            detail,
        }
    } else {
        CallError::Connection { endpoint, detail }
    }
}

/// Reads a whole number, also of a text.
pub(super) fn seconds(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(n) => n.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// Asks a shell script in place of the program.
    async fn ask(folder: &Path, script: &str) -> Result<Fetched, CallError> {
        let program = folder.join("az");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        fetch(&program.display().to_string()).await
    }

    async fn fetch(program: &str) -> Result<Fetched, CallError> {
        let az = AzureCli {
            program: program.to_owned(),
            resource: "r".to_owned(),
        };
        az.fetch().await
    }

    #[tokio::test]
    async fn a_token_comes_with_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"echo '{"accessToken": "t", "expires_on": "7"}'"#;
        let fetched = ask(folder.path(), script).await.unwrap();
        assert_eq!(fetched.token.expose(), "t");
        assert_eq!(fetched.ends_ms, 7_000);
    }

    #[tokio::test]
    async fn a_login_that_is_missing_is_told_from_what_may_pass() {
        let folder = tempfile::tempdir().unwrap();
        let login = ask(folder.path(), "echo 'Please run az login' >&2; exit 1").await;
        assert!(login.is_err_and(|e| e.is_unauthorized()));
        let other = ask(folder.path(), "echo 'no network' >&2; exit 1").await;
        assert!(other.is_err_and(|e| matches!(e, CallError::Connection { .. })));
        let missing = fetch("/nowhere/az").await.err().unwrap().to_string();
        for words in ["azure_openai_cli_path", "azure_openai_auth_mode"] {
            assert!(missing.contains(words), "{missing}");
        }
    }

    /// Nothing that the program started outlives it, and no flood of words is kept.
    #[tokio::test]
    async fn what_it_starts_ends_with_it_and_what_it_says_has_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let script = format!(
            "sleep 1000 > '{}' &\nhead -c 50000000 /dev/zero",
            pipe.display()
        );
        let left = tokio::task::spawn_blocking(move || std::fs::read(pipe));
        let flood = ask(folder.path(), &script).await;
        assert!(flood.is_err_and(|e| matches!(e, CallError::Malformed { .. })));
        // The pipe ends when nobody holds its other end any more.
        left.await.unwrap().unwrap();
    }
}
