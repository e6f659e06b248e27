//! Answers of an earlier run.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Gate, Worked, Workspace};
use skillopt_core::hash::Hash;

use super::{Said, asked, key};
use crate::failure::Failure;

/// What a line has to hold; the rest is for people.
#[derive(Deserialize)]
struct Line {
    key: Hash,
    said: Said,
}

/// What was said to one request, in the order in which it was said.
#[derive(Default)]
struct Answers {
    said: Vec<Said>,
    given: usize,
}

/// The answers of a file.
pub(crate) struct Recording {
    path: PathBuf,
    answers: Mutex<HashMap<Hash, Answers>>,
}

impl Recording {
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let unread = |error| Failure::usage(format!("`{shown}` cannot be read: {error}"));
        let mut answers: HashMap<Hash, Answers> = HashMap::new();
        let mut file = BufReader::new(File::open(path).map_err(unread)?);
        let mut line = Vec::new();
        for number in 1_usize.. {
            line.clear();
            file.read_until(b'\n', &mut line).map_err(unread)?;
            // The last line may be half of one, where a run was killed.
            if line.last() != Some(&b'\n') {
                break;
            }
            let Line { key, said } = serde_json::from_slice(&line).map_err(|error| {
                Failure::usage(format!("`{shown}` is no recording: line {number}: {error}"))
                    .hint("`--replay-from` takes a file that `--record` wrote")
            })?;
            answers.entry(key).or_default().said.push(said);
        }
        Ok(Self {
            path: path.to_owned(),
            answers: Mutex::new(answers),
        })
    }

    /// Returns the next answer to a request that was made several times; after the last, that one
    /// again.
    fn next(&self, key: Hash) -> Option<Said> {
        // No section under this lock can panic half-way.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = answers.get_mut(&key)?;
        let said = answers.said.get(answers.given).or(answers.said.last())?;
        answers.given += 1;
        Some(said.clone())
    }
}

/// Answers from a recording in place of a backend.
pub(super) struct Replayed {
    recording: Arc<Recording>,
    backend: String,
}

impl Replayed {
    pub(super) fn new(recording: &Arc<Recording>, backend: &str) -> Self {
        Self {
            recording: Arc::clone(recording),
            backend: backend.to_owned(),
        }
    }
}

#[async_trait]
impl ChatModel for Replayed {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let key = key(&asked(&self.backend, request));
        let said = self.recording.next(key).ok_or_else(|| {
            let words = request.messages.last().map(|last| last.content.as_text());
            let start: String = words.unwrap_or_default().chars().take(60).collect();
            CallError::Misconfigured {
                endpoint: self.recording.path.display().to_string(),
                status: 0,
                detail: format!(
                    "no answer to this request of `{}` to `{}` was recorded ({}; its last message \
                     begins with {start:?}); a replay needs the configuration and the data of the \
                     recorded run",
                    request.stage,
                    request.model,
                    key.short()
                ),
            }
        })?;
        said.answer()
    }

    async fn work(
        &self,
        _: &ChatRequest,
        _: &Workspace,
        _: &Arc<dyn Gate>,
    ) -> Result<(ChatReply, Worked), CallError> {
        Err(CallError::Misconfigured {
            endpoint: self.recording.path.display().to_string(),
            status: 0,
            detail: "the tasks of agents are not recorded; only answers of chat models are"
                .to_owned(),
        })
    }
}
