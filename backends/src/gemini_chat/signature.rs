//! Thought signatures: a model that thinks wants the one of each tool call back with the tool's
//! answer. A conversation has no place for it but the call's name, so it travels there.

use std::borrow::Cow;

/// Begins the names of calls that came without one.
pub(super) const MADE_UP: &str = "gemini_tool_";
/// Parts the name of a call from its signature.
const MARK: &str = "#thought=";

/// Joins the name of a call, if it has one, and its signature.
pub(super) fn join(id: Option<&str>, index: usize, signature: Option<&str>) -> String {
    let id = match id {
        Some(id) if !id.is_empty() => Cow::Borrowed(id),
        _ => Cow::Owned(format!("{MADE_UP}{}", index + 1)),
    };
    match signature {
        Some(signature) => format!("{id}{MARK}{signature}"),
        None => id.into_owned(),
    }
}

/// Takes them apart; a made-up name is none.
pub(super) fn split(joined: &str) -> (Option<&str>, Option<&str>) {
    let (id, signature) = match joined.split_once(MARK) {
        Some((id, signature)) => (id, Some(signature)),
        None => (joined, None),
    };
    let is_real = !id.is_empty() && !id.starts_with(MADE_UP);
    (is_real.then_some(id), signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_travels_in_the_name_of_its_call() {
        for (id, signature) in [
            (Some("a"), Some("c2ln")),
            (Some("a"), None),
            (None, Some("c2ln")),
            (None, None),
        ] {
            let joined = join(id, 0, signature);
            assert!(!joined.is_empty());
            assert_eq!(split(&joined), (id, signature), "{joined}");
        }
    }
}
