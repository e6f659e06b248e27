//! Following a run: on a terminal, in a log, once, and what the exit code says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use common::Place;
use common::pty::Pty;

const SLOW: &str = "train run.yaml --json --set model.sim.latency=fixed:40";
/// A run that is under way.
fn training(place: &Place) -> Child {
    let mut child = place
        .command(SLOW)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.find(|line| line.as_ref().unwrap().contains("\"type\":\"run\""));
    assert!(begun.is_some());
    // The rest is read so that the run is not held up.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn signal(pid: &str, name: &str) {
    let status = Command::new("kill").arg(name).arg(pid).status().unwrap();
    assert!(status.success());
}

/// The time in a frame differs from run to run.
fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let at = line.len().saturating_sub(8);
        let is_time =
            line.is_char_boundary(at) && line[at..].bytes().filter(|b| *b == b':').count() == 2;
        let line = if is_time { &line[..at] } else { line };
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

#[test]
fn a_finished_run_as_lines_rows_and_one_frame() {
    let place = Place::with_data();
    assert_eq!(place.run("train run.yaml -q").code, 0);
    place.golden("watch/lines", "watch outputs/run");
    place.golden("watch/json", "watch outputs/run --once --json");
    place.golden("watch/no-run", "watch data");
    place.golden("watch/no-folder", "top nowhere");
    let frame = place.run("watch outputs/run --once");
    assert_eq!((frame.code, frame.err.as_str()), (0, ""));
    assert!(!frame.out.contains('\x1b'), "{frame:?}");
    let want = "\
outputs/run                          improved · step 4 of 4
30.0 points better on the test split.               Between +5.0 and +55.0 (95%, 20 items); validat…
";
    let seen = masked(&frame.out);
    assert!(seen.starts_with(want), "{seen}");
    assert!(
        seen.contains("●  +8.3   accepted: 33.3% on the val split"),
        "{seen}"
    );
    let ascii = place.run("watch outputs/run --once --ascii");
    assert!(ascii.out.is_ascii(), "{ascii:?}");
    let top = place.run("top outputs --once");
    assert_eq!(top.code, 0);
    assert!(
        top.out.contains("outputs/run 4/4 improved ● +8.3"),
        "{top:?}"
    );
    let rows = place.run("top outputs --once --json");
    let row: serde_json::Value = serde_json::from_str(&rows.out).unwrap();
    assert_eq!(row["type"], "overview");
    assert_eq!(row["runs"][0]["steps_done"], 4);
    assert_eq!(row["slots"], serde_json::Value::Null);
}

#[test]
fn a_run_under_way_is_followed_to_its_end() {
    let place = Place::with_data();
    let mut run = training(&place);
    let live = place.run("watch outputs/run");
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let later = place.run("watch outputs/run");
    assert_eq!(live, later, "the same lines, whenever one looks");
    assert_eq!(live.code, 0);
}

#[test]
fn a_run_that_was_stopped_ends_with_the_code_of_its_state() {
    let place = Place::with_data();
    let mut run = training(&place);
    signal(&run.id().to_string(), "-INT");
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let seen = place.run("watch outputs/run");
    assert_eq!(seen.code, 4, "{seen:?}");
    assert!(seen.out.contains("paused (by hand)"), "{seen:?}");
    let once = place.run("watch outputs/run --once");
    assert_eq!(once.code, 4);
    assert!(once.out.contains("kept: "), "{once:?}");

    let mut run = training(&place);
    signal(&run.id().to_string(), "-KILL");
    run.wait().unwrap();
    let seen = place.run("watch outputs/run --once");
    assert_eq!(seen.code, 4, "{seen:?}");
    assert!(
        seen.out.contains("stopped: its process is gone"),
        "{seen:?}"
    );
}

#[test]
fn keys_show_what_is_asked_and_q_leaves() {
    let place = Place::with_data();
    assert_eq!(place.run("train run.yaml -q").code, 0);
    let mut pty = Pty::start(&place, "watch outputs/run");
    pty.until("j/k");
    pty.press("jjj");
    pty.press("d");
    pty.until("candidate");
    pty.until("@@");
    pty.press("t");
    pty.until("against");
    pty.press("\r");
    pty.press("p");
    pty.until("Ctrl-C");
    pty.press("q");
    let below = pty.ended(&place, 0);
    assert!(
        below.contains("30.0 points better on the test split."),
        "{below}"
    );
    assert!(below.contains("accepted: 33.3%"), "{below}");
    assert!(!below.contains("q leave"), "{below}");
}

#[test]
fn the_terminal_is_restored_after_ctrl_c_and_a_signal() {
    let place = Place::with_data();
    for how in ["\x03", "-TERM", "-INT"] {
        let mut run = training(&place);
        let mut pty = Pty::start(&place, "watch outputs/run");
        pty.until("j/k");
        if how.starts_with('-') {
            signal(place.read("pid").trim(), how);
        } else {
            pty.press(how);
        }
        let below = pty.ended(&place, 130);
        assert!(below.contains("outputs/run"), "{below}");
        signal(&run.id().to_string(), "-KILL");
        run.wait().unwrap();
        std::fs::remove_dir_all(place.path("outputs")).unwrap();
    }
    std::fs::create_dir(place.path("outputs")).unwrap();
    let mut pty = Pty::start(&place, "top outputs");
    pty.until("leave");
    pty.press("\x03");
    let below = pty.ended(&place, 0);
    assert!(below.contains("nothing is going on"), "{below}");
}

#[test]
fn a_run_that_ends_while_it_is_watched_gives_its_code() {
    let place = Place::with_data();
    let mut run = training(&place);
    let mut pty = Pty::start(&place, "watch outputs/run");
    pty.until("j/k");
    let below = pty.ended(&place, 0);
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert!(below.contains("improved"), "{below}");
}
