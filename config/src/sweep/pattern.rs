//! Patterns that name cells.

use crate::node::Origin;

/// `MODEL/BENCHMARK/HARNESS`, where `*` stands for any letters of a part and `?` for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// As it was written.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
}

impl Pattern {
    /// Returns whether the pattern has three parts, none of them empty.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let parts: Vec<&str> = self.text.split('/').collect();
        parts.len() == 3 && parts.iter().all(|part| !part.is_empty())
    }

    /// Returns whether a cell is meant: by its name, or by its name without seed and repeat.
    #[must_use]
    pub fn matches(&self, cell: &str) -> bool {
        let bare = cell.split(['#', '@']).next().unwrap_or_default();
        [cell, bare].iter().any(|name| {
            let (pattern, name) = (self.text.split('/'), name.split('/'));
            pattern.clone().count() == name.clone().count()
                && pattern.zip(name).all(|(p, n)| part(p, n))
        })
    }
}

/// Compares one part: goes back to the last `*` when letters differ, so that the work is bounded
/// by the product of both lengths.
fn part(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || name.get(n) == Some(&c) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_part_by_part() {
        for (pattern, cell, want) in [
            ("*/*/*", "a/b/chat", true),
            ("*/*/*", "a/b/chat#1@2", true),
            ("a/*/*_exec", "a/b/codex_exec", true),
            ("a/*/*_exec", "a/b/chat", false),
            ("*", "a/b/chat", false),
            ("a/?/chat", "a/b/chat", true),
            ("a/?/chat", "a/bb/chat", false),
            ("a/b/chat", "a/b/chat#7", true),
            ("a/b/chat#7", "a/b/chat#7", true),
            ("a/b/chat#8", "a/b/chat#7", false),
            ("*a*b*/x/y", "zzazzbz/x/y", true),
            ("*a*b/x/y", "zzazzbz/x/y", false),
            ("**/x/y", "q/x/y", true),
        ] {
            let pattern = Pattern {
                text: pattern.to_owned(),
                origin: Origin::Default,
            };
            assert_eq!(pattern.matches(cell), want, "{} {cell}", pattern.text);
        }
    }
}
