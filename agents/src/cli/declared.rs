//! The call of a CLI that a user declares in a file.

use skillopt_backends::agents::declared::{Declared, Interface, PromptBy};

use super::{Call, Errand, File, SKILL_NAME, escaped};
use crate::relay::Wire;

/// Returns what a declared CLI speaks.
#[must_use]
pub const fn wire(declared: &Declared) -> Wire {
    match declared.wire {
        Interface::Responses => Wire::Responses,
        Interface::Chat => Wire::Chat,
        Interface::Messages => Wire::Messages,
        Interface::Gemini => Wire::Gemini,
    }
}

/// Makes the call of one task.
#[must_use]
pub fn call(declared: &Declared, errand: &Errand<'_>) -> Call {
    let fill = |text: &str| filled(declared, errand, text);
    // What the task says comes last, so that no brace in it stands for anything.
    let prompt = fill(&declared.told).replace("{prompt}", &escaped(errand.prompt));
    let words = declared
        .command
        .iter()
        .skip(1)
        .map(|word| match declared.prompt {
            PromptBy::Argument => fill(word).replace("{prompt}", &prompt),
            PromptBy::Stdin | PromptBy::File => fill(word),
        });
    let args = words.collect();
    let mut files = errand.skill_in(&declared.skills);
    for (path, text) in &declared.files {
        files.push(match path.split_once(':') {
            Some(("home", path)) => File::home(path, fill(text)),
            _ => File::work(path.trim_start_matches("work:"), &fill(text)),
        });
    }
    let mut stdin = String::new();
    match declared.prompt {
        PromptBy::Stdin => stdin.clone_from(&prompt),
        PromptBy::File => files.push(File::work("prompt.md", &prompt)),
        PromptBy::Argument => {}
    }
    let variables = declared.environment.iter();
    Call {
        args,
        env: variables
            .map(|(name, value)| (name.clone(), fill(value)))
            .collect(),
        stdin,
        files,
    }
}

fn filled(declared: &Declared, errand: &Errand<'_>, text: &str) -> String {
    [
        ("{model}", errand.model),
        ("{url}", &errand.url("")),
        ("{key}", errand.key),
        ("{home}", errand.home),
        ("{work}", errand.work),
        ("{effort}", errand.effort),
        ("{skill}", SKILL_NAME),
        ("{skills}", &declared.skills),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}
