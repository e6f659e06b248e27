//! Patterns of files: `*` and `?` within a name, `**` for any folders.

/// Tells whether `path`, written with `/`, matches `pattern`.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let path: Vec<&str> = path.split('/').collect();
    all(&pattern, &path, &mut 10_000)
}

/// `steps` bounds the work: a program chooses the names, and many `**` make many ways.
fn all(pattern: &[&str], path: &[&str], steps: &mut u32) -> bool {
    let Some(left) = steps.checked_sub(1) else {
        return false;
    };
    *steps = left;
    match (pattern, path) {
        ([], []) => true,
        (["**", rest @ ..], _) => {
            all(rest, path, steps) || (!path.is_empty() && all(pattern, &path[1..], steps))
        }
        ([first, rest @ ..], [name, deeper @ ..]) => {
            one(first.as_bytes(), name.as_bytes()) && all(rest, deeper, steps)
        }
        _ => false,
    }
}

/// Matches within a name, going back to the last `*` only, which suffices and is quick.
fn one(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(b'?') => (p, n) = (p + 1, n + 1),
            Some(byte) if *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, from)) = star else {
                    return false;
                };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_matches() {
        for (pattern, path, wanted) in [
            ("answer.txt", "answer.txt", true),
            ("answer.txt", "sub/answer.txt", false),
            ("*.txt", "answer.txt", true),
            ("*.txt", "sub/answer.txt", false),
            ("out/*.json", "out/a.b.json", true),
            ("out/?.json", "out/ab.json", false),
            ("**/*.md", "a.md", true),
            ("**/*.md", "x/y/a.md", true),
            ("x/**", "x/y/a.md", true),
            ("x/**/a.md", "x/a.md", true),
            ("x/**", "y/x/a.md", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("./out/*", "out/a", true),
        ] {
            assert_eq!(super::matches(pattern, path), wanted, "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_made_to_be_slow_ends() {
        let pattern = "**/".repeat(30) + "x";
        let path = "a/".repeat(200) + "b";
        assert!(!super::matches(&pattern, &path));
    }
}
