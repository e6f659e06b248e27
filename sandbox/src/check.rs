//! Refuses tasks that would fail in a way that is hard to understand, or show too much.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use crate::Error;
use crate::task::Task;

/// Refuses a task that cannot be carried out as it is written.
pub(crate) fn check(task: &Task, rooms: &Path) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Task(text));
    if task.program.is_empty() {
        return refuse("it names no program".to_owned());
    }
    let mut words = std::iter::once(&task.program).chain(&task.args);
    if words.any(|word| word.contains('\0')) {
        return refuse("an argument holds a zero byte".to_owned());
    }
    for (name, value) in &task.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return refuse(format!("the variable `{name}` cannot be set"));
        }
    }
    for file in &task.files {
        let mut parts = file.path.components();
        let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || file.path.file_name().is_none() {
            let path = file.path.display();
            return refuse(format!("the file `{path}` is not below its folder"));
        }
    }
    for path in &task.read_only {
        may_be_shown(path, rooms).map_err(Error::Task)?;
    }
    Ok(())
}

/// Tells whether `path` may be shown to the program.
fn may_be_shown(path: &Path, rooms: &Path) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
        return Err(format!("the folder `{shown}` is not an absolute path"));
    }
    let real = path
        .canonicalize()
        .map_err(|e| format!("the folder `{shown}` cannot be used: {e}"))?;
    let covered = ["/", "/proc", "/dev", "/sys", "/sandbox", "/run/sandbox"];
    if covered.iter().any(|place| real == Path::new(place)) {
        return Err(format!("the folder `{shown}` cannot be shown to a program"));
    }
    match rooms.starts_with(&real) {
        true => Err(format!(
            "the folder `{shown}` holds the rooms of all runs, so it cannot be shown to one"
        )),
        false => Ok(()),
    }
}
