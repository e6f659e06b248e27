//! What the target is told (benchmarks spec 2.2).

/// Longest context, in characters.
const CONTEXT_CHARS_MAX: usize = 6000;
/// Starts each snippet of a context.
const MARKER: &str = "[DOC]";

const INTRO: &str = "You answer trivia clues. Each clue comes with text snippets found by a search \
                     engine; some of them do not matter.";

const ANSWER: &str = "Say the answer as your last words, alone between tags, as few words as \
                      possible and without repeating the clue:\n\
                      <answer>Marie Curie</answer>";

const TASK: &str = "## Task\n\
The user message holds a section `Context` with the snippets, each starting with [DOC], and a \
section `Question` with the clue. The answer is a short phrase that the context supports: a name, \
a place, a title, a year.\n\n\
## Answer format\n\
Think step by step in plain text first. Then close with the answer alone between tags, as few \
words as possible and without repeating the clue:\n\
<answer>Marie Curie</answer>";

/// Returns the system message; a blank skill leaves no trace.
#[must_use]
pub fn system(skill: &str) -> String {
    let skill = skill.trim();
    let mut text = String::with_capacity(INTRO.len() + skill.len() + TASK.len() + 20);
    text.push_str(INTRO);
    if !skill.is_empty() {
        text.push_str("\n\n## Skill\n");
        text.push_str(skill);
    }
    text.push_str("\n\n");
    text.push_str(TASK);
    text
}

/// What the skill of an agent is about, for its list of skills.
pub(super) const SKILL_ABOUT: &str = "How to answer trivia clues from text snippets. Read it before \
                                      you answer.";

/// Returns what an agent is told; the task lies in its folder.
#[must_use]
pub fn exec() -> String {
    format!(
        "{INTRO} This time the clue lies in the file `task.md` of your working folder: a section \
         `Context` with the snippets and a section `Question` with the clue. Read the whole file, \
         follow the skill, and do not ask back; nobody is there. Change no file.\n\n{ANSWER}"
    )
}

/// Returns the first user message.
#[must_use]
pub fn user(question: &str, context: &str) -> String {
    let context = truncate_context(context, CONTEXT_CHARS_MAX);
    ["## Context\n", &context, "\n\n## Question\n", question].concat()
}

/// Returns the user message of a later turn. It repeats the task: the call is a fresh one, and
/// without the context a review could only guess (W-1.14).
#[must_use]
pub fn review(user: &str, reply: &str) -> String {
    [
        user,
        "\n\n## Earlier reply\n",
        reply,
        "\n\n## What to do now\nCheck the earlier reply against the context. Correct it where it \
         is wrong, keep it where it is right, and give the final answer in the same tags.",
    ]
    .concat()
}

/// Cuts a context to whole snippets of at most `max_chars` characters together; if not even the
/// first fits, to its first `max_chars` characters and a mark.
#[must_use]
pub fn truncate_context(context: &str, max_chars: usize) -> std::borrow::Cow<'_, str> {
    if context.len() <= max_chars || context.chars().nth(max_chars).is_none() {
        return context.into();
    }
    let mut kept = String::new();
    let mut chars = 0;
    for piece in context.split(MARKER) {
        // The first kept piece loses its marker.
        let marker = if kept.is_empty() { "" } else { MARKER };
        chars += marker.len() + piece.chars().count();
        if chars > max_chars {
            break;
        }
        kept.push_str(marker);
        kept.push_str(piece);
    }
    if kept.is_empty() {
        kept.extend(context.chars().take(max_chars));
        kept.push_str("\n...[truncated]");
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skill_stands_trimmed_under_its_heading_or_not_at_all() {
        assert!(system("\n be brief \n").contains("\n\n## Skill\nbe brief\n\n## Task"));
        assert!(!system(" \n").contains("## Skill"));
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(truncate_context("ééé", 3), "ééé");
        assert_eq!(truncate_context("éééé", 3), "ééé\n...[truncated]");
    }
}
