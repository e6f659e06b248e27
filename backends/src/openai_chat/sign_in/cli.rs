//! The Azure command line, for people at their own machine.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use skillopt_core::secret::Secret;
use tokio::process::Command;

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
        let endpoint = || format!("`{}`", self.program);
        let run = Command::new(&self.program)
            .args(["account", "get-access-token", "--output", "json"])
            .args(["--resource", &self.resource])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(LIMIT, run).await;
        let output = output.map_err(|_| CallError::Timeout {
            endpoint: endpoint(),
            limit: LIMIT,
        })?;
        let output = output.map_err(|e| CallError::Misconfigured {
            endpoint: endpoint(),
            status: 0,
            detail: format!(
                "it cannot be started ({e}); install the Azure command line, name it in \
                 `model.azure_openai_cli_path`, or set another `model.azure_openai_auth_mode`"
            ),
        })?;
        if !output.status.success() {
            return Err(refused(endpoint(), &output.stderr));
        }
        let answer: Answer =
            serde_json::from_slice(&output.stdout).map_err(|_| CallError::Connection {
                endpoint: endpoint(),
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
