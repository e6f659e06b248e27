//! What a run will need, said before it starts.

use serde_json::{Value, json};
use skillopt_coordinator::prepare::Prepared;
use skillopt_coordinator::sample::Sample;
use skillopt_coordinator::train::Plan;
use skillopt_core::job::Price;
use skillopt_core::text;

use crate::output::words::{amount, count, plural};

/// Bytes of English text in a token, roughly.
const TOKEN_BYTES: u64 = 4;
/// Tokens that a target answers with, roughly.
const ANSWER_TOKENS: u64 = 150;
/// Tokens of an optimizer's instructions and answer, roughly.
const STAGE_TOKENS: u64 = 2_000;
/// Items whose size is looked at.
const LOOKED_AT: usize = 50;

/// Upper bounds of calls, and a guess at tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preflight {
    items: [usize; 3],
    steps: u64,
    target_calls: u64,
    optimizer_calls: u64,
    tokens: u64,
    /// Of these the target's and the optimizer's.
    tokens_by_role: [u64; 2],
}

impl Preflight {
    /// Works the bounds out from the plan (training spec 9.3).
    pub(crate) fn new(prepared: &Prepared, max_turns: u64) -> Self {
        let plan = &prepared.plan;
        let (train, val, test) = (
            plan.samples.train.len() as u64,
            limited(plan.val_items, plan.samples.val.len()),
            limited(plan.test_items, plan.samples.test.len()),
        );
        let steps = plan.total_steps();
        let later_epochs = plan.epochs.saturating_sub(1);
        let rollouts = (train * plan.epochs)
            .saturating_add(val * (1 + steps))
            .saturating_add(compared(plan) * 2 * later_epochs)
            .saturating_add(gated_slow_updates(plan) * val)
            .saturating_add(if plan.eval_test { val + 3 * test } else { 0 });
        let asked = optimizer_calls(plan).saturating_mul(steps).saturating_add(
            later_epochs * (u64::from(plan.slow_update.is_some()) + u64::from(plan.meta_skill)),
        );
        let per_item = average(&plan.samples.train)
            + text::length(&plan.initial.document) as u64 / TOKEN_BYTES
            + ANSWER_TOKENS;
        let per_ask = STAGE_TOKENS + plan.minibatch_size as u64 * per_item / 2;
        Self {
            items: [
                plan.samples.train.len(),
                plan.samples.val.len(),
                plan.samples.test.len(),
            ],
            steps,
            target_calls: rollouts.saturating_mul(max_turns.max(1)),
            optimizer_calls: asked.saturating_mul(1 + u64::from(plan.reask_unusable)),
            tokens: rollouts
                .saturating_mul(per_item)
                .saturating_add(asked.saturating_mul(per_ask)),
            tokens_by_role: [
                rollouts.saturating_mul(per_item),
                asked.saturating_mul(per_ask),
            ],
        }
    }

    /// Returns the most calls of the target and of the optimizer.
    pub(crate) const fn calls(&self) -> [u64; 2] {
        [self.target_calls, self.optimizer_calls]
    }

    /// Returns the guess at tokens.
    pub(crate) const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Guesses what it costs in millionths of a dollar at the prices of the target's and of the
    /// optimizer's model; `None` if one is unknown.
    pub(crate) fn micro_usd(&self, prices: [Option<Price>; 2]) -> Option<u64> {
        let [target, optimizer] = prices;
        let (target, optimizer) = (target?, optimizer?);
        let answered = self.target_calls.saturating_mul(ANSWER_TOKENS);
        let asked = self.optimizer_calls.saturating_mul(STAGE_TOKENS / 2);
        let [for_target, for_optimizer] = self.tokens_by_role;
        let target = target.at_most(for_target.saturating_sub(answered), answered);
        let optimizer = optimizer.at_most(for_optimizer.saturating_sub(asked), asked);
        Some(target.saturating_add(optimizer))
    }

    /// Says it in one line.
    pub(crate) fn words(&self) -> String {
        let [train, val, test] = self.items;
        format!(
            "{train}/{val}/{test} items, {}, at most {} target and {} optimizer calls, about {} tokens",
            plural(self.steps, "step"),
            count(self.target_calls),
            count(self.optimizer_calls),
            amount(self.tokens)
        )
    }

    pub(crate) fn to_json(self) -> Value {
        let [train, val, test] = self.items;
        json!({
            "train_items": train,
            "val_items": val,
            "test_items": test,
            "steps": self.steps,
            "target_calls_max": self.target_calls,
            "optimizer_calls_max": self.optimizer_calls,
            "tokens_about": self.tokens,
        })
    }
}

const fn limited(n: usize, all: usize) -> u64 {
    if n == 0 || n > all {
        all as u64
    } else {
        n as u64
    }
}

/// Items compared at the end of an epoch; looking for changed ones may go through all.
fn compared(plan: &Plan) -> u64 {
    let all = plan.samples.train.len();
    if plan.slow_update.is_none() && !plan.meta_skill {
        0
    } else if plan.policy == skillopt_core::pairs::Policy::Changed {
        all as u64
    } else {
        all.min(plan.compared) as u64
    }
}

fn gated_slow_updates(plan: &Plan) -> u64 {
    let is_gated = plan.slow_update == Some(skillopt_coordinator::train::SlowUpdate::Gated);
    if is_gated {
        plan.epochs.saturating_sub(1)
    } else {
        0
    }
}

/// Most optimizer calls of one step: analysts of failures and successes, merges, and one each for
/// ranking, the budget, a rewrite and the notes.
fn optimizer_calls(plan: &Plan) -> u64 {
    let batch = plan.epoch.batch_size.min(plan.samples.train.len()) as u64;
    let analysts =
        plan.epoch.accumulation as u64 * (batch.div_ceil(plan.minibatch_size.max(1) as u64) + 1);
    analysts + merges(analysts, plan.merge_batch_size as u64) + 4
}

/// Most merges of `n` patches on both sides: each level makes one patch of up to `batch`, then one
/// last merge joins the sides.
fn merges(n: u64, batch: u64) -> u64 {
    let (mut left, mut all) = (n, 1);
    while left > 1 {
        left = left.div_ceil(batch.max(2));
        // Both sides may have a batch that is not full.
        all += left + 1;
    }
    all
}

/// Average tokens of an item.
fn average(samples: &[Sample]) -> u64 {
    let looked_at = samples.len().min(LOOKED_AT);
    let bytes: usize = samples
        .iter()
        .take(looked_at)
        .map(|s| s.bytes().len())
        .sum();
    (bytes / looked_at.max(1)) as u64 / TOKEN_BYTES
}
