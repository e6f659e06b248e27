//! "Did you mean": the nearest of a few valid names.

/// Returns a sentence with the nearest of `names` (if one is near) and all of them.
pub(crate) fn hint(wanted: &str, names: &[&str]) -> String {
    let all = names.join(", ");
    let nearest = names
        .iter()
        .map(|name| (distance(wanted, name), *name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= name.chars().count().div_ceil(2).max(2));
    match nearest {
        Some((_, name)) => format!("did you mean `{name}`? Known: {all}"),
        None => format!("known: {all}"),
    }
}

/// Edits (insert, delete, replace) from `a` to `b`; looks at the first 64 characters only.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            let best = (above + 1)
                .min(previous + 1)
                .min(diagonal + usize::from(left != *right));
            diagonal = above;
            previous = best;
            *cell = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        for (a, b, want) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn a_far_name_gets_no_suggestion() {
        assert!(hint("serchqa", &["searchqa", "custom"]).contains("did you mean `searchqa`"));
        assert!(!hint("zzzzzzzzzzzz", &["searchqa"]).contains("did you mean"));
    }
}
