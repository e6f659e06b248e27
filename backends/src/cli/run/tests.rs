use std::path::Path;

use super::*;

fn shell<'a>(folder: &Path, script: &str) -> Run<'a> {
    Run {
        endpoint: "sh",
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".into())],
        folder: folder.to_owned(),
        stdin: Vec::new(),
        limit: Duration::from_secs(60),
        setting: "shell",
    }
}

#[tokio::test]
async fn a_long_prompt_goes_in_while_a_long_answer_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = shell(folder.path(), "pwd >&2; cat; exit 3");
    run.stdin = vec![b'x'; 1 << 20];
    let output = run.output().await.unwrap();
    assert_eq!(output.code, Some(3));
    assert_eq!(output.stdout.len(), 1 << 20);
    let cwd = Path::new(output.stderr.trim()).canonicalize().unwrap();
    assert_eq!(cwd, folder.path().canonicalize().unwrap());
}

#[tokio::test]
async fn it_sees_only_the_environment_that_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let output = shell(folder.path(), "env").output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|l| l.split('=').next()).collect();
    let of_the_shell = ["PATH", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|n| of_the_shell.contains(n)), "{text}");
}

/// Waits until the other end of a pipe, which a process holds, is closed.
async fn closed(pipe: &Path) {
    let pipe = pipe.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read(pipe));
    read.await.unwrap().unwrap();
}

fn pipe_in(folder: &Path) -> PathBuf {
    let pipe = folder.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    pipe
}

#[tokio::test]
async fn a_deadline_ends_it_and_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe_in(folder.path());
    let mut run = shell(folder.path(), "sleep 1000 > pipe & sleep 1000");
    run.limit = Duration::from_millis(300);
    let (result, ()) = tokio::join!(run.output(), closed(&pipe));
    assert!(
        matches!(result, Err(CallError::Timeout { .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn who_stops_waiting_ends_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe_in(folder.path());
    let run = shell(folder.path(), "exec sleep 1000 > pipe");
    let task = tokio::spawn(run.output());
    let (began, begins) = tokio::sync::oneshot::channel();
    let held = tokio::task::spawn_blocking(move || {
        // Opens when the program has opened its end.
        let mut end = std::fs::File::open(pipe).unwrap();
        began.send(()).unwrap();
        std::io::Read::read_to_end(&mut end, &mut Vec::new()).unwrap()
    });
    begins.await.unwrap();
    task.abort();
    assert_eq!(held.await.unwrap(), 0);
    assert!(task.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_background_process_does_not_hold_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let run = shell(folder.path(), "sleep 1000 & echo done");
    let output = run.output().await.unwrap();
    assert_eq!(output.stdout, b"done\n");
}

#[tokio::test]
async fn a_missing_program_names_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = shell(folder.path(), "");
    run.program = "/nowhere/claude".into();
    let error = run.output().await.unwrap_err();
    assert!(
        matches!(error, CallError::Misconfigured { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains("/nowhere/claude") && text.contains("`shell`"),
        "{text}"
    );
}
