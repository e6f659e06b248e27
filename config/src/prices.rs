//! What models cost: by a file that the user keeps, and for the rest by a dated table of public list
//! prices that comes with the program. What is in neither is unknown, never free.
//!
//! ```yaml
//! prices:
//!   - model: gpt-5.5*      # `*` is any text; the first line that fits counts
//!     input: 1.25          # US dollars for a million tokens sent
//!     cached: 0.125        # of these, what the provider had in its cache; like `input` if left out
//!     cache_write: 1.25    # of these, what it wrote into its cache; like `input` if left out
//!     output: 10           # and received
//!     reasoning: 10        # of these, hidden reasoning; like `output` if left out
//!     as_of: 2026-05-01    # when somebody looked it up
//! ```

use std::path::Path;

use skillopt_core::job::Price;

use crate::load::{LoadError, read_layer};
use crate::node::{Data, Mapping, Node};
use crate::problem::Problem;
use crate::setting::{number, scalar_text};
use crate::suggest::nearest;
use crate::yaml;

/// Most lines of a price file.
const LINES_MAX: usize = 10_000;
/// Highest price, in US dollars for a million tokens; anything above is a slip of units.
const USD_MAX: f64 = 100_000.0;
const KEYS: [&str; 7] = [
    "model",
    "input",
    "cached",
    "cache_write",
    "output",
    "reasoning",
    "as_of",
];
/// Prices that come with the program.
const SHIPPED: &str = include_str!("../../data/prices.yaml");
/// What it is called in messages.
const SHIPPED_NAME: &str = "data/prices.yaml";

/// Why there are no prices.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It says something that is no price.
    #[error("{0}")]
    Wrong(Box<Problem>),
}

impl From<Box<Problem>> for PriceError {
    fn from(problem: Box<Problem>) -> Self {
        Self::Wrong(problem)
    }
}

/// The price of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPrice {
    /// What tokens cost.
    pub price: Price,
    /// When it was looked up, as the file says.
    pub as_of: String,
}

/// Prices by model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(Vec<(String, ModelPrice)>);

impl Prices {
    /// Reads a price file.
    ///
    /// # Errors
    /// It cannot be read, or a line is no price; the message names the place.
    pub fn load(path: &Path) -> Result<Self, PriceError> {
        Ok(Self::of(read_layer(path, &path.display().to_string())?)?)
    }

    /// Returns the public list prices that come with the program.
    ///
    /// # Errors
    /// Never, for a test reads them.
    pub fn shipped() -> Result<Self, PriceError> {
        let layer = yaml::parse(SHIPPED, SHIPPED_NAME).map_err(LoadError::from)?;
        Ok(Self::of(layer)?)
    }

    /// Returns these prices, and `others` for the models that have none here.
    #[must_use]
    pub fn or(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    fn of(mut layer: Mapping) -> Result<Self, Box<Problem>> {
        let list = layer.remove("prices");
        if let Some((key, node)) = layer.iter().next() {
            let mut problem = Problem::new(key, node, "is unknown in a price file");
            problem.allowed = Some("`prices` with a list".to_owned());
            return Err(Box::new(problem));
        }
        let Some(list) = list else {
            return Ok(Self::default());
        };
        match &list.data {
            Data::List(lines) if lines.len() <= LINES_MAX => {
                let lines: Result<Vec<_>, _> = lines.iter().map(line).collect();
                Ok(Self(lines?))
            }
            _ => Err(wrong("prices", &list, "is not a list of prices")),
        }
    }

    /// Returns the price of a model: that of the first line that fits.
    #[must_use]
    pub fn price_of(&self, model: &str) -> Option<&ModelPrice> {
        let (_, price) = self.0.iter().find(|(pattern, _)| fits(pattern, model))?;
        Some(price)
    }
}

fn wrong(key: &str, node: &Node, reason: &str) -> Box<Problem> {
    Box::new(Problem::new(key, node, reason))
}

fn line(node: &Node) -> Result<(String, ModelPrice), Box<Problem>> {
    let map = node.as_map();
    let map = map.ok_or_else(|| wrong("prices", node, "is not a mapping with a model's price"))?;
    if let Some((key, value)) = map.iter().find(|(key, _)| !KEYS.contains(key)) {
        let mut problem = Problem::new(format!("prices.{key}"), value, "is unknown");
        problem.nearest = nearest(key, KEYS).map(str::to_owned);
        return Err(Box::new(problem));
    }
    let model = text(map, node, "model")?;
    let price = ModelPrice {
        price: Price {
            input: dollars(map, node, "input")?,
            output: dollars(map, node, "output")?,
            cached: optional(map, node, "cached")?,
            cache_write: optional(map, node, "cache_write")?,
            reasoning: optional(map, node, "reasoning")?,
        },
        as_of: map.get("as_of").and_then(scalar_text).unwrap_or_default(),
    };
    Ok((model, price))
}

fn field<'a>(map: &'a Mapping, line: &Node, key: &str) -> Result<&'a Node, Box<Problem>> {
    let missing = || Problem::at(format!("prices.{key}"), &line.origin, "is missing");
    map.get(key).ok_or_else(|| Box::new(missing()))
}

