//! Places to run in, and who runs.

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use skillopt_sandbox::{Host, Level, Limits, Policy, Relay, Report, Room, Settings, Task};
use tempfile::TempDir;

/// An ordinary user without a name or a home.
pub(crate) const PLAIN: &str = "12345";
const INIT: &str = "SKILLOPT_SANDBOX_TEST_INIT";

/// A host in a folder of its own.
pub(crate) struct Place {
    pub(crate) host: Host,
    pub(crate) dir: TempDir,
}

pub(crate) fn settings(folder: &Path, policy: Policy) -> Settings {
    let init = std::env::var_os(INIT).map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_skillopt-sandbox-init")),
        PathBuf::from,
    );
    Settings {
        folder: folder.join("rooms"),
        init,
        init_args: Vec::new(),
        policy,
        bubblewrap: None,
        cgroup: None,
    }
}

impl Place {
    pub(crate) fn new(policy: Policy) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::open(settings(dir.path(), policy)).unwrap();
        Self { host, dir }
    }

    pub(crate) fn level(&self) -> Level {
        self.host.level()
    }

    pub(crate) fn room(&self, limits: Limits) -> Room {
        self.host.room(Vec::new(), limits).unwrap()
    }

    /// Runs a shell script to its end.
    pub(crate) fn sh(&self, script: &str) -> Report {
        self.sh_within(script, Limits::default())
    }

    pub(crate) fn sh_within(&self, script: &str, limits: Limits) -> Report {
        let mut room = self.room(limits);
        block_on(async { room.run(&shell(script), &mut |_| {}).await }).unwrap()
    }

    pub(crate) fn sh_with_relay(&self, socket: &Path, script: &str) -> Report {
        let socket = socket.to_path_buf();
        let mut room = self
            .host
            .room(vec![Relay { socket }], Limits::default())
            .unwrap();
        let port = room.ports()[0].to_string();
        let mut task = shell(script);
        task.env.insert("PORT".to_owned(), port);
        block_on(async { room.run(&task, &mut |_| {}).await }).unwrap()
    }
}

pub(crate) fn shell(script: &str) -> Task {
    Task {
        program: "bash".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        ..Task::default()
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Standard output, and standard error if there is any.
#[track_caller]
pub(crate) fn said(report: &Report) -> String {
    let (out, err) = (report.stdout.text(), report.stderr.text());
    assert_eq!(err, "", "{report:?}");
    out
}

/// A name that no other process has.
pub(crate) fn marker() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("marked-{}-{count}-x", std::process::id())
}

/// Processes, as this machine sees them, that have the marker among their arguments, without those
/// of the tests themselves.
pub(crate) fn marked(marker: &str) -> Vec<i32> {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let is_test = std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == own);
        (String::from_utf8_lossy(&line).contains(marker) && !is_test).then_some(pid)
    })
    .collect()
}

pub(crate) fn is_superuser() -> bool {
    nix::unistd::geteuid().is_root()
}

/// This test program as a command that runs one test; the test's path has no crate in front.
pub(crate) fn only(test: &str) -> (Vec<String>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let open = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open()).unwrap();
    // An ordinary user may not be allowed to enter the folder of the build.
    let copy = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        // By another program: one that this one writes could not be started for a moment.
        let copied = Command::new("cp").arg(from).arg(&to).status();
        assert!(copied.unwrap().success());
        std::fs::set_permissions(&to, open()).unwrap();
        to.display().to_string()
    };
    let init = copy(&settings(dir.path(), Policy::Auto).init, "init");
    let exe = copy(&std::env::current_exe().unwrap(), "tests");
    let words = [
        "env",
        &format!("{INIT}={init}"),
        &exe,
        "--exact",
        test,
        "--nocapture",
    ];
    (words.map(str::to_owned).to_vec(), dir)
}

pub(crate) fn as_plain_user() -> Vec<String> {
    let ids = [
        "setpriv",
        "--reuid",
        PLAIN,
        "--regid",
        PLAIN,
        "--clear-groups",
    ];
    ids.map(str::to_owned).to_vec()
}

#[track_caller]
pub(crate) fn passes(words: &[String]) {
    let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?}:\n{out}\n{err}");
    assert!(out.contains("1 passed"), "{words:?}:\n{out}");
}

/// Runs a scenario at every level that this user has, and again as an ordinary user.
pub(crate) fn at_every_level(test: &str, scenario: fn(&Place)) {
    scenario(&Place::new(Policy::Bubblewrap));
    if is_superuser() {
        let (_, test) = test.split_once("::").unwrap();
        let (words, _dir) = only(test);
        passes(&[as_plain_user(), words].concat());
    } else {
        scenario(&Place::new(Policy::Landlock));
    }
}

/// Makes a test of each scenario.
macro_rules! everywhere {
    ($($test:ident => $scenario:expr;)*) => { $(
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            crate::support::at_every_level(name, $scenario);
        }
    )* };
}
pub(crate) use everywhere;
