//! The contract of a benchmark: load the items, run one of them, score the answer.
//!
//! The training loop calls [`Benchmark::load`] once and gets everything it needs to make jobs; a
//! worker calls [`Benchmark::rollout`] for one job and gets one scored trajectory. There is no
//! batch loop, no retry and no resume in a benchmark: these live in one place of the worker
//! (benchmarks spec 8.2).

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillopt_backends::{CallError, ChatReply, Message, Worked, Workspace};
use skillopt_core::job::RolloutRecord;

use crate::error::{LoadError, RolloutError};
pub use crate::load_args::LoadArgs;
use crate::splits::{Generated, Splits};

/// The agent under training, as a benchmark sees it. The worker implements it: model, endpoint,
/// sampling, timeout and retries are its business, and it counts the tokens.
#[async_trait]
pub trait Target: Send + Sync {
    /// Sends a conversation and returns the answer; `max_tokens` limits the answer.
    ///
    /// # Errors
    /// No answer could be had. A benchmark passes this on as it is; it never becomes a score.
    async fn ask(&self, messages: Vec<Message>, max_tokens: u32) -> Result<ChatReply, CallError>;

    /// Returns whether it is an agent that does its task in a folder.
    fn is_agent(&self) -> bool {
        false
    }

    /// Has an agent do a task: `prompt` says what, `workspace` where.
    ///
    /// # Errors
    /// Nothing can be said of the agent. What it did wrong by itself is told in
    /// [`Worked::failed`].
    async fn work(
        &self,
        prompt: String,
        workspace: Workspace,
        max_tokens: u32,
    ) -> Result<(ChatReply, Worked), CallError> {
        drop((prompt, workspace, max_tokens));
        Err(CallError::Misconfigured {
            endpoint: "target model".to_owned(),
            status: 0,
            detail: "it only talks; choose an agent as the target".to_owned(),
        })
    }
}

/// One rollout to do. Everything in here is part of the job's key.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The item, as [`Benchmark::load`] returned it.
    pub item: &'a Value,
    /// The text of the skill's `SKILL.md`.
    pub skill: &'a str,
    /// The skill's other text files by path; empty for the common single-document skill.
    pub skill_files: &'a BTreeMap<String, String>,
    /// The [`Suite::settings`] the item was loaded with.
    pub settings: &'a Value,
}

/// A task suite. A new one is a folder of this crate and one line in [`crate::registry`].
#[async_trait]
pub trait Benchmark: Send + Sync {
    /// Registered name, as in `env.name` of the configuration.
    fn name(&self) -> &'static str;

    /// Version of its prompts and its scorer. Part of every job's key: change it whenever an old
    /// answer or an old score would no longer be right.
    fn version(&self) -> &'static str;

    /// Loads the items and everything a run needs to know about them. Called once per run; reads
    /// files, so call it outside an async worker thread.
    ///
    /// # Errors
    /// The data is missing, unreadable or wrong; the text names the file and what to do.
    fn load(&self, args: &LoadArgs) -> Result<Suite, LoadError>;

    /// Returns whether a rollout can fail after an answer was paid for: it has further turns, or a
    /// program judges it. The worker then stores each answer by itself, so that none is asked for
    /// again.
    fn keeps_answers(&self, settings: &Value) -> bool;

    /// Returns the text files of a rollout that follow from its task alone, such as the prompts
    /// that the target is sent, by file name. They are not stored with each rollout but rendered
    /// again when somebody looks: analysts, and the run folder.
    fn files(&self, task: Task<'_>) -> Map<String, Value>;

    /// Runs one item with one skill and scores the answer. The returned record's `usage` covers
    /// the calls made through `target`.
    ///
    /// # Errors
    /// The world around the agent failed: no answer, no judge, an item that cannot be read. See
    /// [`RolloutError::disposition`]. The agent's own failures are `Ok` with
    /// [`skillopt_core::job::Ending::AgentFailed`].
    ///
    /// # Cancel safety
    /// Dropping the future abandons the rollout and ends every process it started.
    async fn rollout(
        &self,
        task: Task<'_>,
        target: &dyn Target,
    ) -> Result<RolloutRecord, RolloutError>;
}

impl Task<'_> {
    /// Returns the skill as a chat target reads it: the document, and below it the text files that
    /// it brings, each under its path.
    #[must_use]
    pub fn skill_text(&self) -> Cow<'_, str> {
        if self.skill_files.is_empty() {
            return Cow::Borrowed(self.skill);
        }
        let mut text = self.skill.trim().to_owned();
        for (path, content) in self.skill_files {
            text.push_str("\n\n### File `");
            text.push_str(path);
            text.push_str("`\n");
            text.push_str(content.trim_end());
        }
        Cow::Owned(text)
    }
}

/// Names the prompts of a rollout as the files that analysts and people read.
pub(crate) fn prompt_files(system: String, user: String) -> Map<String, Value> {
    [
        ("target_system_prompt.txt", system),
        ("target_user_prompt.txt", user),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_owned(), text.into()))
    .collect()
}

/// A loaded benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// What people call it: the registered name, or a custom benchmark's own.
    pub title: String,
    /// The items.
    pub splits: Splits,
    /// The split folder of mode `ratio`, to be written once the run folder is ours.
    pub generated: Option<Generated>,
    /// Settings of every rollout, the same for equal configurations; stored as a blob and part of
    /// the job's key. A worker needs nothing else: no folder travels.
    pub settings: Value,
    /// Names of the rows in the final table of accuracy by type.
    pub task_types: Vec<String>,
    /// What the error analyst may call a failure (training spec 6.3).
    pub failure_categories: Vec<String>,
    /// The benchmark's own analyst prompts; `None` takes the generic ones.
    pub analyst_prompts: AnalystPrompts,
}

/// System texts that replace the generic analyst prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnalystPrompts {
    /// For failed trajectories.
    pub error: Option<String>,
    /// For successful trajectories.
    pub success: Option<String>,
}
