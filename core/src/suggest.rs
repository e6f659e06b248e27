//! The nearest known name, for hints on typos.

/// Longest name looked at; longer ones are no typos of ours.
const MAX_LEN: usize = 64;

/// Returns the candidate that `word` most likely meant, or `None` if none is near. Case, `-` and
/// `_` do not count; the first of equally near candidates wins.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normal(word)?;
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let normal = normal(candidate)?;
            let allowed = (word.len().max(normal.len()) / 3).max(1);
            let distance = distance(&word, &normal);
            (distance <= allowed).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the end of an error message: `; did you mean `NAME`?`, or nothing.
#[must_use]
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn normal(word: &str) -> Option<Vec<char>> {
    let word: Vec<char> = word
        .chars()
        .take(MAX_LEN + 1)
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect();
    (!word.is_empty() && word.len() <= MAX_LEN).then_some(word)
}

/// Counts the insertions, deletions, changes and swaps of neighbours between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_name() {
        let names = ["constant", "linear", "cosine", "autonomous"];
        let cases = [
            ("cosin", Some("cosine")),
            ("Linear", Some("linear")),
            ("lienar", Some("linear")),
            ("auto-nomous", Some("autonomous")),
            ("exponential", None),
            ("", None),
            ("x", None),
        ];
        for (word, want) in cases {
            assert_eq!(nearest(word, names), want, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), names), None);
        assert_eq!(hint("cosin", names), "; did you mean `cosine`?");
    }
}