fn text(map: &Mapping, line: &Node, key: &str) -> Result<String, Box<Problem>> {
    let node = field(map, line, key)?;
    let text = scalar_text(node).filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| wrong("prices.model", node, "is not the name of a model"))
}

fn optional(map: &Mapping, line: &Node, key: &str) -> Result<Option<u64>, Box<Problem>> {
    map.get(key).map(|_| dollars(map, line, key)).transpose()
}

/// Reads US dollars as millionths, rounded up: an estimate must not be too low.
fn dollars(map: &Mapping, line: &Node, key: &str) -> Result<u64, Box<Problem>> {
    let node = field(map, line, key)?;
    let usd = number(node).filter(|usd| (0.0..=USD_MAX).contains(usd));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 10^11"
    )]
    // What the float is beyond the written digits is not rounded up to a millionth.
    let micro = usd.map(|usd| (usd * 1e6 - 1e-3).ceil().max(0.0) as u64);
    micro.ok_or_else(|| {
        let mut problem = wrong(&format!("prices.{key}"), node, "is not a price");
        problem.allowed = Some("US dollars for a million tokens, 0 to 100000".to_owned());
        problem
    })
}

/// Returns whether a name fits a pattern, in which `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut rest) = name.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = tail.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Prices, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(&path, text).unwrap();
        Prices::load(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        let prices = load(
            "prices:\n  - {model: gpt-5.5-mini, input: 0.1, output: 2}\n  \
             - {model: gpt-5.5*, input: 1.25, output: 10, as_of: 2026-05-01}\n",
        )
        .unwrap();
        let price = |model| {
            prices
                .price_of(model)
                .map(|p| (p.price.input, p.price.output))
        };
        assert_eq!(price("gpt-5.5-mini"), Some((100_000, 2_000_000)));
        assert_eq!(price("gpt-5.5-large"), Some((1_250_000, 10_000_000)));
        assert_eq!(price("gpt-5"), None);
        assert_eq!(prices.price_of("gpt-5.5").unwrap().as_of, "2026-05-01");
    }

    #[test]
    fn the_shipped_prices_are_dated_and_cached_tokens_are_never_dearer() {
        let shipped = Prices::shipped().unwrap();
        for (model, ModelPrice { price, as_of }) in &shipped.0 {
            assert!(as_of.len() == 10 && as_of.starts_with("20"), "{model}");
            assert!(
                price.cached.is_none_or(|cached| cached <= price.input),
                "{model}"
            );
            assert!(price.input <= price.output, "{model}");
            // Of those that are asked here, Anthropic alone bills for what it writes.
            let writes = price.cache_write.is_some_and(|w| w == price.input * 5 / 4);
            assert_eq!(writes, model.starts_with("claude"), "{model}");
        }
        let own = load("prices: [{model: gpt-4o, input: 1, output: 2, reasoning: 3}]").unwrap();
        let all = own.or(shipped);
        assert_eq!(
            all.price_of("gpt-4o").unwrap().price.reasoning,
            Some(3_000_000)
        );
        let mini = all.price_of("gpt-5-mini-2025-08-07").unwrap().price;
        assert_eq!((mini.input, mini.cached), (250_000, Some(25_000)));
        for unknown in ["sim-target", "gpt-4o-audio-preview", "gpt-5-pro", "qwen3"] {
            assert_eq!(all.price_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*b", "ab", true),
            ("a*b", "aab", true),
            ("ab*ba", "aba", false),
            ("*/llama-*:free", "meta/llama-4:free", true),
            ("*/llama-*:free", "meta/llama-4", false),
            ("*aa*a", "aa", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_price_is_named_with_its_place() {
        for (text, expected) in [
            ("price: []\n", "`price`"),
            ("prices: 3\n", "`prices`"),
            (
                "prices:\n  - {model: a, input: 1}\n",
                "`prices.output` is missing",
            ),
            (
                "prices:\n  - {model: a, input: cheap, output: 1}\n",
                "`prices.input`",
            ),
            (
                "prices:\n  - {model: a, input: -1, output: 1}\n",
                "`prices.input`",
            ),
            (
                "prices:\n  - {model: a, inputs: 1, output: 1}\n",
                "did you mean `input`?",
            ),
            (
                "prices:\n  - {input: 1, output: 1}\n",
                "`prices.model` is missing",
            ),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(load("prices: []\n"), Ok(Prices::default()));
    }
}
