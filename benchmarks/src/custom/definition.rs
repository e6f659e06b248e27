//! `benchmark.yaml`: what a custom benchmark says about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The content of `benchmark.yaml` (or `.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What people call it.
    pub name: String,
    /// Where its items are.
    pub items: Items,
    /// Weights `train:val:test` for a single items file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_ratio: Option<String>,
    /// File with the user message; fields of the item in double braces.
    #[serde(default = "default_prompt")]
    pub prompt: String,
    /// File with a system message, put before the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// How an answer is judged.
    pub scorer: Scorer,
    /// More fields that must never reach the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Files that an agent finds in its folder: each name there, and the file of this folder, with
    /// fields of the item in double braces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Names of the files that an agent has to write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Files that only the judge sees, written as `inputs` are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected: BTreeMap<String, String>,
    /// Programs that an agent finds in its folder, each with what it prints; the row tells which of
    /// them it ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// The item's field that holds its type, for the table of accuracy by type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// What the error analyst may call a failure; empty takes the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_categories: Vec<String>,
}

fn default_prompt() -> String {
    "prompt.md".to_owned()
}

impl Definition {
    /// Returns whether only an agent can do its tasks: they are done in files, or with
    /// programs.
    #[must_use]
    pub fn is_for_agents(&self) -> bool {
        !(self.inputs.is_empty() && self.outputs.is_empty() && self.tools.is_empty())
            || matches!(self.scorer, Scorer::Files { .. })
    }
}

/// Item files: JSON, JSONL or CSV.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Items {
    /// One file, cut by `split_ratio`.
    One(String),
    /// A file for each part.
    Parts(Parts),
}

/// A file for each part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Trained on.
    pub train: String,
    /// Judged by.
    pub val: String,
    /// Sealed until the end.
    pub test: String,
}

/// How an answer is judged. Every kind but `command` compares with the item's field `gold`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Scorer {
    /// The answer equals the gold text (or one of a list), blanks collapsed.
    Exact {
        /// Field with the accepted answer(s).
        #[serde(default = "default_gold")]
        gold: String,
        /// Whether case matters.
        #[serde(default)]
        case_sensitive: bool,
    },
    /// `hard` is equality after normalising, `soft` the overlap of words.
    F1 {
        /// Field with the accepted answer(s).
        #[serde(default = "default_gold")]
        gold: String,
    },
    /// The reply matches a regular expression.
    Regex {
        /// Field with the expression, unless `pattern` is given.
        #[serde(default = "default_gold")]
        gold: String,
        /// One expression for every item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// A field of the JSON object in the reply equals the gold value.
    JsonField {
        /// The field of the reply's object.
        field: String,
        /// Field of the item with the wanted value.
        #[serde(default = "default_gold")]
        gold: String,
    },
    /// The last number of the answer is near the gold number.
    Numeric {
        /// Field with the number.
        #[serde(default = "default_gold")]
        gold: String,
        /// Largest allowed difference.
        #[serde(default)]
        tolerance: f64,
    },
    /// The files that an agent wrote are those of `expected`.
    Files {
        /// Whether blanks at the ends of lines, and empty lines at the end, do not matter.
        #[serde(default)]
        text: bool,
    },
    /// A program reads the item and the answer and says the score.
    Command {
        /// Program and arguments, run in a copy of the benchmark's folder.
        command: Vec<String>,
        /// Longest run, in seconds.
        #[serde(default = "default_timeout_s")]
        timeout_s: u64,
    },
}

fn default_gold() -> String {
    "answer".to_owned()
}

const fn default_timeout_s() -> u64 {
    60
}

impl Scorer {
    /// Returns the item's field that every item needs and the target must never see.
    #[must_use]
    pub fn gold(&self) -> Option<&str> {
        match self {
            Self::Regex {
                pattern: Some(_), ..
            }
            | Self::Files { .. }
            | Self::Command { .. } => None,
            Self::Exact { gold, .. }
            | Self::F1 { gold }
            | Self::Regex { gold, .. }
            | Self::JsonField { gold, .. }
            | Self::Numeric { gold, .. } => Some(gold),
        }
    }
}

/// Everything a rollout needs: travels as the settings of the job, so that a worker needs no folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The definition.
    pub definition: Definition,
    /// Text of the prompt file.
    pub prompt: String,
    /// Text of the system file.
    #[serde(default)]
    pub system: String,
    /// Files of the folder by name, for a command judge.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Most tokens of an answer.
    pub max_completion_tokens: u32,
}
