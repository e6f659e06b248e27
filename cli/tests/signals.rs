//! Stopping: Ctrl-C, and readers that go away.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use common::Place;

const SLOW: &str = "train run.yaml --json --set model.sim.latency=fixed:20";

fn start(place: &Place, args: &str) -> Child {
    place
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    let status = Command::new("kill")
        .arg("-INT")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_command() {
    let place = Place::with_data();
    let mut child = start(&place, SLOW);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first_step = lines
        .by_ref()
        .find(|line| line.as_ref().unwrap().contains("\"type\":\"step\""));
    assert!(first_step.is_some());
    interrupt(&child);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let last: serde_json::Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_eq!(last["type"], "error");
    assert_eq!(last["errors"][0]["message"], "interrupted");
    assert!(
        last["hint"]
            .as_str()
            .unwrap()
            .ends_with(&format!("go on with `skillopt {SLOW}`"))
    );
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        err,
        "stopping: calls under way are finished and kept; Ctrl-C again stops at once\n"
    );

    let resumed = place.run(&SLOW.replace(" --json", " -q"));
    let whole = place.run(&format!(
        "{} --out outputs/whole",
        SLOW.replace(" --json", " -q")
    ));
    assert_eq!((resumed.code, whole.code), (0, 0));
    assert_eq!(
        resumed.out.replace("outputs/run", ""),
        whole.out.replace("outputs/whole", "")
    );
    assert_eq!(
        place.read("outputs/run/summary.json"),
        place.read("outputs/whole/summary.json")
    );
}

#[test]
fn the_server_says_where_it_listens_and_ends_quietly() {
    let place = Place::new();
    let mut child = start(&place, "sim serve --latency fixed:1");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(
        line.starts_with("listening on http://127.0.0.1:") && line.ends_with("/v1\n"),
        "{line}"
    );
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), output.stderr.as_slice()), ("", &b""[..]));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::with_data();
    for args in [
        "completions bash",
        "config show run.yaml --origin",
        "--help",
        SLOW,
    ] {
        let mut child = start(&place, args);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(err, "", "{args}");
        assert!(
            matches!(output.status.code(), Some(0 | 130)),
            "{args}: {}",
            output.status
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::with_data();
    assert_eq!(place.run("train run.yaml -q --out outputs/done").code, 0);
    for (args, has_hint) in [
        ("show outputs/done", false),
        ("show nowhere --json", false),
        ("completions bash", false),
        ("--help", false),
        ("train run.yaml -q --out outputs/done", false),
        (SLOW, true),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = place.command(args).stdout(full.unwrap()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args}: {err}");
        let words = "error: standard output cannot be written: No space left on device";
        assert!(err.starts_with(words), "{args}: {err}");
        assert_eq!(err.contains("go on with"), has_hint, "{args}: {err}");
    }
}

#[test]
fn a_second_interrupt_stops_at_once() {
    let place = Place::with_data();
    let args = "train run.yaml --set model.sim.latency=fixed:600000 --out outputs/hung";
    let mut child = start(&place, args);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut wait_for = |start: &str| {
        let line = lines.find(|line| line.as_ref().unwrap().starts_with(start));
        line.unwrap_or_else(|| panic!("no line starts with `{start}`"))
            .unwrap()
    };
    wait_for("run folder:");
    interrupt(&child);
    wait_for("stopping:");
    interrupt(&child);
    wait_for("error: interrupted");
    let hint = wait_for("hint:");
    assert!(hint.contains(args), "{hint}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
