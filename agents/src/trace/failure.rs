//! Whether what a tool gave back tells of something that did not work.
//!
//! Few interfaces have a field for that; most CLIs put the code of a command into words of their own.
//! A wrong guess costs little: it only decides what is kept of a trace that is too long, and what is
//! counted as failed in a summary.

/// What stands before the code of a command, in small letters.
const BEFORE_CODE: &[&str] = &["exited with code ", "exit code: ", "exit code "];
/// Longest part of an output that is looked at, at its beginning and at its end, in bytes.
const LOOKED_AT: usize = 1_000;

/// Returns whether a tool's output tells of a failure.
pub(super) fn tells_of_failure(output: &str) -> bool {
    let output = output.trim();
    let beginning = &output[..output.floor_char_boundary(LOOKED_AT.min(output.len()))];
    let end = &output[output.ceil_char_boundary(output.len().saturating_sub(LOOKED_AT))..];
    let (beginning, end) = (beginning.to_lowercase(), end.to_lowercase());
    beginning.starts_with("error")
        || beginning.contains("traceback (most recent call last)")
        || has_code(&beginning)
        || has_code(&end)
}

/// Returns whether a code other than 0 is told.
fn has_code(text: &str) -> bool {
    let after = BEFORE_CODE
        .iter()
        .flat_map(|words| text.match_indices(words).map(|(at, _)| at + words.len()));
    let mut codes = after.map(|at| {
        let rest = text[at..].trim_start_matches('-');
        rest.chars().take_while(char::is_ascii_digit)
    });
    codes.any(|mut code| code.any(|digit| digit != '0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_from_what_each_cli_says_of_a_command() {
        let far = "x".repeat(3_000);
        for (output, want) in [
            (
                "Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n42",
                false,
            ),
            (
                "Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 127\nOutput:\n",
                true,
            ),
            ("Exit code: 0\nWall time: 0 seconds\nOutput:\nDone", false),
            ("Output: x\nExit Code: 2\nProcess Group PGID: 31", true),
            ("done\n<exited with exit code 0>", false),
            ("no such file\n<exited with exit code 10>", true),
            ("exited with code -1", true),
            ("Error: no such tool", true),
            ("There was no error.", false),
            ("Traceback (most recent call last):\n  File", true),
            ("exit code: many", false),
            ("", false),
        ] {
            assert_eq!(tells_of_failure(output), want, "{output}");
        }
        assert!(tells_of_failure(&format!("{far}\nexit code 3")));
        assert!(tells_of_failure(&format!("error {far}")));
        assert!(!tells_of_failure(&format!("{far} exit code 3 {far}")));
    }

    #[test]
    fn any_text_is_looked_at_between_two_characters() {
        for shift in 0..4 {
            let text = format!("{}{} exit code 3", "x".repeat(shift), "🦀日é".repeat(1_000));
            assert!(tells_of_failure(&text));
        }
    }
}
