//! The system texts of the stages: built-in templates, each replaceable by name.
//!
//! Lookup order: the benchmark's override, then the general override, then the built-in text
//! (training spec 6.1).

use std::collections::BTreeMap;

use crate::update_mode::UnknownName;

/// In a template, stands for the list of failure types of the benchmark.
pub const FAILURE_TYPES: &str = "{{failure_types}}";

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Built-in templates by name.
        const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../prompts/", $name, ".md")))),*];
    };
}

builtin![
    "analyst_error",
    "analyst_error_suggestions",
    "analyst_error_full_rewrite",
    "analyst_success",
    "analyst_success_suggestions",
    "analyst_success_full_rewrite",
    "skill_aware_failure",
    "skill_aware_success",
    "merge_failure",
    "merge_failure_suggestions",
    "merge_failure_full_rewrite",
    "merge_success",
    "merge_success_suggestions",
    "merge_success_full_rewrite",
    "merge_final",
    "merge_final_suggestions",
    "merge_final_full_rewrite",
    "ranking",
    "ranking_suggestions",
    "rate",
    "rewrite",
    "slow_update",
    "meta_skill",
    "appendix_consolidate",
    "small_analyst_error",
    "small_analyst_error_suggestions",
    "small_analyst_error_full_rewrite",
    "small_analyst_success",
    "small_analyst_success_suggestions",
    "small_analyst_success_full_rewrite",
    "small_merge",
    "small_merge_full_rewrite",
    "small_ranking",
    "small_rate",
    "small_rewrite",
    "small_slow_update",
    "small_meta_skill",
    "small_appendix_consolidate",
];

/// The templates of a run.
#[derive(Clone, Debug, Default)]
pub struct Set {
    overrides: BTreeMap<String, String>,
}

impl Set {
    /// Takes overrides by template name; the benchmark's win over the general ones.
    ///
    /// # Errors
    /// A name is not among [`Set::names`].
    pub fn with_overrides(
        benchmark: &BTreeMap<String, String>,
        general: &BTreeMap<String, String>,
    ) -> Result<Self, UnknownName> {
        let mut overrides = general.clone();
        overrides.extend(benchmark.iter().map(|(k, v)| (k.clone(), v.clone())));
        let names = Self::names();
        match overrides
            .keys()
            .find(|name| !names.contains(&name.as_str()))
        {
            Some(name) => Err(UnknownName::new("prompt template", name, &names)),
            None => Ok(Self { overrides }),
        }
    }

    /// Returns the overrides by template name: part of a run's identity.
    #[must_use]
    pub const fn overrides(&self) -> &BTreeMap<String, String> {
        &self.overrides
    }

    /// Returns every template name.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the text of a template; "" for a name that is not among [`Set::names`].
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.overrides
            .get(name)
            .map(String::as_str)
            .unwrap_or_else(|| {
                let builtin = BUILTIN.iter().find(|(known, _)| *known == name);
                builtin.map_or("", |(_, text)| text)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn the_benchmark_wins_over_the_general_text() {
        let set = Set::with_overrides(
            &map(&[("rate", "benchmark")]),
            &map(&[("rate", "general"), ("ranking", "general")]),
        )
        .unwrap();
        assert_eq!(set.get("rate"), "benchmark");
        assert_eq!(set.get("ranking"), "general");
        assert!(set.get("rewrite").contains("new_skill"));
    }

    #[test]
    fn an_unknown_template_is_told_the_nearest_name() {
        let error = Set::with_overrides(&map(&[("analyst_eror", "")]), &map(&[])).unwrap_err();
        assert!(
            error.to_string().contains("did you mean `analyst_error`?"),
            "{error}"
        );
    }
}
