//! A worker's look at itself: can it write its temporary files, and has it memory left?

use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Memory that must be left, in bytes.
const MEMORY_MIN: u64 = 32 << 20;
/// Size of the file that is written for a trial.
const PROBE_BYTES: usize = 64 << 10;

/// Returns what is wrong with this machine. Blocks for as long as a small write takes.
pub(crate) fn fault(scratch: Option<&Path>, worker: &str) -> Option<String> {
    scratch
        .and_then(|folder| disk_fault(folder, worker))
        .or_else(memory_fault)
}

fn disk_fault(folder: &Path, worker: &str) -> Option<String> {
    let name = worker.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let path = folder.join(format!(".skillopt-check-{name}-{}", std::process::id()));
    let written = fs::File::create(&path).and_then(|mut file| {
        file.write_all(&[0x5a; PROBE_BYTES])
            .and_then(|()| file.sync_data())
    });
    // Nothing is lost if it stays: the next look writes over it.
    drop(fs::remove_file(&path));
    let error = written.err()?;
    let folder = folder.display();
    Some(format!(
        "temporary files cannot be written to `{folder}`: {error}"
    ))
}

/// Where the system does not say how much memory is left, there is enough.
fn memory_fault() -> Option<String> {
    let left = [free_on_machine(), free_in_group()]
        .into_iter()
        .flatten()
        .min()?;
    (left < MEMORY_MIN).then(|| format!("only {} MiB of memory are left", left >> 20))
}

fn free_on_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    field(&text, "MemAvailable:").map(|kib| kib << 10)
}

/// What the limit of this process's control group leaves; files that can be read again do not
/// count as used.
fn free_in_group() -> Option<u64> {
    let read = |name| fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok();
    let max: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let files = field(&read("memory.stat")?, "inactive_file")?;
    Some(max.saturating_sub(used.saturating_sub(files)))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(fault(Some(folder.path()), "w/1"), None);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "left clean"
        );
        let gone = folder.path().join("gone");
        let cause = fault(Some(&gone), "w").unwrap();
        assert!(cause.contains(&gone.display().to_string()), "{cause}");
    }

    #[test]
    fn numbers_are_found_by_name() {
        let text = "MemFree: 5 kB\nMemAvailable:    12 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(12));
        assert_eq!(field(text, "Swap"), None);
    }
}
