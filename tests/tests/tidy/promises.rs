//! `docs/guarantees.md`: each promise is shown by tests that exist, and each fault is on the page.

use std::collections::BTreeSet;
use std::path::Path;

use crate::manifest::{read, root};
use crate::none_of;
use crate::paths::with_extension;
use crate::source::code_only;

const PAGE: &str = "docs/guarantees.md";

/// Returns the names of the tests below a folder: functions that are marked as such.
fn tests_below(dir: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in with_extension(dir, "rs") {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        names.extend(tests_in(&code_only(&text)));
    }
    names
}

/// Returns the names of the tests in code without comments.
fn tests_in(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("#[") {
            let attribute = line.trim_start_matches("#[");
            let path = attribute.split(['(', ']']).next().unwrap_or_default();
            is_test |= path.rsplit("::").next() == Some("test");
        } else {
            let name = function(line);
            names.extend(name.filter(|_| is_test));
            is_test = false;
        }
    }
    names
}

/// Returns the name of the function that begins on a line.
fn function(line: &str) -> Option<String> {
    let (before, rest) = line.split_once("fn ")?;
    let words = ["pub", "async", ""];
    let is_begin = before.split(' ').all(|word| words.contains(&word));
    let name = rest.split(['(', '<']).next().unwrap_or_default();
    (is_begin && !name.is_empty()).then(|| name.to_owned())
}

/// Returns the properties of the suite: what a macro makes a test of for each implementation.
fn properties() -> BTreeSet<String> {
    let listed = read("queue/src/conformance.rs");
    let listed: BTreeSet<&str> = listed
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .collect();
    let mut names = BTreeSet::new();
    for file in with_extension(&root().join("queue/src/conformance"), "rs") {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let code = code_only(&text);
        let public = code
            .lines()
            .filter(|line| line.starts_with("pub async fn "));
        names.extend(public.filter_map(function));
    }
    names.retain(|name| listed.contains(name.as_str()));
    names
}

/// Returns what stands between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a word is written as the name of a test is, which is a sentence.
fn is_sentence(word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.matches('_').count() >= 2 && word.chars().all(is_letter)
}

#[test]
fn every_promise_is_shown_by_tests_that_exist() {
    let page = read(PAGE);
    let mut known = tests_below(&root());
    known.extend(properties());
    let mut wrong = Vec::new();
    for word in spans(&page) {
        if is_sentence(word) && !known.contains(word) {
            wrong.push(format!("there is no test `{word}`"));
        }
        if word.contains('…') {
            wrong.push(format!("`{word}` is not the whole name"));
        }
    }
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| ---");
    let mut rows = 0;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let is_head = lines.peek().is_some_and(|next| next.starts_with("| ---"));
        if is_head || !is_row(&line) {
            continue;
        }
        rows += 1;
        if !spans(line).any(|word| known.contains(word)) {
            wrong.push(format!("no test shows: {line}"));
        }
    }
    assert!(rows > 30, "the tables are read: {rows} rows");
    none_of("docs/guarantees.md", &wrong);
}

#[test]
fn every_fault_is_on_the_page() {
    let page = read(PAGE);
    let named: BTreeSet<&str> = spans(&page).collect();
    let faults = tests_below(&root().join("tests/tests/faults"));
    assert!(faults.len() > 20, "the tests are found: {faults:?}");
    let missing: Vec<String> = faults
        .into_iter()
        .filter(|name| !named.contains(name.as_str()))
        .collect();
    none_of("docs/guarantees.md does not name these tests", &missing);
}

#[test]
fn tests_are_told_from_other_functions() {
    let code = "#[test]\nfn one() {\n#[tokio::test(flavor = \"x\")]\n#[cfg(unix)]\nasync fn two() {\n\
                fn three() {\n#[cfg(test)]\nmod tests {\nfn four() {\n    #[test] fn five() {}\n";
    assert_eq!(tests_in(code), ["one", "two"]);
    assert_eq!(
        function("pub async fn six(rig: &Rig) {"),
        Some("six".to_owned())
    );
    assert_eq!(function("let f = a.fn_ptr(fn seven)"), None);
}
