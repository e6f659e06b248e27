//! Whether it is known what calls of the models cost.

use skillopt_config::RunConfig;
use skillopt_coordinator::payers;

use super::{Check, State};
use crate::output::words::money;

const NAME: &str = "prices";

/// Looks the price of each role's model up. Prices that cannot be read are told with the data.
pub(super) fn check(config: &RunConfig) -> Option<Check> {
    let prices = payers::prices(config).ok()?;
    let roles = [
        ("target", &config.target_backend, &config.target_model),
        (
            "optimizer",
            &config.optimizer_backend,
            &config.optimizer_model,
        ),
    ];
    let called = roles
        .into_iter()
        .filter(|(_, backend, _)| *backend != "simulated");
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (role, _, model) in called {
        match prices.price_of(model) {
            Some(found) => {
                let (sent, received) = (dollars(found.price.input), dollars(found.price.output));
                let as_of = match found.as_of.as_str() {
                    "" => String::new(),
                    date => format!(" as of {date}"),
                };
                known.push(format!("{role} `{model}` {sent} and {received}{as_of}"));
            }
            None => unknown.push((role, model)),
        }
    }
    Some(match unknown.as_slice() {
        [] if known.is_empty() => Check::new(NAME, State::Fine, "simulated models cost nothing"),
        [] => {
            let known = known.join("; ");
            let words = format!("a million tokens sent and received: {known}");
            Check::new(NAME, State::Fine, words)
        }
        [(_, model), ..] => {
            let named: Vec<String> = unknown
                .iter()
                .map(|(role, model)| format!("{role} `{model}`"))
                .collect();
            let words = format!(
                "the price of {} is unknown: what calls cost is shown as unknown, and no cap in \
                 dollars can be set",
                named.join(" and of ")
            );
            Check::new(NAME, State::Weak, words).hint(format!(
                "name it in a file (`prices: [{{model: {model}, input: …, output: …}}]`, US dollars \
                 for a million tokens) and set `budget.prices` to its path"
            ))
        }
    })
}

/// Writes a price, in millionths of a dollar.
#[expect(
    clippy::cast_precision_loss,
    reason = "a price is far below nine thousand million dollars"
)]
fn dollars(micro_usd: u64) -> String {
    money(Some(micro_usd as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use skillopt_config::Prices;

    use super::*;

    fn seen(target: (&str, &str), optimizer: (&str, &str)) -> (State, String, Option<String>) {
        let config = RunConfig {
            target_backend: target.0.to_owned(),
            target_model: target.1.to_owned(),
            optimizer_backend: optimizer.0.to_owned(),
            optimizer_model: optimizer.1.to_owned(),
            ..RunConfig::default()
        };
        let check = check(&config).unwrap();
        (check.state, check.words, check.hint)
    }

    #[test]
    fn a_model_without_a_price_is_told_with_what_to_do() {
        let chat = "openai_chat";
        let (state, words, hint) = seen((chat, "gpt-4o"), (chat, "my-own"));
        assert_eq!(state, State::Weak);
        assert!(words.contains("optimizer `my-own` is unknown"), "{words}");
        assert!(
            !words.contains("gpt-4o") && !words.contains("$0"),
            "{words}"
        );
        assert!(hint.is_some_and(|h| h.contains("budget.prices") && h.contains("my-own")));

        let (state, words, hint) = seen((chat, "gpt-4o"), ("simulated", "my-own"));
        assert_eq!((state, hint), (State::Fine, None));
        let want = "target `gpt-4o` $2.50 and $10.00 as of 2025-09-01";
        assert!(words.ends_with(want), "{words}");

        let (state, words, _) = seen(("simulated", "a"), ("simulated", "b"));
        assert_eq!(state, State::Fine);
        assert_eq!(words, "simulated models cost nothing");
    }

    /// Nobody finds out by an unexpected word that the model that he did not choose has no price.
    #[test]
    fn models_that_nobody_chose_have_a_price_or_stand_in_the_documentation() {
        let page = include_str!("../../../../docs/budgets.md");
        let shipped = Prices::shipped().unwrap();
        let usual = RunConfig::default();
        let of_backends = skillopt_backends::registry::BACKENDS.iter();
        let of_backends = of_backends
            .filter(|backend| backend.name != "simulated")
            .flat_map(|backend| {
                [
                    skillopt_config::Role::Optimizer,
                    skillopt_config::Role::Target,
                ]
                .map(|role| (backend.default_model)(role))
            })
            .flatten();
        for model in of_backends.chain([usual.optimizer_model.as_str(), &usual.target_model]) {
            let is_told = page.contains(&format!("`{model}`"));
            let is_known = model.is_empty() || shipped.price_of(model).is_some();
            assert!(is_known || is_told, "`{model}` has no price");
        }
    }
}
