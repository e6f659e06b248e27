//! One thing that an agent said or did.

use serde_json::{Value, json};

/// Most characters of a text of the agent.
const TEXT_MAX: usize = 2_000;
/// Most characters of the name of a tool.
const NAME_MAX: usize = 100;
/// Most characters of the arguments of a tool.
const ARGUMENTS_MAX: usize = 800;
/// Most characters of what a tool gave back.
const OUTPUT_MAX: usize = 1_200;
/// Characters that stand around the texts of an entry where it is shown, about.
pub(super) const FRAME: usize = 40;

/// One thing that was said or done, shortened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// As it stands in a trajectory (training spec 2.3).
    pub(super) value: Value,
    /// Characters that it takes where it is shown.
    pub(super) chars: usize,
    /// Whether it tells of something that did not work.
    pub(super) is_failure: bool,
}

impl Entry {
    /// What the agent said on its way.
    pub(crate) fn message(text: &str) -> Self {
        let text = cut(text, TEXT_MAX);
        Self {
            chars: FRAME + text.chars().count(),
            value: json!({"type": "message", "role": "assistant", "content": text}),
            is_failure: false,
        }
    }

    /// A tool that the agent used, and what it gave back.
    pub(crate) fn call(name: &str, arguments: &str, output: &str, is_failure: bool) -> Self {
        let (tool, cmd) = (cut(name, NAME_MAX), cut(arguments, ARGUMENTS_MAX));
        let obs = cut(output, OUTPUT_MAX);
        let texts = [&tool, &cmd, &obs].map(|text| text.chars().count());
        let mut value = json!({"type": "tool_call", "tool": tool, "cmd": cmd, "obs": obs});
        if is_failure {
            value["failed"] = true.into();
        }
        Self {
            chars: FRAME + texts.iter().sum::<usize>(),
            value,
            is_failure,
        }
    }
}

/// Keeps the beginning and the end of a text: the end of an output says how it went.
fn cut(text: &str, max: usize) -> String {
    let chars = text.chars().count();
    if chars <= max {
        return text.to_owned();
    }
    let (head, tail) = (max * 2 / 3, max / 3);
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(chars - tail).collect();
    let left_out = chars - head - tail;
    format!("{beginning}\n[{left_out} characters left out]\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_text_is_left_out_between_two_characters() {
        for (text, max, want) in [
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abcd\n[1 characters left out]\nfg"),
            ("äöüßéèê", 6, "äöüß\n[1 characters left out]\nèê"),
            ("日本語の文字列", 3, "日本\n[4 characters left out]\n列"),
            ("🦀🦀🦀🦀", 3, "🦀🦀\n[1 characters left out]\n🦀"),
            ("", 3, ""),
        ] {
            assert_eq!(cut(text, max), want, "{text}");
        }
    }

    #[test]
    fn an_entry_knows_how_much_it_takes() {
        let said = Entry::message("grüß dich");
        assert_eq!(said.chars, FRAME + 9);
        let call = Entry::call("bash", "ls", "ä", true);
        assert_eq!(call.chars, FRAME + 4 + 2 + 1);
        assert_eq!(
            call.value,
            json!({"type": "tool_call", "tool": "bash", "cmd": "ls", "obs": "ä", "failed": true})
        );
        let long = "é".repeat(1 << 16);
        let (said, call) = (
            Entry::message(&long),
            Entry::call(&long, &long, &long, false),
        );
        assert!(said.chars < TEXT_MAX + 2 * FRAME, "{}", said.chars);
        assert!(call.chars < 2_300, "{}", call.chars);
    }
}
