//! Finds a judge's program before anything is asked.
//!
//! What the program is made of has to be part of the job's settings, so that a changed judge is
//! another job. So it lies beside `benchmark.yaml`, or is an interpreter of the machine; a script
//! elsewhere is refused.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use skillopt_core::suggest;

/// Ends of names that only scripts have.
const SCRIPTS: &[&str] = &[
    "py", "sh", "bash", "js", "mjs", "ts", "rb", "pl", "lua", "r",
];

/// Checks `command`: its program must be there, and every script be one of `files`, the text files
/// of the benchmark's `folder`. `search` is the value of `PATH`.
///
/// # Errors
/// What is missing or lies elsewhere, and what to do.
pub(super) fn check(
    command: &[String],
    folder: &Path,
    files: &BTreeMap<String, String>,
    search: Option<&OsStr>,
) -> Result<(), String> {
    let [program, arguments @ ..] = command else {
        return Err("`command` names no program".to_owned());
    };
    check_program(program, folder, files, search)?;
    arguments
        .iter()
        .try_for_each(|argument| check_argument(argument, folder, files))
}

/// Returns the file of the benchmark's folder that `program` names.
pub(super) fn own_file<'a>(
    program: &str,
    files: &'a BTreeMap<String, String>,
) -> Option<(&'a str, &'a str)> {
    let name = program.strip_prefix("./").unwrap_or(program);
    files
        .get_key_value(name)
        .map(|(name, text)| (name.as_str(), text.as_str()))
}

fn check_program(
    program: &str,
    folder: &Path,
    files: &BTreeMap<String, String>,
    search: Option<&OsStr>,
) -> Result<(), String> {
    if program.trim().is_empty() {
        return Err("`command` names no program".to_owned());
    }
    if let Some((name, text)) = own_file(program, files) {
        return match text.starts_with("#!") {
            true => Ok(()),
            false => Err(format!(
                "`{name}` cannot be run, because it does not begin with `#!`; name the program that \
                 reads it, as in `command: [python3, {name}]`"
            )),
        };
    }
    let path = Path::new(program);
    if path.is_absolute() {
        return match (is_executable(path), is_script(path)) {
            (false, _) => Err(format!(
                "the judge's program `{program}` cannot be run: no such program"
            )),
            (true, true) => Err(elsewhere(program)),
            (true, false) => Ok(()),
        };
    }
    if program.contains('/') {
        let hint = suggest::hint(program, files.keys().map(String::as_str));
        return Err(match folder.join(program).is_file() {
            true => not_copied(program),
            false => {
                format!("the judge's program `{program}` is not in the benchmark's folder{hint}")
            }
        });
    }
    let found = search
        .into_iter()
        .flat_map(std::env::split_paths)
        .any(|place| is_executable(&place.join(program)));
    if found {
        return Ok(());
    }
    let hint = suggest::hint(program, files.keys().map(String::as_str));
    Err(format!(
        "the judge's program `{program}` is neither on the `PATH` nor in the benchmark's folder{hint}"
    ))
}

fn check_argument(
    argument: &str,
    folder: &Path,
    files: &BTreeMap<String, String>,
) -> Result<(), String> {
    // Also the path of `--rules=PATH`.
    let named = match argument.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => argument,
    };
    if named.is_empty() || own_file(named, files).is_some() {
        return Ok(());
    }
    let path = Path::new(named);
    let climbs = path.components().any(|c| c == Component::ParentDir);
    let place: PathBuf = folder.join(path);
    if path.is_absolute() || climbs {
        return match place.is_file() {
            true => Err(elsewhere(named)),
            false => Ok(()),
        };
    }
    if place.is_file() && named.contains('/') {
        return Err(not_copied(named));
    }
    let end = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_script = SCRIPTS.contains(&end.to_lowercase().as_str());
    if is_script && !named.contains(char::is_whitespace) && !place.exists() {
        let hint = suggest::hint(named, files.keys().map(String::as_str));
        return Err(format!(
            "the judge's script `{named}` is not in the benchmark's folder{hint}"
        ));
    }
    Ok(())
}

fn elsewhere(path: &str) -> String {
    format!(
        "the judge's file `{path}` lies outside the benchmark's folder, where a change to it would go \
         unnoticed; copy it beside `benchmark.yaml` and name it without a folder"
    )
}

fn not_copied(path: &str) -> String {
    format!(
        "the judge's file `{path}` lies in a folder of its own, and those are not copied for the \
         judge; put it beside `benchmark.yaml`"
    )
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether the file begins with `#!`; one that cannot be read is taken for none.
fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_and_what_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("mine");
        std::fs::create_dir_all(folder.join("lib")).unwrap();
        std::fs::write(folder.join("lib/judge.py"), "").unwrap();
        std::fs::write(dir.path().join("out.py"), "#!/bin/sh\n").unwrap();
        std::fs::write(dir.path().join("tool"), "#!/bin/sh\n").unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path().join("tool"), mode).unwrap();
        let outside = |name: &str| dir.path().join(name).display().to_string();
        let files = [("judge.py", "print()"), ("run.sh", "#!/bin/sh\n")];
        let files: BTreeMap<String, String> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        let (tool, out) = (outside("tool"), outside("out.py"));
        let option = format!("--rules={out}");
        for (command, want) in [
            (vec!["sh", "judge.py"], ""),
            (vec!["/bin/sh", "-c", "cat /etc/hosts; x.py"], ""),
            (vec!["sh", "./judge.py", "--level=2", "no/such"], ""),
            (vec!["run.sh"], ""),
            (vec!["./run.sh"], ""),
            (vec!["judge.py"], "[python3, judge.py]"),
            (vec![" "], "no program"),
            (vec!["no-such-program-of-ours"], "neither on the `PATH`"),
            (vec!["rnu.sh"], "did you mean `run.sh`?"),
            (vec!["/no/such"], "no such program"),
            (vec![tool.as_str()], "outside"),
            (vec!["lib/judge.py"], "beside `benchmark.yaml`"),
            (vec!["./none"], "not in the benchmark's folder"),
            (vec!["sh", "jugde.py"], "did you mean `judge.py`?"),
            (vec!["sh", "lib/judge.py"], "beside `benchmark.yaml`"),
            (vec!["sh", "../out.py"], "outside"),
            (vec!["sh", out.as_str()], "outside"),
            (vec!["sh", "judge.py", option.as_str()], "outside"),
        ] {
            let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
            let path = std::env::var_os("PATH");
            let done = check(&command, &folder, &files, path.as_deref());
            let text = done.err().unwrap_or_default();
            let is_right = text.contains(want) && want.is_empty() == text.is_empty();
            assert!(is_right, "{command:?}: {text}");
        }
    }
}
