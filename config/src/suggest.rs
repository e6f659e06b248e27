//! Finding the name that was probably meant.

/// Returns the candidate nearest to `name`, if any is near enough to be worth naming.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = plain(name);
    if wanted.len() > 100 {
        return None;
    }
    let limit = (wanted.len() / 3).max(2);
    candidates
        .into_iter()
        .filter(|candidate| !candidate.is_empty())
        .map(|candidate| (distance(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Compares names without regard to case and to the choice between `-` and `_`.
fn plain(name: &str) -> Vec<char> {
    name.to_lowercase().replace('-', "_").chars().collect()
}

/// Edit distance where swapping two neighbours counts as one change.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(ca != cb))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let known = ["batch_size", "seed", "num_epochs", "use_gate"];
        for (typed, want) in [
            ("batch_sizes", Some("batch_size")),
            ("Batch-Size", Some("batch_size")),
            ("sede", Some("seed")),
            ("epochs", None),
            ("num_epoch", Some("num_epochs")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), want, "{typed}");
        }
    }
}
