//! A call on its way: whatever becomes of it, it is counted once.

use std::sync::Arc;

use skillopt_backends::{CallError, ChatReply, Outcome, Passed};
use skillopt_core::job::{Payer, Price, Usage};
use skillopt_queue::ledger::{Amount, Tally, Use};
use skillopt_queue::rates;

use super::accounts::{answered, failed};
use super::cost::{self, billed, spent};
use super::{Meter, Which, lock};

/// A call on its way.
pub(super) struct Open {
    meter: Arc<Meter>,
    id: String,
    account: String,
    payer: Option<Payer>,
    of: Use,
    most: Amount,
    /// Whether it may have reached the provider.
    pub(super) is_made: bool,
    /// It is broken off as soon as the other one answers, and no cap pays for it: its input is the
    /// best estimate.
    is_copy: bool,
    is_closed: bool,
}

impl Open {
    pub(super) fn new(meter: &Arc<Meter>, which: Which<'_>, of: Use, most: Amount) -> Self {
        Self {
            meter: Arc::clone(meter),
            id: which.id.to_owned(),
            account: which.profile.account().to_owned(),
            payer: which.payer.cloned(),
            of,
            most,
            is_made: false,
            is_copy: false,
            is_closed: false,
        }
    }

    /// A second copy of a call, which was made.
    pub(super) fn copy(meter: &Arc<Meter>, which: Which<'_>, of: Use, most: Amount) -> Self {
        let mut open = Self::new(meter, which, of, most);
        (open.is_made, open.is_copy) = (true, true);
        open
    }

    /// Ends a call that was made.
    pub(super) fn close(self, answer: &Result<ChatReply, CallError>) {
        let outcome = Outcome::of(answer).as_str();
        match answer {
            Ok(reply) if self.is_uncounted(reply.usage) => self.uncounted(outcome),
            Ok(reply) => self.answered(reply.usage, outcome),
            Err(e) => self.failed(e, outcome),
        }
    }

    /// Ends a request of an agent. An answer that nobody counted, or whose end nobody saw, may have
    /// been as long as allowed: a cap has to hold also then.
    pub(super) fn pass(self, passed: &Passed) {
        match passed {
            Passed::Answered(usage) if usage.prompt_tokens + usage.completion_tokens > 0 => {
                self.answered(*usage, Outcome::Answer.as_str());
            }
            Passed::Answered(_) => self.uncounted(Outcome::Answer.as_str()),
            Passed::Abandoned => drop(self),
            Passed::Failed(e) => {
                let outcome = Outcome::of(&Err(e.clone())).as_str();
                self.failed(e, outcome);
            }
        }
    }

    /// It was not made, and nothing is held for it.
    pub(super) fn forget(mut self) {
        self.is_closed = true;
    }

    fn answered(mut self, usage: Usage, outcome: &str) {
        self.tell(answered(usage));
        self.count(spent(usage, self.price()), usage, outcome);
    }

    /// Returns whether a cap has to hold over an answer whose tokens the provider did not count.
    fn is_uncounted(&self, usage: Usage) -> bool {
        let is_capped = self.payer.as_ref().is_some_and(|payer| payer.is_capped);
        is_capped && usage.prompt_tokens + usage.completion_tokens == 0
    }

    /// It may have been as long as allowed.
    fn uncounted(mut self, outcome: &str) {
        self.tell(rates::Outcome::Answered(self.most.tokens()));
        self.count(self.most, Usage::default(), outcome);
    }

    fn failed(mut self, error: &CallError, outcome: &str) {
        self.meter.accounts.befell(&self.account, error);
        self.tell(failed(error));
        let price = self.price();
        let (usage, used) = match error.usage().filter(|told| told.prompt_tokens > 0) {
            Some(told) => (told, spent(told, price)),
            None => (Usage::default(), billed(error, self.most)),
        };
        self.count(used, usage, outcome);
    }

    fn price(&self) -> Option<Price> {
        self.payer.as_ref().and_then(|payer| payer.price)
    }

    fn tell(&self, outcome: rates::Outcome) {
        self.meter.accounts.ended(&self.account, &self.id, outcome);
    }

    fn count(&mut self, used: Amount, usage: Usage, outcome: &str) {
        self.is_closed = true;
        let meter = &self.meter;
        let is_capped = self.payer.as_ref().is_some_and(|payer| payer.is_capped);
        if is_capped || meter.accounts.rates.is_some() {
            meter.is_due.notify_one();
        }
        if let Some(payer) = &self.payer {
            let mut tally = Tally::default();
            if used.requests > 0 {
                let counts = cost::counts(used, usage, payer.price.is_none(), outcome);
                tally.add(std::mem::take(&mut self.of), &counts);
            }
            lock(&meter.gathered).add(&self.id, payer, used, &tally);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        let used = match (self.is_made, self.is_copy) {
            (true, true) => cost::input(self.most, self.price()),
            (true, false) => self.most,
            (false, _) => Amount::default(),
        };
        if self.is_made && !self.is_copy {
            // Its place with the account is free.
            self.tell(rates::Outcome::Nothing);
        }
        if self.is_made || self.payer.as_ref().is_some_and(|payer| payer.is_capped) {
            self.count(used, Usage::default(), "dropped");
        }
    }
}
