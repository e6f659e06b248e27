//! An evaluation: one rollout of a skill, no optimizer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillopt_config::RunConfig;
use skillopt_core::Hash;
use skillopt_queue::RunId;

use crate::events::Event;
use crate::folder::RunFolder;
use crate::halt::Halt;
use crate::jobs::{Jobs, RolloutAsk, Stage, Urgency};
use crate::log::Log;
use crate::prepare::{self, PrepareError, Prepared};
use crate::sample::Sample;

/// Folder of the rollouts below the run folder.
pub const STAGE: &str = "rollout";

/// Which items to score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// What training draws from.
    Train,
    /// What the gate looks at.
    Val,
    /// What stays sealed during training.
    Test,
    /// All three, one after the other.
    All,
}

impl Split {
    /// Returns its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
            Self::All => "all",
        }
    }
}

/// What is evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The skill as it was named.
    pub skill: String,
    /// The items.
    pub split: Split,
}

impl Evaluation {
    /// Makes a training's configuration one of this evaluation.
    pub fn adapt(&self, config: &mut RunConfig) {
        config.skill_init.clone_from(&self.skill);
        config.train_size = 0;
        config.eval_test = false;
    }

    /// Loads what the evaluation needs; `config` is [adapted](Self::adapt).
    ///
    /// # Errors
    /// See [`PrepareError`]; nothing is written in any case.
    pub fn prepare(&self, config: &RunConfig) -> Result<Prepared, PrepareError> {
        self.of(config, prepare::prepare(config)?)
    }

    /// Makes a prepared run this evaluation, with a name of its own, so that a folder is not used
    /// for two.
    ///
    /// # Errors
    /// It has nothing to score.
    pub fn of(&self, config: &RunConfig, mut prepared: Prepared) -> Result<Prepared, PrepareError> {
        let facts = &mut prepared.facts;
        facts.insert("command".to_owned(), "eval".into());
        facts.insert("split".to_owned(), self.split.word().into());
        facts.insert("skill".to_owned(), self.skill.clone().into());
        let bytes = serde_json::to_vec(facts)?;
        let run = prepared.common.run.as_str().as_bytes().to_vec();
        let run = Hash::of_parts([bytes.as_slice(), &run]).short();
        prepared.common.run = RunId::new(&run);
        prepared.common.payers = prepared.common.payers.of_run(&run);
        if self.items(config, &prepared).is_empty() {
            return Err(PrepareError::NothingJudged(self.split.word()));
        }
        Ok(prepared)
    }

    /// Chooses the items: whole splits for `all`, else at most `test_env_num` (training spec 7.7).
    #[must_use]
    pub fn items<'a>(&self, config: &RunConfig, prepared: &'a Prepared) -> Vec<&'a Sample> {
        let samples = &prepared.plan.samples;
        let limit = match config.test_env_num {
            0 => usize::MAX,
            n => n,
        };
        match self.split {
            Split::Train => samples.train.iter().take(limit).collect(),
            Split::Val => samples.val.iter().take(limit).collect(),
            Split::Test => samples.test.iter().take(limit).collect(),
            Split::All => samples
                .train
                .iter()
                .chain(&samples.val)
                .chain(&samples.test)
                .collect(),
        }
    }

    /// Rolls the skill out and tells the log.
    ///
    /// # Errors
    /// What pauses or ends the run before; every answer that came in is kept by `jobs`.
    pub async fn run(
        &self,
        prepared: &Prepared,
        items: &[&Sample],
        jobs: &impl Jobs,
        log: &Log,
    ) -> Result<Stage, Halt> {
        let ask = RolloutAsk {
            stage: STAGE,
            skill: &prepared.plan.initial,
            items,
            repeats: &[],
            keep_records: false,
            urgency: Urgency::Next,
        };
        let stage = jobs.rollouts(ask).await?;
        let (split, n) = (self.split.word(), stage.rolled.len());
        log.commit(Event::evaluated(split, stage.score(), n, stage.usage))
            .await?;
        Ok(stage)
    }

    /// Writes what came out beside the rollouts, and returns the summary.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(
        &self,
        folder: &RunFolder,
        prepared: &Prepared,
        stage: &Stage,
    ) -> Result<Value, Halt> {
        let (hard, soft) = stage.score();
        let mut summary = json!({
            "skill": self.skill,
            "split": self.split.word(),
            "n_items": stage.rolled.len(),
            "hard": hard,
            "soft": soft,
        });
        // What is as it should be is not told of.
        if let Some((items, cause)) = stage.unanswered() {
            summary["no_answer"] = json!({"items": items, "cause": cause});
        }
        if stage.usage.truncated_calls > 0 {
            summary["truncated_calls"] = stage.usage.truncated_calls.into();
        }
        folder.json("config.json", &prepared.config)?;
        folder.json("eval_summary.json", &summary)?;
        Ok(summary)
    }
}
