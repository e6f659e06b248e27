//! The most similar of some names, for messages about typos.

/// Returns the name with the fewest single-letter changes from `wanted`; the first of equal ones.
pub(crate) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A long text is no typo; its start is enough to choose by.
    let wanted: Vec<char> = wanted.chars().take(40).collect();
    names.into_iter().min_by_key(|name| distance(&wanted, name))
}

/// Levenshtein distance, one row at a time.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (ca, above) in a.iter().zip(row.iter().skip(1)) {
            let cost = usize::from(*ca != cb);
            left = (diagonal + cost).min(left + 1).min(above + 1);
            next.push(left);
            diagonal = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_wins() {
        let names = ["p-rule", "p-none", "latency"];
        let check = |wanted, expected| assert_eq!(nearest(wanted, names), Some(expected));
        check("p_rule", "p-rule");
        check("latncy", "latency");
        check("p-nine", "p-none");
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("kitten"), "sitting"), 3);
        assert_eq!(distance(&chars(""), "abc"), 3);
    }
}
