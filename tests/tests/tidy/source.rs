//! Rust source with everything blanked out that is not code of the product.

/// Returns `text` with comments, strings and characters replaced by spaces; lines stay lines.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped_until(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
            out.extend(chars[at..end].iter().map(blank));
            at = end;
        }
    }
    out
}

/// Returns the end of the comment, string or character that begins at `at`; `at` if none does.
fn skipped_until(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let follows = |offset: usize, c: char| rest.get(offset) == Some(&c);
    let inside_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match rest[0] {
        '/' if follows(1, '/') => at + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        '/' if follows(1, '*') => at + end_of_block_comment(rest),
        '"' => at + end_of_string(rest),
        'r' if !inside_word && (follows(1, '"') || follows(1, '#')) => at + end_of_raw(rest),
        '\'' if follows(1, '\\') => {
            at + 3
                + rest
                    .iter()
                    .skip(3)
                    .position(|c| *c == '\'')
                    .map_or(0, |n| n + 1)
        }
        '\'' if follows(2, '\'') => at + 3,
        _ => at,
    }
}

fn end_of_block_comment(rest: &[char]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn end_of_string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A raw string, or 0 characters if this is a raw identifier such as `r#type`.
fn end_of_raw(rest: &[char]) -> usize {
    let hashes = rest.iter().skip(1).take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let is_end = |at: usize| {
        rest[at] == '"'
            && rest
                .iter()
                .skip(at + 1)
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes
    };
    let end = (2 + hashes..rest.len()).find(|at| is_end(*at));
    end.map_or(rest.len(), |at| at + 1 + hashes)
}

/// Returns code without its inline test modules: `#[cfg(test)]` before `mod name {` up to the
/// brace in the first column.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut lines = code.lines().peekable();
    while let Some(line) = lines.next() {
        let opens = |next: &&str| next.starts_with("mod ") && next.trim_end().ends_with('{');
        if line.starts_with("#[cfg(test)]") && lines.peek().is_some_and(opens) {
            for inside in lines.by_ref() {
                out.push('\n');
                if inside.starts_with('}') {
                    break;
                }
            }
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

#[test]
fn only_code_is_left() {
    #[track_caller]
    fn check(text: &str, wanted: &str) {
        let squeezed = code_only(text)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(squeezed, wanted, "{text}");
    }
    check("a // crate::x\nb", "a b");
    check("a /* crate /* nested */ x */ b", "a b");
    check(r#"f("crate::x \" y", z)"#, "f( , z)");
    check(r##"f(r#"crate " x"#, r"y", z)"##, "f( , , z)");
    check(
        "let c = '\"'; let d = '\\''; let e: &'a str",
        "let c = ; let d = ; let e: &'a str",
    );
    check("r#type = for r in x", "r#type = for r in x");
}

#[test]
fn inline_tests_are_cut_out() {
    let code = "use a;\n#[cfg(test)]\nmod tests {\n    use b;\n}\nuse c;\n";
    let kept = without_tests(code);
    assert_eq!(
        kept.split_whitespace().collect::<Vec<_>>(),
        ["use", "a;", "use", "c;"]
    );
    assert_eq!(
        kept.lines().count(),
        code.lines().count(),
        "lines keep their numbers"
    );
}
