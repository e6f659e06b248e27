//! What a worker is told of a run.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skillopt_backends::clean::scrub;
use skillopt_backends::{CallError, ChatReply, Worked};
use skillopt_core::job::Usage;

use crate::cli::Version;
use crate::run::Finished;
use crate::trace;
use crate::verdict::{Verdict, usage};

impl super::Agent {
    /// Returns the release that did the tasks: its package's, else what it says of itself.
    pub(super) fn its_release(&self) -> Option<Version> {
        let told = self.told.get().copied().flatten();
        self.installed.version.or(told)
    }

    /// Returns what a worker is told of a run.
    ///
    /// # Errors
    /// Nothing can be said of the agent.
    pub fn told(&self, finished: Finished) -> Result<(ChatReply, Worked), CallError> {
        let direct = self.direct.as_ref();
        let key = direct.map(|direct| direct.key.expose().trim());
        let (reply, mut worked) = reply(finished, &self.backend, key.unwrap_or_default())?;
        // One that nobody knows is taken for one that was tried: whoever looks has to see that.
        let version = self.its_release().map(|version| version.to_string());
        let version = version.unwrap_or_else(|| "unknown".to_owned());
        worked.facts.insert("version".to_owned(), version.into());
        Ok((reply, worked))
    }
}

/// Makes what a worker is told. `key` is one that lay in the sandbox; empty if there was none.
fn reply(finished: Finished, backend: &str, key: &str) -> Result<(ChatReply, Worked), CallError> {
    let (text, failed) = match &finished.verdict {
        Verdict::Answered(text) => (text.clone(), None),
        Verdict::Failed(why) => {
            let text = finished.account.final_text.clone().unwrap_or_default();
            (text, Some(why.clone()))
        }
        Verdict::NotJudged(error) => return Err(error.clone()),
    };
    let is_direct = !key.is_empty();
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    put("agent", backend.into());
    put("ending", json!(finished.account.outcome));
    let usage = if is_direct {
        // What nobody told is not known: it is never said to be nothing.
        let tokens = match finished.account.usage {
            Some(_) => "as the program itself counts them",
            None => "unknown: the program told none, and nothing else can count them",
        };
        put("tokens", tokens.into());
        put("connections", finished.passed.connections.into());
        put("bytes_sent", finished.passed.bytes_sent.into());
        put("bytes_received", finished.passed.bytes_received.into());
        if !finished.kept_from.is_empty() {
            put("refused", finished.kept_from.clone().into());
        }
        own_usage(&finished)
    } else {
        put("skill_reached_the_model", finished.is_skill_seen.into());
        put("requests", finished.record.exchanges.len().into());
        usage(&finished.record)
    };
    if !finished.record.refused.is_empty() {
        let words = finished.record.refused.iter().map(ToString::to_string);
        put("refused", words.collect());
        put("refusals", finished.record.refusals.into());
    }
    if finished.left_behind > 0 {
        put("processes_killed_at_the_end", finished.left_behind.into());
    }
    if !finished.refused.is_empty() {
        let words = finished.refused.iter();
        let words = words.map(|file| format!("{}: {}", file.path.display(), file.why));
        put("files_refused", words.collect());
    }
    let mut trace = trace::entries(&finished.record);
    if trace.is_empty() {
        trace = finished.account.trace;
    }
    let files: BTreeMap<String, Vec<u8>> = finished
        .files
        .into_iter()
        .map(|(path, bytes)| (path.to_string_lossy().into_owned(), bytes))
        .collect();
    let mut worked = Worked {
        failed,
        files,
        facts,
        trace,
    };
    if is_direct {
        scrub(&mut worked, &[key]);
    }
    Ok((ChatReply::text(text, usage), worked))
}

/// The tokens of a program that has no relay, as it counts them.
fn own_usage(finished: &Finished) -> Usage {
    let told = finished.account.usage.unwrap_or_default();
    Usage {
        calls: 1,
        prompt_tokens: told.input_tokens,
        completion_tokens: told.output_tokens,
        cached_tokens: told.cached_input_tokens,
        reasoning_tokens: told.reasoning_output_tokens.unwrap_or(0),
        cache_write_tokens: told.cache_write_input_tokens.unwrap_or(0),
        ..Usage::default()
    }
}
