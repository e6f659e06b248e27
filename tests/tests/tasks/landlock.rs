//! Where a program cannot have namespaces, as in an ordinary pod: a real CLI that an ordinary user runs
//! under Landlock.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillopt_agents::cli;
use skillopt_agents::installed::Installed;
use skillopt_tests::support::clis;
use skillopt_tests::support::folder::{files, holding};
use skillopt_tests::support::program::{self, clean, run};
use skillopt_tests::support::wait::until;
use tempfile::TempDir;

use crate::deaths::alive;
use crate::hostile::{TRIES, is_untouched};
use crate::real::by_item;
use crate::scene::{KEY, Scene};
use crate::scripts::{Question, knows_once, questions};

/// An ordinary user without a name or a home.
const PLAIN: u32 = 12_345;
const SECRET: &str = "a secret of this machine";
/// All that a program under Landlock gets of what it tries: what every user of the machine may read, and
/// that other programs are there (`docs/sandbox.md`).
const SHARED: [&str; 2] = ["passwd", "worker"];
/// The first version of Landlock that is enough by itself, for it keeps signals inside.
const ENOUGH: i64 = 6;
/// The first that knows of networks: it is enough where control groups can be made.
const LEAST: i64 = 4;

/// Programs of these tests where every user may start them: they may lie where only their owner goes.
struct Open {
    program: PathBuf,
    codex: PathBuf,
    _dir: TempDir,
}

impl Open {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        let codex = cli::find("codex_exec").unwrap();
        let installed = Installed::find(codex, None, &clis::path()).unwrap();
        let package = &installed.read_only[0];
        let (_, inside) = package
            .to_str()
            .unwrap()
            .rsplit_once("/node_modules/")
            .unwrap();
        let open = dir.path().join("node_modules").join(inside);
        std::fs::create_dir_all(open.parent().unwrap()).unwrap();
        lay(package, &open);
        let program = dir.path().join("skillopt");
        lay(program::path(), &program);
        Self {
            program,
            codex: open.join(installed.program.strip_prefix(package).unwrap()),
            _dir: dir,
        }
    }

    /// Makes the same call as an ordinary user, whoever runs the tests.
    fn as_plain_user(&self, call: &Command) -> Command {
        let mut plain = clean(&self.program, call.get_args());
        plain.current_dir(call.get_current_dir().unwrap());
        let set = call
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        plain.envs(set);
        if is_superuser() {
            plain.uid(PLAIN).gid(PLAIN);
        }
        plain
    }
}

/// Lays a file or a folder down in another place, a second name of it if that can be had. By another
/// program: what this one writes could not be started for a moment.
fn lay(from: &Path, to: &Path) {
    let is_laid = ["-rlT", "-rT"].iter().any(|how| {
        let copied = Command::new("cp").arg(how).args([from, to]).output();
        copied.unwrap().status.success()
    });
    assert!(is_laid, "{} cannot be copied", from.display());
}

fn is_superuser() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Asks the kernel itself which version of Landlock it has; below 1 it has none.
fn version() -> i64 {
    let ask = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    let said = run(&mut clean("python3", ["-c", ask])).code(0);
    said.stdout.trim().parse().unwrap()
}

/// Puts a scene on the table that belongs to the ordinary user, and whose CLI is to be shut in by
/// Landlock.
fn scene(open: &Open) -> Scene {
    let mut scene = Scene::real("codex_exec");
    scene.set("SKILLOPT_SANDBOX", "landlock");
    let config = scene.world.text("config.yaml");
    let codex = format!("model:\n  codex_exec_path: {}\n", open.codex.display());
    scene
        .world
        .write("config.yaml", config.replacen("model:\n", &codex, 1));
    scene.world.write("secret.txt", SECRET);
    scene
}

/// Hands the scene to the ordinary user. Landlock does not hold the superuser, and nothing weaker is taken
/// in its place.
fn hand_over(scene: &Scene) {
    if !is_superuser() {
        return;
    }
    let ended = run(&mut scene.eval("out", &TWO));
    ended.code(2).says(&["landlock: ", "ordinary user"]);
    assert!(!scene.world.path("out").exists());
    let owner = format!("{PLAIN}:{PLAIN}");
    let handed = Command::new("chown")
        .args(["-R", &owner])
        .arg(scene.world.path(""))
        .status();
    assert!(handed.unwrap().success());
}

const TWO: [&str; 2] = ["--test_env_num", "2"];

#[test]
fn codex_works_under_landlock_for_an_ordinary_user_and_gets_at_nothing_else() {
    let open = Open::new();
    let name = format!("under-landlock-{}", std::process::id());
    let scene = scene(&open);
    let asked: [Question; 2] = questions(&scene);
    let world = scene.world.path("");
    let vars = format!(
        "WORLD={} PORT={} NAME={name}\n",
        world.display(),
        scene.port
    );
    // It tries everything before it does its task.
    let command = format!("bash <<'END'\n{vars}{TRIES}\necho \"won:$won.\"\nEND\ncat task.md");
    scene.script(knows_once(&command, &asked, 0));
    hand_over(&scene);
    let before = files(&world);
    let ended = run(&mut open.as_plain_user(&scene.eval("out", &TWO)));
    let version = version();
    if version < ENOUGH && (version < LEAST || ended.status.code() != Some(0)) {
        // A kernel that cannot shut it in: nothing was run, and it is said why.
        ended.code(2).says(&["landlock: ", "no sandbox can be had"]);
        is_untouched(&before, &files(&world));
        assert!(!scene.world.path("out").exists());
        return;
    }
    ended.code(0);
    until("nothing of it is alive", || alive(&name) == 0);
    is_untouched(&before, &files(&world));

    let rows = by_item(&scene.world.path("out"));
    for (question, hard) in asked.iter().zip([1, 0]) {
        let row = &rows[&question.id];
        assert_eq!(row["hard"], hard, "{row}");
        let folder = format!("out/rollout/predictions/{}", question.id);
        let said = scene.world.text(&format!("{folder}/conversation.json"));
        let (_, won) = said.rsplit_once("won:").expect("what it tried is told");
        let won: Vec<&str> = won.split('.').next().unwrap().split_whitespace().collect();
        let more: Vec<&&str> = won.iter().filter(|word| !SHARED.contains(*word)).collect();
        assert!(more.is_empty(), "it got at {more:?}: {said}");
    }
    for secret in [KEY, SECRET] {
        let kept = holding(&scene.world.path("out"), secret);
        assert!(kept.is_empty(), "`{secret}` stands in {kept:?}");
    }
}
