//! Text rules shared by every stage: what counts as blank, how long a text is, line ends.
//!
//! Source: training spec, chapter 0.

/// Returns whether `c` is blank: Unicode `White_Space` plus U+001C–U+001F.
#[must_use]
pub fn is_blank_char(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Removes blanks at both ends.
#[must_use]
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank_char)
}

/// Removes blanks at the end.
#[must_use]
pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_blank_char)
}

/// Returns whether nothing but blanks stands in `text`.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_blank_char)
}

/// Returns the length in Unicode code points, the unit of every length that is shown or recorded.
#[must_use]
pub fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the first `n` code points.
#[must_use]
pub fn head(text: &str, n: usize) -> &str {
    text.char_indices()
        .nth(n)
        .map_or(text, |(end, _)| &text[..end])
}

/// Turns CR LF and lone CR into LF, as reading a file in text mode does.
#[must_use]
pub fn universal_newlines(text: &str) -> String {
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text.to_owned()
    }
}

/// Folds case so that spellings which differ only in case become equal (`Straße`, `STRASSE`).
#[must_use]
pub fn fold_case(text: &str) -> String {
    // Up and down again, letter by letter, stands in for Unicode's folding table: it unites what
    // one direction alone leaves apart (ß, ſ, final sigma).
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}
