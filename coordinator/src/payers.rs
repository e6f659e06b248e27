//! Who pays for the calls of a run, what they cost, and how much they may come to.

use std::path::Path;

use serde::{Deserialize, Serialize};
use skillopt_config::{PriceError, Prices, RunConfig};
use skillopt_core::job::{Payer, Work};
use skillopt_queue::ledger::Caps;

/// Who pays for the calls of a run: one payer for each of its models, for they cost differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payers {
    /// Pays for calls of the target; `None` if nobody counts.
    pub target: Option<Payer>,
    /// Pays for calls of the optimizer.
    pub optimizer: Option<Payer>,
}

/// Why nobody can pay.
#[derive(Debug, thiserror::Error)]
pub enum PayError {
    /// The prices cannot be read.
    #[error(transparent)]
    Prices(#[from] PriceError),
    /// A cap in dollars needs a price.
    #[error(
        "`budget.usd` is set, but the price of `{model}` is unknown; name it in the file of \
         `budget.prices` (`prices: [{{model: {model}, input: …, output: …}}]`, US dollars for a \
         million tokens), or cap `budget.tokens` instead"
    )]
    Unpriced {
        /// The model.
        model: String,
    },
}

impl Payers {
    /// Reads who pays, and at which prices; the run gets its name by [`Payers::of_run`].
    ///
    /// # Errors
    /// The prices cannot be read, or a cap in dollars needs one that is unknown.
    pub fn new(config: &RunConfig) -> Result<Self, PayError> {
        let prices = prices(config)?;
        let is_capped = !caps(config).is_none();
        let payer = |model: &str| {
            let price = prices.price_of(model).map(|found| found.price);
            if price.is_none() && config.budget_usd.is_some() {
                let model = model.to_owned();
                return Err(PayError::Unpriced { model });
            }
            Ok(Some(Payer {
                run: String::new(),
                sweep: String::new(),
                tenant: String::new(),
                price,
                is_capped,
            }))
        };
        Ok(Self {
            target: payer(&config.target_model)?,
            optimizer: payer(&config.optimizer_model)?,
        })
    }

    /// Lets a sweep and a tenant pay too; `is_capped` says whether one of them has a cap. Where
    /// nobody paid, somebody of unknown price does now: no call goes past the caps.
    #[must_use]
    pub fn shared_with(mut self, sweep: &str, tenant: &str, is_capped: bool) -> Self {
        for payer in [&mut self.target, &mut self.optimizer] {
            let payer = payer.get_or_insert_with(|| Payer {
                run: String::new(),
                sweep: String::new(),
                tenant: String::new(),
                price: None,
                is_capped,
            });
            sweep.clone_into(&mut payer.sweep);
            tenant.clone_into(&mut payer.tenant);
            payer.is_capped |= is_capped;
        }
        self
    }

    /// Lets the run named `run` pay.
    #[must_use]
    pub fn of_run(mut self, run: &str) -> Self {
        for payer in [&mut self.target, &mut self.optimizer]
            .into_iter()
            .flatten()
        {
            run.clone_into(&mut payer.run);
        }
        self
    }

    /// Returns whether the calls of each model are reserved before they are made.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        let is_capped = |payer: &Payer| payer.is_capped;
        [&self.target, &self.optimizer]
            .into_iter()
            .all(|payer| payer.as_ref().is_some_and(is_capped))
    }

    /// Returns whether the price of each model is known.
    #[must_use]
    pub fn is_priced(&self) -> bool {
        let is_priced = |payer: &Payer| payer.price.is_some();
        [&self.target, &self.optimizer]
            .into_iter()
            .all(|payer| payer.as_ref().is_some_and(is_priced))
    }

    /// Returns who pays for a piece of work.
    #[must_use]
    pub const fn of(&self, work: &Work) -> Option<&Payer> {
        match work {
            Work::Rollout(_) => self.target.as_ref(),
            Work::Chat(_) => self.optimizer.as_ref(),
        }
    }
}

/// Returns what a run may use at most.
#[must_use]
pub fn caps(config: &RunConfig) -> Caps {
    Caps {
        requests: config.budget_requests,
        tokens: config.budget_tokens,
        micro_usd: config.budget_usd.map(micro_usd),
    }
}

/// Reads the prices of a run: its own file goes before what is shipped.
///
/// # Errors
/// They cannot be read.
pub fn prices(config: &RunConfig) -> Result<Prices, PriceError> {
    let own = match config.budget_prices.as_str() {
        "" => Prices::default(),
        path => Prices::load(Path::new(path))?,
    };
    Ok(own.or(Prices::shipped()?))
}

/// Returns US dollars in millionths, rounded down: a cap is not exceeded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 10^15"
)]
fn micro_usd(usd: f64) -> u64 {
    // What the float lacks to the written digits is not rounded down to a millionth less.
    (usd * 1e6 + 1e-3).floor().clamp(0.0, 1e15) as u64
}

#[cfg(test)]
mod tests {
    use skillopt_core::job::Price;

    use super::*;

    #[test]
    fn a_cap_in_dollars_needs_the_price_of_every_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(
            &path,
            "prices:\n  - {model: known, input: 1.5, output: 2}\n",
        )
        .unwrap();
        let mut config = RunConfig {
            target_model: "known".to_owned(),
            optimizer_model: "other".to_owned(),
            budget_prices: path.display().to_string(),
            ..RunConfig::default()
        };
        let payers = Payers::new(&config).unwrap();
        let target = payers.target.as_ref().unwrap();
        let price = Price {
            input: 1_500_000,
            output: 2_000_000,
            ..Price::default()
        };
        assert_eq!(target.price, Some(price));
        assert!(!target.is_capped);
        assert!(!payers.is_priced());
        config.budget_tokens = Some(5);
        assert!(Payers::new(&config).unwrap().target.unwrap().is_capped);
        config.budget_usd = Some(0.29);
        let error = Payers::new(&config).unwrap_err().to_string();
        assert!(error.contains("`other`"), "{error}");
        config.optimizer_model = "known".to_owned();
        assert!(Payers::new(&config).unwrap().is_priced());
        assert_eq!(caps(&config).micro_usd, Some(290_000));
    }

    #[test]
    fn a_bundle_that_names_no_payers_is_paid_by_its_run_all_the_same() {
        assert!(!Payers::default().is_priced());
        let payers = Payers::default().shared_with("s", "t", true).of_run("r");
        for payer in [payers.target.unwrap(), payers.optimizer.unwrap()] {
            let names = (&*payer.run, &*payer.sweep, &*payer.tenant);
            assert_eq!(names, ("r", "s", "t"));
            assert!(payer.is_capped && payer.price.is_none());
        }
    }
}
