//! A judge that is a program: reads one JSON object, answers with one.
//!
//! The program sees the item (gold answer included) and the reply. It runs in its own copy of the
//! benchmark's files, in its own process group, without the environment of the worker, so that no
//! credential reaches it. Whatever goes wrong is a failure of the judge, never a score.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::attached::Files;
use super::judge::Verdict;
use super::program;

/// Longest answer of a judge, in bytes.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How much of its error output is kept for the message, in bytes.
const ERROR_BYTES_MAX: usize = 2 * 1024;
/// Variables the program may see.
const PASSED_ON: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];

/// Why a judge gave no verdict.
#[derive(Debug)]
pub(super) struct Failure {
    pub detail: String,
    /// Whether a second try may go better.
    pub retry: bool,
}

impl Failure {
    fn lasting(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            retry: false,
        }
    }

    fn passing(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            retry: true,
        }
    }
}

/// Ends the program and everything it started, also when the rollout is dropped.
struct Group(Option<Pid>);

impl Group {
    fn end(&mut self) {
        if let Some(group) = self.0.take() {
            // It may be gone already; then there is nothing to do.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asks the program for a verdict. `folders` are files that it finds beside its own, by the name of
/// their folder.
pub(super) async fn ask(
    command: &[String],
    files: &BTreeMap<String, String>,
    folders: &[(&str, &Files)],
    limit: Duration,
    question: &Value,
) -> Result<Verdict, Failure> {
    let folder = tempfile::tempdir()
        .map_err(|e| Failure::passing(format!("cannot make a folder for it: {e}")))?;
    unpack(files, folder.path())?;
    for (name, files) in folders {
        lay_out(files, &folder.path().join(name))?;
    }
    let [program, arguments @ ..] = command else {
        return Err(Failure::lasting("`command` is empty"));
    };
    let own = program::own_file(program, files).map(|(name, _)| folder.path().join(name));
    let mut child = Command::new(own.as_deref().unwrap_or(Path::new(program)))
        .args(arguments)
        .current_dir(folder.path())
        .env_clear()
        .envs(
            PASSED_ON
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .env("HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| Failure {
            detail: format!("cannot start `{program}`: {e}"),
            // A process that was started meanwhile holds the file open for a moment.
            retry: e.kind() == std::io::ErrorKind::ExecutableFileBusy,
        })?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(id.map(Pid::from_raw));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Failure::passing("its pipes could not be opened"));
    };
    let text = question.to_string();
    let talk = async {
        let write = async move {
            // A judge that does not read its input may be right all the same.
            let _ = stdin.write_all(text.as_bytes()).await;
            drop(stdin);
        };
        let wait = async {
            let status = child.wait().await;
            // What it left behind would keep the pipes open.
            group.end();
            status
        };
        let (out, err) = (
            read(stdout, OUTPUT_BYTES_MAX),
            read(stderr, ERROR_BYTES_MAX),
        );
        let ((), status, out, err) = tokio::join!(write, wait, out, err);
        (status, out, err)
    };
    let done = tokio::time::timeout(limit, talk).await;
    let (status, (out, is_cut), (err, _)) = done.map_err(|_| {
        let seconds = limit.as_secs();
        Failure::passing(format!(
            "no answer within {seconds} s; raise `timeout_s` or fix it"
        ))
    })?;
    let status = status.map_err(|e| Failure::passing(format!("lost track of it: {e}")))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&err);
        let detail = format!("it ended with {status}: {}", said.trim());
        // Ended by a signal: out of memory, or a person; another try may go better.
        let retry = status.code().is_none();
        return Err(Failure { detail, retry });
    }
    if is_cut {
        let detail = format!("it printed more than {OUTPUT_BYTES_MAX} bytes");
        return Err(Failure::lasting(detail));
    }
    parse(&out)
}

/// Reads to the end, keeps the first `max` bytes, and says whether there was more.
async fn read(mut from: impl AsyncRead + Unpin, max: usize) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let mut is_cut = false;
    let mut buffer = [0u8; 8192];
    // A broken pipe ends the output as the program's end does.
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let room = (max - kept.len()).min(count);
        kept.extend(buffer.iter().take(room));
        is_cut |= room < count;
    }
    (kept, is_cut)
}

