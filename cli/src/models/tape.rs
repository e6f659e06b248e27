//! What was asked and answered, in a file: written by one run, and read by another in place of
//! models.
//!
//! Requests are kept as they are before a backend puts them on the wire, so that no header and no
//! address is among them. The failures that pass are not kept: a replay needs no second try.

mod reading;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Gate, Worked, Workspace};
use skillopt_core::hash::Hash;
use skillopt_core::job::Usage;

use crate::failure::Failure;

use reading::{Recording, Replayed};

/// Takes out of a text what must not be shown.
pub(super) type Scrub = Box<dyn Fn(&str) -> String + Send + Sync>;

/// What a run does with the answers of models, besides using them.
#[derive(Clone, Default)]
pub(crate) enum Tape {
    /// Nothing.
    #[default]
    Off,
    /// Writes them to a file.
    Record(Arc<Recorder>),
    /// Takes them from a file; no model is called.
    Replay(Arc<Recording>),
}

impl Tape {
    /// Opens the file that was named.
    ///
    /// # Errors
    /// It cannot be read or written, or is no recording.
    pub(crate) fn open(record: Option<&Path>, replay_from: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = replay_from {
            return Ok(Self::Replay(Arc::new(Recording::read(path)?)));
        }
        let Some(path) = record else {
            return Ok(Self::Off);
        };
        let recorder = Recorder::open(path).map_err(|error| {
            Failure::usage(format!("`{}` cannot be written: {error}", path.display()))
                .hint("`--record` takes the path of a file; what it holds is kept")
        })?;
        Ok(Self::Record(Arc::new(recorder)))
    }

    /// Returns whether models are called.
    pub(crate) const fn calls_models(&self) -> bool {
        !matches!(self, Self::Replay(_))
    }

    /// Returns the model that answers in place of `backend`, if one does.
    pub(super) fn in_place_of(&self, backend: &str) -> Option<Arc<dyn ChatModel>> {
        match self {
            Self::Replay(recording) => Some(Arc::new(Replayed::new(recording, backend))),
            Self::Off | Self::Record(_) => None,
        }
    }

    /// Returns a client whose answers are kept, if they are.
    pub(super) fn beside(
        &self,
        backend: &str,
        client: Arc<dyn ChatModel>,
        scrub: Scrub,
    ) -> Arc<dyn ChatModel> {
        let Self::Record(recorder) = self else {
            return client;
        };
        Arc::new(Recorded {
            backend: backend.to_owned(),
            recorder: Arc::clone(recorder),
            client,
            scrub,
        })
    }

    /// Returns what is missing in the file, in words, if something is.
    pub(crate) fn missing(&self) -> Option<String> {
        let Self::Record(recorder) = self else {
            return None;
        };
        let state = recorder.state();
        let error = state.error.as_ref()?;
        let path = recorder.path.display();
        Some(format!("`{path}` does not hold every answer: {error}"))
    }
}

/// What was said to a request, as far as a later run needs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Reply(ChatReply),
    Rejected {
        endpoint: String,
        status: u16,
        detail: String,
    },
    Filtered {
        endpoint: String,
        detail: String,
        usage: Usage,
    },
    Refused {
        endpoint: String,
        detail: String,
        usage: Usage,
    },
}

impl Said {
    /// Returns nothing for a failure that says nothing of the request.
    fn of(answer: &Result<ChatReply, CallError>) -> Option<Self> {
        let error = match answer {
            Ok(reply) => return Some(Self::Reply(reply.clone())),
            Err(error) => error.clone(),
        };
        match error {
            CallError::Rejected {
                endpoint,
                status,
                detail,
            } => Some(Self::Rejected {
                endpoint,
                status,
                detail,
            }),
            CallError::Filtered {
                endpoint,
                detail,
                usage,
            } => Some(Self::Filtered {
                endpoint,
                detail,
                usage,
            }),
            CallError::Refused {
                endpoint,
                detail,
                usage,
            } => Some(Self::Refused {
                endpoint,
                detail,
                usage,
            }),
            CallError::Throttled { .. }
            | CallError::Unauthorized { .. }
            | CallError::Server { .. }
            | CallError::Misconfigured { .. }
            | CallError::Connection { .. }
            | CallError::Timeout { .. }
            | CallError::Stalled { .. }
            | CallError::Malformed { .. }
            | CallError::Unfit { .. }
            | CallError::Machine { .. }
            | CallError::SignIn(_) => None,
        }
    }

    fn answer(self) -> Result<ChatReply, CallError> {
        Err(match self {
            Self::Reply(reply) => return Ok(reply),
            Self::Rejected {
                endpoint,
                status,
                detail,
            } => CallError::Rejected {
                endpoint,
                status,
                detail,
            },
            Self::Filtered {
                endpoint,
                detail,
                usage,
            } => CallError::Filtered {
                endpoint,
                detail,
                usage,
            },
            Self::Refused {
                endpoint,
                detail,
                usage,
            } => CallError::Refused {
                endpoint,
                detail,
                usage,
            },
        })
    }
}

/// Returns everything of a request that may change its answer.
fn asked(backend: &str, request: &ChatRequest) -> Value {
    json!({
        "backend": backend,
        "model": request.model,
        "messages": request.messages,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "reasoning_effort": request.reasoning_effort,
        "schema": request.schema,
    })
}

/// Names a request; what a person reads of it in the file may have been taken out.
fn key(asked: &Value) -> Hash {
    Hash::of(asked.to_string().as_bytes())
}

/// A file that grows by a line with each answer.
pub(crate) struct Recorder {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// Why the file ends before the run did.
    error: Option<io::Error>,
}

impl Recorder {
    /// Opens a file to go on behind its last whole line: a run that was stopped goes on with the
    /// same command, and does not ask again for what it has.
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)?;
        let whole = end_of_last_line(&mut file)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(State { file, error: None }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No section under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. An answer is worth more than its copy, so a full disk stops no run here.
    fn add(&self, line: &str) {
        let mut state = self.state();
        if state.error.is_none() {
            state.error = state.file.write_all(line.as_bytes()).err();
        }
    }
}

/// Bytes that are read at a time, from the end of a file.
const BLOCK: u64 = 64 << 10;

fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        io::Read::by_ref(file)
            .take(end - start)
            .read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// A client whose answers are kept.
struct Recorded {
    backend: String,
    recorder: Arc<Recorder>,
    client: Arc<dyn ChatModel>,
    scrub: Scrub,
}

#[async_trait]
impl ChatModel for Recorded {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let answer = self.client.chat(request).await;
        if let Some(said) = Said::of(&answer) {
            let asked = asked(&self.backend, request);
            let line = json!({
                "key": key(&asked), "stage": request.stage, "request": asked, "said": said,
            });
            self.recorder.add(&((self.scrub)(&line.to_string()) + "\n"));
        }
        answer
    }

    /// An agent's task is done and not recorded: what it did to its folder is more than answers. No
    /// command comes here, for recordings of runs with agents are refused.
    async fn work(
        &self,
        request: &ChatRequest,
        workspace: &Workspace,
        gate: &Arc<dyn Gate>,
    ) -> Result<(ChatReply, Worked), CallError> {
        self.client.work(request, workspace, gate).await
    }
}
