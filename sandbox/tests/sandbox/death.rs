//! Nothing survives: not the program's end, not the run's, not the worker's.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use skillopt_sandbox::{Ending, Host, Limits, Policy};
use tempfile::TempDir;

use crate::support::{Place, block_on, everywhere, marked, marker, only, said, settings, shell};

/// Set for a test program that is started to be killed: what it is to leave behind.
const VICTIM: &str = "SKILLOPT_SANDBOX_TEST_VICTIM";

everywhere! {
    a_daemon_dies_with_the_program => daemon;
    a_dropped_run_leaves_nothing => dropped;
    a_killed_worker_leaves_nothing => killed_worker;
    folders_go_with_their_host => folders;
}

/// A process that is nobody's child any more, has a session of its own and minds no signal; it says
/// a word when it stands.
fn daemon_script(marker: &str) -> String {
    format!(
        "setsid nohup bash -c 'trap \"\" HUP TERM INT; echo up; while :; do sleep 300; done' {marker} &"
    )
}

fn daemon(place: &Place) {
    let marker = marker();
    let script = format!("({}) | head -n 1; exit 5", daemon_script(&marker));
    let report = place.sh(&script);
    assert_eq!(report.stdout.text(), "up\n");
    assert_eq!(report.ending, Ending::Exited(5));
    assert!(report.left_behind >= 1, "it is counted: {report:?}");
    assert_eq!(place.sh("exit 0").left_behind, 0);
    assert_eq!(marked(&marker), [0; 0]);
}

fn dropped(place: &Place) {
    let marker = marker();
    let task = shell(&format!("{} sleep 300", daemon_script(&marker)));
    let mut room = place.room(Limits::default());
    block_on(async {
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut tell = Some(tell);
        let mut on_line = |_: skillopt_sandbox::Line<'_>| {
            if let Some(tell) = tell.take() {
                tell.send(()).unwrap();
            }
        };
        tokio::select! {
            report = room.run(&task, &mut on_line) => panic!("it ended: {report:?}"),
            up = told => up.unwrap(),
        }
        drop(room);
        place.host.is_clean().await;
    });
    assert_eq!(marked(&marker), [0; 0]);
}

/// Starts a worker that is to be killed, and returns it when its program runs.
fn victim(folder: &Path, policy: &str, marker: &str) -> (Child, TempDir) {
    let (words, dir) = only("death::the_worker_to_be_killed");
    let mut victim = Command::new(&words[0])
        .args(&words[1..])
        .env(VICTIM, format!("{} {policy} {marker}", folder.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    lines.find(|line| line.ends_with("up")).unwrap();
    assert!(!marked(marker).is_empty());
    (victim, dir)
}

/// Waits until nobody has the marker any more.
#[track_caller]
fn all_end(marker: &str) {
    // Also who was only just being started.
    while let Some(pid) = marked(marker).first() {
        let pid = Pid::from_raw(*pid).unwrap();
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
            let mut wanted = [PollFd::new(&handle, PollFlags::IN)];
            let limit = Timespec::try_from(Duration::from_secs(60)).unwrap();
            let ended = poll(&mut wanted, Some(&limit)).unwrap();
            assert_eq!(ended, 1, "{pid:?} survives its worker");
        }
    }
}

fn killed_worker(place: &Place) {
    let policy = match place.level() {
        skillopt_sandbox::Level::Landlock => "landlock",
        _ => "bubblewrap",
    };
    let folder = place.dir.path().join("victim");
    let marker = marker();
    let (mut victim, _dir) = victim(&folder, policy, &marker);
    victim.kill().unwrap();
    victim.wait().unwrap();
    all_end(&marker);

    // The next worker removes what the killed one could not.
    let rooms = folder.join("rooms");
    let left = || std::fs::read_dir(&rooms).unwrap().count();
    assert!(left() > 0);
    drop(Host::open(settings(&folder, Policy::None)).unwrap());
    assert_eq!(left(), 0);
}

/// What ends a killed worker's program is stopped: the next worker does it, where there are groups.
#[test]
fn a_killed_workers_group_is_ended_by_the_next_worker() {
    let place = Place::new(Policy::None);
    if place.host.offers().cgroups.is_err() {
        return;
    }
    let folder = place.dir.path().join("victim");
    let marker = marker();
    let (mut victim, _dir) = victim(&folder, "none", &marker);
    let id = victim.id();
    let children = std::fs::read_dir(format!("/proc/{id}/task"))
        .unwrap()
        .flatten();
    let children = children.flat_map(|thread| {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap();
        let all: Vec<i32> = list
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        all
    });
    let keeper = Pid::from_raw(children.last().unwrap()).unwrap();
    kill_process(keeper, Signal::STOP).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(!marked(&marker).is_empty(), "it survives by itself");
    drop(Host::open(settings(&folder, Policy::None)).unwrap());
    all_end(&marker);
}

/// Is killed by another test, which starts it with a variable; alone it has nothing to do.
#[test]
fn the_worker_to_be_killed() {
    let Ok(order) = std::env::var(VICTIM) else {
        let rooms = tempfile::tempdir().unwrap();
        let error = Host::open(settings(&rooms.path().join("x/../\0"), Policy::None));
        assert!(error.is_err());
        return;
    };
    let mut words = order.split(' ');
    let (folder, policy, marker) = (
        words.next().unwrap(),
        words.next().unwrap(),
        words.next().unwrap(),
    );
    let policy = Policy::parse(policy).unwrap();
    let host = Host::open(settings(folder.as_ref(), policy)).unwrap();
    let own = host.own_folder().unwrap();
    std::fs::write(own.path().join("socket"), "").unwrap();
    let mut room = host.room(Vec::new(), Limits::default()).unwrap();
    let task = shell(&format!("{} sleep 300; : {marker}", daemon_script(marker)));
    let mut on_line = |line: skillopt_sandbox::Line<'_>| {
        println!("{}", String::from_utf8_lossy(line.bytes));
    };
    let report = block_on(async { room.run(&task, &mut on_line).await });
    panic!("it was to be killed: {report:?}");
}

fn folders(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let rooms = dir.path().join("rooms");
    let host = Host::open(settings(dir.path(), Policy::Auto)).unwrap();
    let place = Place {
        host,
        dir: tempfile::tempdir_in(place.dir.path()).unwrap(),
    };
    // A program that takes everybody's rights away does not keep its folder by that.
    let report =
        place.sh("mkdir -p a/b/c; echo x > a/b/c/file; chmod 0 a/b/c/file a/b/c a/b a; echo ok");
    assert_eq!(said(&report), "ok\n");
    assert_eq!(
        std::fs::read_dir(&rooms).unwrap().count(),
        2,
        "a folder and its lock"
    );
    // A folder of the worker's own goes with its owner, and its owner keeps the place.
    let own = place.host.own_folder().unwrap();
    let other = place.host.own_folder().unwrap();
    assert!(own.path().starts_with(rooms.canonicalize().unwrap()));
    let gone = other.path().to_owned();
    drop(other);
    assert!(!gone.exists());
    drop(place);
    std::fs::write(own.path().join("socket"), "").unwrap();
    drop(own);
    assert_eq!(std::fs::read_dir(&rooms).unwrap().count(), 0);
}