/// What the program prints.
#[derive(Deserialize)]
struct Answer {
    hard: Points,
    #[serde(default)]
    soft: Option<Points>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Points {
    Flag(bool),
    Number(f64),
}

impl Points {
    fn value(self) -> Option<f64> {
        match self {
            Self::Flag(flag) => Some(f64::from(u8::from(flag))),
            Self::Number(number) => Some(number).filter(|n| (0.0..=1.0).contains(n)),
        }
    }
}

fn parse(output: &[u8]) -> Result<Verdict, Failure> {
    let bad = |why: String| {
        let start: String = String::from_utf8_lossy(output).chars().take(200).collect();
        Failure::lasting(format!(
            "{why}; expected one object like {{\"hard\": 1, \"soft\": 1.0, \"reason\": \"\"}}, \
             got `{}`",
            start.trim()
        ))
    };
    let answer: Answer = serde_json::from_slice(output).map_err(|e| bad(e.to_string()))?;
    let points = |points: Points| {
        points
            .value()
            .ok_or_else(|| bad("scores are numbers from 0 to 1".to_owned()))
    };
    let hard = points(answer.hard)?;
    let soft = answer.soft.map_or(Ok(hard), points)?;
    let reason = answer.reason.unwrap_or_default();
    let reason = if reason.is_empty() && hard < 1.0 {
        "wrong_answer".to_owned()
    } else {
        reason
    };
    Ok(Verdict { hard, soft, reason })
}

/// Writes the benchmark's files; a script keeps being executable.
fn unpack(files: &BTreeMap<String, String>, folder: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    for (name, text) in files {
        let path = put(folder, name, text.as_bytes())?;
        let mode = if text.starts_with("#!") { 0o700 } else { 0o600 };
        let done = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        done.map_err(|e| Failure::passing(format!("cannot write `{name}` for it: {e}")))?;
    }
    Ok(())
}

/// Writes files of an item, or what an agent made of them.
fn lay_out(files: &Files, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::passing(format!("cannot make a folder for it: {e}")))?;
    for (name, bytes) in files {
        put(folder, name, bytes)?;
    }
    Ok(())
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let is_inside = Path::new(name)
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    if !is_inside {
        return Err(Failure::lasting(format!(
            "`{name}` is outside the benchmark's folder"
        )));
    }
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap_or(folder))
        .and_then(|()| std::fs::write(&path, bytes))
        .map_err(|e| Failure::passing(format!("cannot write `{name}` for it: {e}")))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(script: &str, limit_ms: u64) -> Result<Verdict, Failure> {
        let command = ["sh", "-c", script].map(str::to_owned);
        let files = BTreeMap::from([("data/a.txt".to_owned(), "inside".to_owned())]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let question = json!({"item": {"id": "1"}, "answer": "x"});
        runtime.block_on(ask(
            &command,
            &files,
            &[],
            Duration::from_millis(limit_ms),
            &question,
        ))
    }

    #[test]
    fn a_verdict_is_read() {
        let echo = run(
            r#"grep -q '"answer":"x"' && grep -q inside data/a.txt && echo '{"hard":true}'"#,
            9000,
        );
        assert_eq!(
            echo.unwrap(),
            Verdict {
                hard: 1.0,
                soft: 1.0,
                reason: String::new()
            }
        );
        let half = run(r#"echo '{"hard":0,"soft":0.5,"reason":"late"}'"#, 9000).unwrap();
        assert_eq!(
            (half.hard, half.soft, half.reason.as_str()),
            (0.0, 0.5, "late")
        );
        // A child that outlives the judge does not hold the verdict up.
        assert!(run(r#"sleep 60 & echo '{"hard":1}'"#, 9000).is_ok());
    }

    #[test]
    fn a_script_of_the_benchmark_is_run_by_its_name() {
        let script = "#!/bin/sh\necho '{\"hard\": 1}'\n".to_owned();
        let files = BTreeMap::from([("judge.sh".to_owned(), script)]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for program in ["judge.sh", "./judge.sh"] {
            let command = [program.to_owned()];
            let ask = || {
                let limit = Duration::from_secs(9);
                runtime.block_on(ask(&command, &files, &[], limit, &Value::Null))
            };
            let mut done = ask();
            // Other tests start programs, too; see the error's kind.
            while done.as_ref().is_err_and(|failure| failure.retry) {
                done = ask();
            }
            assert_eq!(done.unwrap().hard, 1.0, "{program}");
        }
    }

    #[test]
    fn a_broken_judge_never_scores() {
        for (script, want, retry) in [
            ("echo no >&2; exit 3", "no", false),
            ("echo garbage", "garbage", false),
            ("echo '{\"hard\": 2}'", "from 0 to 1", false),
            ("echo '{\"soft\": 1}'", "hard", false),
            ("head -c 100000 /dev/zero", "more than", false),
            ("kill -9 $$", "signal", true),
            ("sleep 60", "no answer within", true),
        ] {
            let limit = if script.starts_with("sleep") {
                50
            } else {
                9000
            };
            let failure = run(script, limit).unwrap_err();
            assert!(
                failure.detail.contains(want),
                "{script}: {}",
                failure.detail
            );
            assert_eq!(failure.retry, retry, "{script}");
        }
    }
}
