//! Credentials that nobody told us of, by what they look like and what stands before them.

use super::REDACTED;

/// Shortest run after a known beginning that is taken for a credential, in characters.
const REST_MIN: usize = 8;
/// How credentials of well-known services begin.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "key_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "hf_",
];
/// Names of which the value is a credential, in small letters and without `-`, `_` and blanks.
const NAMES: &[&str] = &["apikey", "authorization", "password", "secret", "token"];
/// Words that stand between a name and its credential in headers.
const SCHEMES: &[&str] = &["bearer", "basic"];

/// Replaces what looks like a credential in words of a program: a value after a telling name
/// (`API_KEY=…`, `"token": "…"`, `Authorization: Bearer …`), and runs in well-known forms.
///
/// It is for error messages and the like: it may take too much, and cannot find everything.
#[must_use]
pub fn likely(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = run(rest, is_word);
        if word.is_empty() {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..next]);
            rest = &rest[next..];
            continue;
        }
        let after = &rest[word.len()..];
        if is_form(word) {
            out.push_str(REDACTED);
            rest = after;
            continue;
        }
        if let Some((kept, end)) = value_after(word, after) {
            out.push_str(&rest[..kept]);
            out.push_str(REDACTED);
            rest = &rest[end..];
            continue;
        }
        out.push_str(word);
        rest = after;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn run(text: &str, is: fn(char) -> bool) -> &str {
    let end = text.find(|c| !is(c)).unwrap_or(text.len());
    &text[..end]
}

fn is_form(word: &str) -> bool {
    let begins = BEGINNINGS.iter().any(|begin| {
        word.strip_prefix(begin)
            .is_some_and(|rest| rest.len() >= REST_MIN)
    });
    // Signed tokens: three parts, of which the first is JSON in another alphabet.
    begins || (word.starts_with("eyJ") && word.matches('.').count() == 2)
}

/// Returns what of `word` and what follows it is kept, and where its credential ends.
fn value_after(word: &str, after: &str) -> Option<(usize, usize)> {
    let mut name = squeezed(word);
    let mut at = word.len();
    // Some are written in two words.
    if name == "api" && after.to_lowercase().starts_with(" key") {
        name.push_str("key");
        at += " key".len();
    }
    if !NAMES.iter().any(|known| name.ends_with(known)) {
        return None;
    }
    let all = |at: usize| &after[at - word.len()..];
    let skip = |at: usize, is: fn(char) -> bool| at + run(all(at), is).len();
    let is_blank = |c: char| c == ' ';
    let is_quote = |c: char| matches!(c, '"' | '\'');
    let begin = skip(skip(at, is_quote), is_blank);
    let signed = skip(begin, |c| matches!(c, ':' | '='));
    // A word after `password` is one; `the token was …` is a sentence.
    if signed == begin && (begin == at || name != "password") {
        return None;
    }
    let begin = skip(skip(signed, is_blank), is_quote);
    // A scheme goes with its credential.
    let scheme = run(all(begin), |c| c.is_ascii_alphabetic());
    let value = match SCHEMES.contains(&scheme.to_lowercase().as_str()) {
        true => skip(begin + scheme.len(), is_blank),
        false => begin,
    };
    let is_value = |c: char| !c.is_whitespace() && !matches!(c, ',' | ';' | '"' | '\'' | ')' | '}');
    let end = skip(value, is_value);
    (end > value).then_some((begin, end))
}

fn squeezed(word: &str) -> String {
    let letters = word.chars().filter(|c| !matches!(c, '_' | '-' | '.'));
    letters.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_after_telling_names_and_known_forms_go() {
        for (text, want) in [
            (
                "API key: sk-live-abcdefgh12 rejected",
                "API key: @ rejected",
            ),
            ("CURSOR_API_KEY=abc123 failed", "CURSOR_API_KEY=@ failed"),
            ("Authorization: Bearer tok.en", "Authorization: @"),
            ("password=hunter2 fine", "password=@ fine"),
            ("password hunter2, then", "password @, then"),
            ("{\"token\":\"abc123secret\"} x", "{\"token\":\"@\"} x"),
            ("access_token=1; next", "access_token=@; next"),
            ("ghp_ABCDEFGHIJKLMNOP", "@"),
            ("see eyJhbGciOiJIUzI1NiJ9.e30.x now", "see @ now"),
            ("sk-abcdefghij key_12345678", "@ @"),
        ] {
            assert_eq!(likely(text), want.replace('@', REDACTED), "{text}");
        }
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "the token limit was reached",
            "prompt_tokens: 12",
            "sk-1",
            "no password",
            "error: 401 – Ünïcode stays",
            "a secret",
            "",
        ] {
            assert_eq!(likely(text), text);
        }
    }
}
