//! The known name nearest to a typo, for error messages.

/// Longest text that is compared; a longer one is no typo of a name.
const LENGTH_MAX: usize = 64;

/// Returns the name of `names` with the fewest changed letters, if few enough to be a typo.
#[must_use]
pub fn name<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let given: Vec<char> = given.trim().to_lowercase().chars().collect();
    if given.is_empty() || given.len() > LENGTH_MAX {
        return None;
    }
    names
        .iter()
        .map(|name| (distance(&given, name), *name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
        .map(|(_, name)| name)
}

/// Returns "; did you mean `…`?", or nothing when no name is near.
#[must_use]
pub fn hint(given: &str, names: &[&str]) -> String {
    name(given, names).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Levenshtein distance.
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let changed = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = changed.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["fixed", "autonomous", "none"];
        for (given, want) in [
            ("fixd", Some("fixed")),
            ("Autonomus", Some("autonomous")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(name(given, &names), want, "{given:?}");
        }
    }
}
