//! The file with the rates of provider accounts, for `skillopt coordinator --limits`.
//!
//! ```yaml
//! accounts:
//!   https://api.openai.com/v1:
//!     requests_per_minute: 500
//!     tokens_per_minute: 200000
//!     concurrency: 64
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use skillopt_config::yaml;
use skillopt_queue::rates::Limits;

use crate::failure::Failure;
use crate::found::text_file;

/// Most accounts of one file.
const ACCOUNTS_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    accounts: BTreeMap<String, Limits>,
}

/// Reads a file of limits.
///
/// # Errors
/// It cannot be read, or says something else.
pub(crate) fn load(path: &Path) -> Result<BTreeMap<String, Limits>, Failure> {
    read(&text_file(path)?, &path.display().to_string())
}

fn read(text: &str, path: &str) -> Result<BTreeMap<String, Limits>, Failure> {
    let wrong = |what: &dyn std::fmt::Display| {
        Failure::usage(format!("`{path}` holds no limits of accounts: {what}")).hint(
            "write `accounts:` with an address for each, and below it `requests_per_minute`, \
             `tokens_per_minute` or `concurrency`",
        )
    };
    let map = yaml::parse(text, path).map_err(|e| wrong(&e))?;
    let file: File = serde_json::from_value(Value::Object(map.to_json())).map_err(|e| wrong(&e))?;
    if file.accounts.len() > ACCOUNTS_MAX {
        return Err(wrong(&format!("more than {ACCOUNTS_MAX} accounts")));
    }
    let is_zero = |limits: &Limits| {
        let all = [
            limits.requests_per_minute,
            limits.tokens_per_minute,
            limits.concurrency,
        ];
        all.contains(&Some(0))
    };
    if let Some((name, _)) = file.accounts.iter().find(|(_, limits)| is_zero(limits)) {
        return Err(wrong(&format!("a limit of 0 would stop `{name}` for ever")));
    }
    // As workers name them.
    let named = |(name, limits): (String, Limits)| (name.trim_end_matches('/').to_owned(), limits);
    Ok(file.accounts.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_what_is_wrong_is_said() {
        let text =
            "accounts:\n  https://a/v1/:\n    requests_per_minute: 5\n  b: {concurrency: 2}\n";
        let read_ok = read(text, "l.yaml").unwrap();
        assert_eq!(read_ok["https://a/v1"].requests_per_minute, Some(5));
        assert_eq!(read_ok["b"].concurrency, Some(2));
        for (text, want) in [
            (
                "accounts: {a: {request_per_minute: 5}}",
                "request_per_minute",
            ),
            ("acounts: {}", "acounts"),
            ("accounts: {a: {concurrency: 0}}", "for ever"),
            ("accounts: {a: {concurrency: -1}}", "invalid value"),
            ("accounts: [1, 2", "l.yaml"),
        ] {
            let failure = read(text, "l.yaml").unwrap_err();
            let message = &failure.errors[0].message;
            assert!(message.contains(want), "{text}: {message}");
        }
    }
}
