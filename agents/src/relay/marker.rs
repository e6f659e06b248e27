//! How it is seen whether a skill reached the model: by some of its lines, for CLIs put its text into
//! frames of their own, and some cut it.

use super::record::Exchange;

/// Returns the lines of a skill that are looked for, the first, the longest and the last, one below
/// the other; empty if it says nothing.
pub(crate) fn of(skill: &str) -> String {
    let body = match skill.strip_prefix("---\n") {
        Some(rest) => rest.split_once("\n---\n").map_or(rest, |(_, body)| body),
        None => skill,
    };
    let lines = || body.lines().map(str::trim).filter(|line| !line.is_empty());
    let longest = lines().max_by_key(|line| line.len());
    let all = [lines().next(), longest, lines().next_back()];
    let mut wanted: Vec<&str> = Vec::new();
    for line in all.into_iter().flatten() {
        if !wanted.contains(&line) {
            wanted.push(line);
        }
    }
    wanted.join("\n")
}

/// Returns whether all lines of a marker stand in one request.
pub(crate) fn stands_in(marker: &str, exchange: &Exchange) -> bool {
    !marker.is_empty() && marker.lines().all(|line| is_sent(line, exchange))
}

/// What a command printed may be sent as JSON within a text.
fn is_sent(line: &str, exchange: &Exchange) -> bool {
    if exchange.sent(line) {
        return true;
    }
    let escaped = serde_json::Value::from(line).to_string();
    let escaped = &escaped[1..escaped.len() - 1];
    escaped != line && exchange.sent(escaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::relay::Said;

    const SKILL: &str = "---\nname: s\ndescription: d\n---\n\n# Counting\n\n\
                         Always count \"twice\" before you write.\nThen stop.\n\n";

    #[test]
    fn the_first_the_longest_and_the_last_line_are_looked_for() {
        for (skill, want) in [
            (
                SKILL,
                "# Counting\nAlways count \"twice\" before you write.\nThen stop.",
            ),
            ("one line\n", "one line"),
            ("the longest line\nlast", "the longest line\nlast"),
            ("\n \n", ""),
            ("", ""),
        ] {
            assert_eq!(of(skill), want, "{skill}");
        }
    }

    #[test]
    fn a_skill_that_was_cut_did_not_reach_the_model() {
        let frame = |text: &str| format!("<skill>\n{text}</skill>");
        let within = json!({"output": SKILL}).to_string();
        let (half, _) = SKILL.split_once("Then").unwrap();
        for (sent, want) in [
            (frame(SKILL), true),
            (within, true),
            (frame(half), false),
            (frame("# Counting"), false),
            (String::new(), false),
        ] {
            let sent_on = json!({"messages": [{"content": sent}]});
            let exchange = Exchange::of(sent_on, Said::default());
            assert_eq!(stands_in(&of(SKILL), &exchange), want, "{sent}");
            assert!(!stands_in("", &exchange));
        }
    }
}
