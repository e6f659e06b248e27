//! A program that stands in for the Azure command line.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Map, Value};

/// The program, in a folder of its own. It gives the tokens that the case expects, one after the
/// other, and writes down how it was called.
pub(super) struct FakeAz {
    folder: tempfile::TempDir,
    /// Whether the case lets a token go to the recorder.
    may_send: bool,
}

impl FakeAz {
    pub(super) fn new(case: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokens = tokens(case);
        for (at, token) in tokens.iter().enumerate() {
            std::fs::write(folder.path().join(format!("token{at}")), token).expect("a file");
        }
        // A token that is followed by another one was about to end.
        let seconds = if tokens.len() > 1 { 200 } else { 86_400 };
        let script = format!(
            "#!/bin/sh\n\
             cd {folder}\n\
             n=$(cat calls 2>/dev/null | wc -l)\n\
             echo \"$@\" >> calls\n\
             [ -f token$n ] || n=0\n\
             printf '{{\"accessToken\": \"%s\", \"expires_on\": %s}}' \"$(cat token$n)\" \
             $(( $(date +%s) + {seconds} ))\n",
            folder = folder.path().display()
        );
        let program = folder.path().join("az");
        std::fs::write(&program, script).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("a program");
        Self {
            folder,
            // The recordings were made on the loopback interface, to which a token never goes
            // unless a setting for tests says so. Cases about just that are marked as bugs.
            may_send: case["reference_bug"] != true,
        }
    }

    /// Returns the settings that make it the program to sign in with.
    pub(super) fn settings(&self) -> Map<String, Value> {
        let program = self.folder.path().join("az").display().to_string();
        let hosts = if self.may_send {
            "127.0.0.1,localhost"
        } else {
            ""
        };
        [
            ("azure_openai_cli_path".to_owned(), program.into()),
            ("azure_openai_token_hosts".to_owned(), hosts.into()),
        ]
        .into_iter()
        .collect()
    }

    /// Compares how it was called. The reference has two ways to write the same call, so that
    /// only what they have in common is looked at.
    pub(super) fn compare(&self, case: &Value) -> Result<(), String> {
        let calls = std::fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        let seen: Vec<&str> = calls.lines().collect();
        let wanted = case["expected_request"]["side_processes"].as_array();
        let wanted: Vec<Vec<&str>> = wanted
            .into_iter()
            .flatten()
            .map(|call| words(&call["argv"]))
            .collect();
        if seen.len() != wanted.len() {
            return Err(format!("az was called as {seen:?}, wanted {wanted:?}"));
        }
        for (seen, wanted) in seen.iter().zip(&wanted) {
            let has = seen.split(' ').collect::<Vec<_>>();
            let resource = after(wanted, "--resource");
            let is_same = has.starts_with(&["account", "get-access-token"])
                && after(&has, "--resource") == resource
                && has.contains(&"json");
            if !is_same {
                return Err(format!("az was called as {seen:?}, wanted {wanted:?}"));
            }
        }
        Ok(())
    }
}

fn words(list: &Value) -> Vec<&str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

fn after<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == flag)?;
    words.get(at + 1).copied()
}

/// The bearer tokens that the case expects, without repeats.
fn tokens(case: &Value) -> Vec<String> {
    let expected = &case["expected_request"];
    let requests = expected["requests"].as_array().into_iter().flatten();
    let mut tokens = Vec::new();
    for request in requests.chain([&expected["request"]]) {
        let header = request["headers"]["authorization"].as_str();
        if let Some(token) = header.and_then(|header| header.strip_prefix("Bearer "))
            && !tokens.contains(&token.to_owned())
        {
            tokens.push(token.to_owned());
        }
    }
    tokens
}
