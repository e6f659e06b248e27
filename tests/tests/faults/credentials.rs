//! A worker that lacks the credential of a server beside one that has it.

use skillopt_tests::support::cluster::{Cluster, Node};
use skillopt_tests::support::program::{Process, run};

use crate::budget::resumable;
use crate::scene::{OUT, Scene, shape};

/// A server that is not this machine, as far as workers know: they reach it through a proxy.
const SERVER: &str = "http://models.example/v1";

/// Submits a training whose models lie there, and waits for its end.
fn train(scene: &Scene, cluster: &Cluster) -> Process {
    let mut submission = scene.submission(cluster, OUT);
    let url = format!("model.openai_compatible_base_url={SERVER}");
    Process::start(submission.args(["--set", &url]))
}

fn jobs_done(node: &Node) -> u64 {
    node.ended(&["done"])
}

#[test]
fn a_worker_without_a_credential_leaves_jobs_to_one_that_has_it() {
    // Each stage waits half a second or so for jobs that came to the other one first.
    let scene = Scene::with("uniform:5,20", &["--set", "train.num_epochs=1"]);
    let mut cluster = Cluster::start_with(shape(1, 0));
    let proxy = scene.sim.url();
    let proxy = proxy.trim_end_matches("/v1");
    let able = [
        ("OPENAI_COMPATIBLE_BASE_URL", SERVER),
        ("OPENAI_COMPATIBLE_API_KEY", "sk-of-the-server"),
        ("http_proxy", proxy),
        ("no_proxy", ""),
    ];
    cluster.add_worker();
    // Alone, it says what it lacks, and the run waits for a person.
    let ended = train(&scene, &cluster).wait().code(4);
    let name = cluster.workers[0].name().to_owned();
    let ended = ended.says(&[
        &format!("worker `{name}`"),
        "no credential",
        SERVER,
        "resume",
    ]);
    assert_eq!(scene.sim.stats().ok(), 0, "{}", ended.stderr);

    // Beside one that has it, nothing pauses, and it is as well as it was.
    cluster.add_worker_with(&able);
    run(&mut cluster.command(&["resume", &resumable(&ended.stderr)])).code(0);
    train(&scene, &cluster).wait().code(0);
    let [lacks, has] = [0, 1].map(|at| jobs_done(&cluster.workers[at]));
    assert_eq!(lacks, 0);
    // A worker may still be about to count what it told last.
    assert!(has > scene.results / 2, "{has} of {}", scene.results);
    let listed = run(&mut cluster.command(&["workers"])).code(0).stdout;
    assert!(!listed.contains("sick"), "{listed}");
}
