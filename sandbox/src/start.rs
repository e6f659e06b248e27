//! What a run is started with: the launcher's command line, and what init is told.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bubblewrap::{self, CONTROL, ETC, Mounts};
use crate::cgroup::Group;
use crate::level::Level;
use crate::room::Room;
use crate::task::{Place, Task};
use crate::tree;
use crate::wire::{Confinement, Forward, Rlimits, Rules, Spec};

/// Where processes are counted for the whole user, other runs included, the kernel's own limit is a
/// brake only: a fork bomb is found by looking, and is not to grow without end until then.
const BRAKE: u64 = 8;
/// More than looking allows for, so that it sees who goes too far.
const ABOVE: u64 = 8;

const DEVICES: [&str; 5] = [
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];
/// What else programs read of a system that they share.
const SHARED_SYSTEM: [&str; 11] = [
    "/bin",
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sbin",
    "/usr",
];

/// Returns the launcher's command line.
pub(crate) fn command(room: &Room, task: &Task, group: Option<&Group>, control: &Path) -> Command {
    let settings = &room.shared.settings;
    let init = |words: &[&str]| -> Vec<OsString> {
        let all = settings.init_args.iter().map(String::as_str);
        all.chain(words.iter().copied())
            .map(OsString::from)
            .collect()
    };
    let line: Vec<OsString> = match (room.shared.level, &room.shared.probe.bubblewrap) {
        (Level::Bubblewrap, Ok(bwrap)) => {
            let control = (control.to_path_buf(), CONTROL.to_owned());
            let relays = room.relays.iter().enumerate();
            let relays = relays.map(|(count, relay)| (relay.socket.clone(), relay_inside(count)));
            let (home, work) = (room.outside(Place::Home), room.outside(Place::Work));
            let mounts = Mounts {
                etc: &room.shared.etc(),
                init: &settings.init,
                tmp_bytes: room.limits.tmp_bytes,
                folders: Some((&home, &work)),
                read_only: &task.read_only,
                sockets: relays.chain([control]).collect(),
            };
            bubblewrap::command(bwrap, &mounts, &init(&["keep", CONTROL]))
        }
        _ => [
            vec![settings.init.clone().into_os_string()],
            init(&["keep"]),
            vec![control.into()],
        ]
        .concat(),
    };
    let mut command = Command::new(&settings.init);
    command
        .args(init(&["enter", &std::process::id().to_string()]))
        .args(group.into_iter().flat_map(Group::folders))
        .arg("--")
        .args(line)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn relay_inside(count: usize) -> String {
    format!("/run/sandbox/relay-{count}")
}

/// Returns what init is told.
pub(crate) fn spec(room: &Room, task: &Task) -> Spec {
    let (limits, paths) = (&room.limits, room.paths());
    let user = nix::unistd::getuid();
    let is_own = room.shared.level == Level::Bubblewrap;
    let forwards = room.ports.iter().enumerate().filter(|_| is_own);
    let forwards = forwards.map(|(count, port)| Forward {
        port: *port,
        socket: relay_inside(count).into(),
    });
    Spec {
        program: task.program.clone(),
        args: task.args.clone(),
        env: task.env.clone(),
        folder: paths.work.clone(),
        forwards: forwards.collect(),
        rlimits: Rlimits {
            file_bytes: limits.disk_bytes,
            // Per process, and in whole seconds: the exact limit is kept from outside.
            cpu_s: limits.cpu.map(|limit| limit.as_secs() + 1),
            processes: match (user.is_root(), is_own) {
                // The kernel does not count the superuser's.
                (true, _) => None,
                (false, true) => Some(limits.processes + ABOVE),
                (false, false) => Some(tree::threads_of(user.as_raw()) + BRAKE * limits.processes),
            },
        },
        confinement: match room.shared.level {
            Level::Bubblewrap => Confinement::Namespaces,
            Level::None => Confinement::Nothing,
            Level::Landlock => {
                let paths_of =
                    |list: &[&str]| -> Vec<PathBuf> { list.iter().map(PathBuf::from).collect() };
                Confinement::Rules(Rules {
                    read: [
                        paths_of(&SHARED_SYSTEM),
                        paths_of(&ETC),
                        task.read_only.clone(),
                    ]
                    .concat(),
                    devices: paths_of(&DEVICES),
                    write: vec![paths.home, paths.work, paths.tmp],
                    ports: room.ports.clone(),
                })
            }
        },
    }
}
