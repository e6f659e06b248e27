//! The longitudinal comparison of two skills on the same items (training spec 1.9, 1.10).

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::{try_join, try_join_all};
use serde_json::{Map, Value};
use skillopt_benchmarks::splits::train_batch;
use skillopt_core::job::RolloutRecord;
use skillopt_core::pairs::{self, Pair, Policy};
use skillopt_core::skill::Folder;
use skillopt_core::trajectory;

use super::Run;
use super::tokens::Tokens;
use crate::halt::Halt;
use crate::jobs::{Jobs, RolloutAsk, Stage, Urgency};

/// The outcome of a comparison.
pub(super) struct Comparison {
    pub(super) pairs: Vec<Pair>,
    pub(super) prev_hard: f64,
    pub(super) curr_hard: f64,
}

/// Two skills, and where their rollouts go.
pub(super) struct Sides<'a> {
    pub(super) folder: &'a str,
    pub(super) prev: &'a Arc<Folder>,
    pub(super) curr: &'a Arc<Folder>,
    pub(super) tokens: &'a Tokens,
}

impl<J: Jobs> Run<'_, J> {
    /// Compares two skills on a sample of the train split drawn for `epoch`.
    pub(super) async fn compare(&self, sides: &Sides<'_>, epoch: u64) -> Result<Comparison, Halt> {
        let seed = self
            .plan
            .seed
            .wrapping_add(i64::try_from(epoch).unwrap_or(i64::MAX).wrapping_mul(2_000));
        let train_size = self.plan.samples.train.len();
        let sample = train_batch(train_size, self.plan.compared, seed).items;
        let (prev, curr) = self.roll_both(sides, &sample, "").await?;
        let mut all = self.pairs(&sample, &prev, &curr);
        if self.plan.policy == Policy::Changed {
            let rest = train_batch(train_size, train_size, seed).items;
            self.top_up(sides, &sample, rest, &mut all).await?;
        }
        let mut kept: Vec<Pair> = all
            .iter()
            .filter(|p| self.plan.policy.keeps(p.category))
            .cloned()
            .collect();
        if self.plan.policy == Policy::Changed {
            kept.truncate(self.plan.compared);
        }
        if self.plan.policy != Policy::Mixed {
            self.folder
                .json(&format!("{}/comparison_pairs_all.json", sides.folder), &all)?;
        }
        self.folder
            .json(&format!("{}/comparison_pairs.json", sides.folder), &kept)?;
        Ok(Comparison {
            pairs: kept,
            prev_hard: prev.score().0,
            curr_hard: curr.score().0,
        })
    }

    /// Walks the rest of the train split until enough items changed. As many items are rolled
    /// out together as are still missing, so that none is rolled out in vain.
    async fn top_up(
        &self,
        sides: &Sides<'_>,
        sample: &[usize],
        order: Vec<usize>,
        all: &mut Vec<Pair>,
    ) -> Result<(), Halt> {
        let paired: HashSet<usize> = sample.iter().copied().collect();
        let mut rest = order.into_iter().filter(|i| !paired.contains(i)).peekable();
        let mut names = HashSet::new();
        while rest.peek().is_some() {
            let changed = all
                .iter()
                .filter(|p| self.plan.policy.keeps(p.category))
                .count();
            let missing = self.plan.compared.saturating_sub(changed);
            if missing == 0 {
                break;
            }
            let wave: Vec<(usize, String)> = rest
                .by_ref()
                .take(missing)
                .map(|index| (index, self.top_up_name(index, &mut names)))
                .collect();
            let rolled = wave.iter().map(|(index, name)| async move {
                let stages = self
                    .roll_both(sides, &[*index], &format!("/topup/{name}"))
                    .await?;
                Ok::<_, Halt>((*index, stages))
            });
            for (index, (prev, curr)) in try_join_all(rolled).await? {
                all.extend(self.pairs(&[index], &prev, &curr));
            }
        }
        Ok(())
    }

    /// Names the folder of one item; ids that look alike there get a number.
    fn top_up_name(&self, index: usize, names: &mut HashSet<String>) -> String {
        let id = self
            .plan
            .samples
            .train
            .get(index)
            .map_or("", |s| s.item.id.as_str());
        let mut name = pairs::safe_id(id);
        // `.` and `..` are no names; of two that look alike the later ones get numbers.
        while name.starts_with('.') || names.contains(&name) {
            name = format!("item-{index}-{}", name.trim_start_matches('.'));
        }
        names.insert(name.clone());
        name
    }

    async fn roll_both(
        &self,
        sides: &Sides<'_>,
        items: &[usize],
        below: &str,
    ) -> Result<(Stage, Stage), Halt> {
        let items = self.train_items(items);
        let roll = |skill, name: &'static str| {
            let items = &items;
            async move {
                let stage = format!("{}/{name}{below}", sides.folder);
                let ask = RolloutAsk {
                    stage: &stage,
                    skill,
                    items,
                    repeats: &[],
                    keep_records: true,
                    urgency: Urgency::Next,
                };
                self.jobs.rollouts(ask).await
            }
        };
        let (prev, curr) = try_join(
            roll(sides.prev, "rollout_prev"),
            roll(sides.curr, "rollout_curr"),
        )
        .await?;
        sides.tokens.add("rollout", prev.usage);
        sides.tokens.add("rollout", curr.usage);
        Ok((prev, curr))
    }

    fn pairs(&self, items: &[usize], prev: &Stage, curr: &Stage) -> Vec<Pair> {
        let items: Vec<&Map<String, Value>> = items
            .iter()
            .filter_map(|&i| self.plan.samples.train.get(i))
            .map(|s| s.fields())
            .collect();
        let texts = |stage: &Stage| -> Vec<String> {
            stage
                .records()
                .map(|r| trajectory::Item::of(r, self.plan.trace).conversation_text())
                .collect()
        };
        let (prev_texts, curr_texts) = (texts(prev), texts(curr));
        let prev: Vec<_> = prev.records().zip(&prev_texts).map(rollout).collect();
        let curr: Vec<_> = curr.records().zip(&curr_texts).map(rollout).collect();
        pairs::build(&items, &prev, &curr)
    }
}

fn rollout<'a>((record, trajectory): (&'a Arc<RolloutRecord>, &'a String)) -> pairs::Rollout<'a> {
    pairs::Rollout {
        row: &record.row,
        trajectory,
    }
}
