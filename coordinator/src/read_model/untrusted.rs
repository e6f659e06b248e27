//! Text that a model, a user or another program wrote, as people may see it (dashboard spec,
//! chapter 12).

/// Makes text harmless on one line: what a terminal would obey, what cannot be seen and what turns
/// the direction of writing is shown by its number, `⟨U+202E⟩`; line breaks and tabs are blanks.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.push(' '),
            c if c.is_control() || is_unseen(c) => {
                shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Directions of writing, characters without width, separators of lines, tags, private use.
const fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_by_its_number() {
        for (text, want) in [
            ("plain ✓ 漢字 🙂", "plain ✓ 漢字 🙂"),
            ("a\x1b[2Jb\x07", "a⟨U+001B⟩[2Jb⟨U+0007⟩"),
            ("a\u{202e}b\u{2066}c", "a⟨U+202E⟩b⟨U+2066⟩c"),
            ("zero\u{200b}width\u{feff}", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
            (
                "two\r\nlines\tand\u{2028}more",
                "two  lines and⟨U+2028⟩more",
            ),
            ("\u{9b}31m\0", "⟨U+009B⟩31m⟨U+0000⟩"),
        ] {
            assert_eq!(harmless(text), want);
        }
    }
}
