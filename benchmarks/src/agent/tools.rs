//! Named programs that an agent finds in its folder, and which of them it ran.
//!
//! What it says that it did is not looked at: each program writes its own name down when it runs. The
//! agent could write there too, so the list is a record of a run and no proof.

use std::collections::BTreeMap;

/// Where the programs write their names.
pub(crate) const LOG: &str = "_tool_calls.log";
/// Longest name.
const NAME_CHARS_MAX: usize = 64;

/// Programs by name, with what each prints.
pub(crate) type Tools = BTreeMap<String, String>;

/// Checks the names: each is one file of the folder, and is none of the task's own.
///
/// # Errors
/// The first that is not.
pub(crate) fn check<'a>(
    tools: &Tools,
    taken: impl IntoIterator<Item = &'a String>,
) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for name in tools.keys() {
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins_well || !name.chars().all(is_plain) || name.len() > NAME_CHARS_MAX {
            return Err(format!(
                "`tools`: `{name}` cannot be the name of a program; write letters, digits, `_` and `-`, \
                 {NAME_CHARS_MAX} at most"
            ));
        }
    }
    let mut taken = taken.into_iter();
    match taken.find(|name| tools.contains_key(*name) || *name == LOG) {
        Some(name) => Err(format!("`tools`: `{name}` is a file of the task too")),
        None => Ok(()),
    }
}

/// Returns a program that writes its name down and prints a text.
pub(crate) fn program(name: &str, says: &str) -> Vec<u8> {
    let says = says.replace('\'', r"'\''");
    format!(
        "#!/bin/sh\ncase \"$0\" in */*) at=${{0%/*}} ;; *) at=. ;; esac\n\
         printf '%s\\n' '{name}' >> \"$at/{LOG}\"\nprintf '%s\\n' '{says}'\n"
    )
    .into_bytes()
}

/// What the agent is told of them.
pub(crate) fn told(tools: &Tools) -> String {
    let names: Vec<String> = tools.keys().map(|name| format!("`./{name}`")).collect();
    format!(
        "These programs lie in your working folder: {}. Where your task or your rules call for one of \
         them, run it.",
        names.join(", ")
    )
}

/// Returns which of them ran, each once, in the order of their first runs.
pub(crate) fn called(tools: &Tools, log: &[u8]) -> Vec<String> {
    let mut called: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(log).lines() {
        if tools.contains_key(line) && !called.iter().any(|name| name == line) {
            called.push(line.to_owned());
        }
    }
    called
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    fn tools(names: &[(&str, &str)]) -> Tools {
        let pairs = names.iter();
        pairs
            .map(|(name, says)| ((*name).to_owned(), (*says).to_owned()))
            .collect()
    }

    #[test]
    fn a_program_says_its_text_and_that_it_ran() {
        let folder = tempfile::tempdir().unwrap();
        let tools = tools(&[("look_up", "it's \"$HOME\"\n`x`"), ("search", "")]);
        for (name, says) in &tools {
            let path = folder.path().join(name);
            std::fs::write(&path, program(name, says)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        let run = |program: &str| {
            let mut command = Command::new("sh");
            let output = command.args(["-c", program]).current_dir(folder.path());
            String::from_utf8(output.output().unwrap().stdout).unwrap()
        };
        assert_eq!(run("./search x"), "\n");
        assert_eq!(run("sh look_up; ./search"), "it's \"$HOME\"\n`x`\n\n");
        let log = std::fs::read(folder.path().join(LOG)).unwrap();
        assert_eq!(called(&tools, &log), ["search", "look_up"]);
        assert!(called(&tools, b"other\nsearch2\n").is_empty());
    }

    #[test]
    fn a_name_is_one_file_of_its_own() {
        let none: [String; 0] = [];
        for name in ["", "../x", "a b", "-rf", ".ssh", "x'y"] {
            let refused = check(&tools(&[(name, "")]), &none).unwrap_err();
            assert!(refused.contains("cannot be the name"), "{refused}");
        }
        let taken = ["search".to_owned()];
        assert!(check(&tools(&[("search", "")]), &taken).is_err());
        assert_eq!(check(&tools(&[("look_up-2", "")]), &taken), Ok(()));
    }
}
