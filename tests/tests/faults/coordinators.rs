//! Coordinators that die, and two that cannot both be right.

use std::time::Duration;

use skillopt_tests::support::cluster::{Cluster, Node, Shape};
use skillopt_tests::support::program::run;
use skillopt_tests::support::proxy::Proxy;
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Draw, Process};

use crate::scene::{OUT, SLOTS, Scene, after, deadly_shape, number, shape};

/// Returns who has the only run, as a coordinator says.
#[track_caller]
fn holder(cluster: &Cluster, asked: &Node) -> String {
    let words = ["runs", "--json", "--coordinator", &asked.url()];
    let said = run(&mut cluster.command(&words)).code(0).stdout;
    let row: serde_json::Value = serde_json::from_str(said.trim()).expect("one run");
    let name = row["coordinator"].as_str().unwrap_or_default();
    // What follows is another one after each start.
    name.split('.').next().unwrap_or_default().to_owned()
}

fn kills() -> u64 {
    let text = std::env::var("SKILLOPT_KILLS").unwrap_or_else(|_| "20".to_owned());
    text.parse().expect("SKILLOPT_KILLS is a whole number")
}

/// Coordinators that may die one after the other before one of them has brought the run further: one
/// more, and the run would be set aside as one that coordinators die of.
const HASTY_MAX: u32 = 2;
/// Within this time a coordinator writes down that it got further.
const NOTED: Duration = Duration::from_millis(2_500);
/// Longest random time before a kill, in milliseconds.
const TIME_MAX: u64 = 1_500;

/// Kills coordinators at random times, and starts another one in the place of each.
struct Reaper {
    draw: Draw,
    /// Kills since a coordinator has brought the run further.
    hasty: u32,
    kills: u64,
    /// Those that had the run.
    holders: u64,
}

impl Reaper {
    fn new() -> Self {
        Self {
            draw: Draw::new(),
            hasty: 0,
            kills: 0,
            holders: 0,
        }
    }

    /// Chooses the next one to die, when its time has come: mostly the one that has the run, sometimes
    /// any, also while none has it. Nothing if the run is over.
    #[track_caller]
    fn next(&mut self, cluster: &Cluster, run: &mut Process) -> Option<usize> {
        let may_be_any = 2 * self.holders > self.kills && self.hasty < HASTY_MAX;
        if may_be_any && self.draw.below(3) == 0 {
            self.hasty += 1;
            after(Duration::from_millis(self.draw.below(TIME_MAX)));
            let any = self.draw.below(cluster.coordinators.len() as u64);
            let is_over = Scene::is_over(run);
            return (!is_over).then(|| usize::try_from(any).expect("small"));
        }
        self.next_holder(cluster, run)
    }

    /// Chooses the one that has the run, when its time has come. Nothing if the run is over.
    #[track_caller]
    fn next_holder(&mut self, cluster: &Cluster, run: &mut Process) -> Option<usize> {
        let mut found = None;
        until("a living coordinator has the run", || {
            found = Self::holding(cluster);
            found.is_some() || Scene::is_over(run)
        });
        if self.hasty < HASTY_MAX {
            self.hasty += 1;
            after(Duration::from_millis(self.draw.below(TIME_MAX)));
        } else {
            self.hasty = 0;
            let steps = |run: &Process| run.stderr().matches("step ").count();
            let before = steps(run);
            until("it brings the run further", || {
                steps(run) > before || Scene::is_over(run)
            });
            after(NOTED);
        }
        found.filter(|_| !Scene::is_over(run))
    }

    /// Returns which of the living has the run.
    #[track_caller]
    fn holding(cluster: &Cluster) -> Option<usize> {
        let name = holder(cluster, &cluster.coordinators[0]);
        let mut living = cluster.coordinators.iter();
        living.position(|node| node.name() == name)
    }

    /// Kills one, and starts another one in its place.
    #[track_caller]
    fn reap(&mut self, cluster: &mut Cluster, at: usize) {
        self.kills += 1;
        self.holders += u64::from(Self::holding(cluster) == Some(at));
        let node = cluster.coordinators.remove(at);
        let (port, url) = (node.port(), cluster.redis.url());
        node.kill();
        cluster.add_coordinator_at(&url, port);
    }
}

#[test]
fn coordinators_that_are_killed_again_and_again_lose_nothing() {
    let (mut reaper, kills, mut runs) = (Reaper::new(), kills(), 0);
    while reaper.kills < kills {
        let scene = Scene::new("uniform:50,250");
        let mut cluster = Cluster::start_with(shape(2, 2));
        let mut run = scene.submit(&cluster);
        runs += 1;
        while reaper.kills < kills
            && let Some(at) = reaper.next(&cluster, &mut run)
        {
            reaper.reap(&mut cluster, at);
        }
        // Workers lived on, and so did their answers.
        assert_eq!(scene.ends_well(run, &cluster, 0), 0);
        reaper.hasty = 0;
    }
    let Reaper { kills, holders, .. } = reaper;
    println!("{kills} coordinators killed in {runs} runs, {holders} of them had the run");
    assert!(
        2 * holders >= kills,
        "only {holders} of {kills} that were killed had the run"
    );
}

#[test]
fn coordinators_and_workers_may_die_together() {
    let scene = Scene::new("uniform:50,250");
    let mut cluster = Cluster::start_with(deadly_shape(2, 2));
    let mut run = scene.submit(&cluster);
    let mut reaper = Reaper::new();
    while reaper.kills < 4
        && let Some(at) = reaper.next_holder(&cluster, &mut run)
    {
        cluster.workers.remove(0).kill();
        reaper.reap(&mut cluster, at);
        cluster.add_worker();
    }
    let kills = reaper.kills;
    let lost = scene.ends_well(run, &cluster, kills * SLOTS);
    println!("{kills} coordinators and workers killed, {lost} answers lost with them");
    assert!(kills >= 2, "the run was over before it was disturbed");
    assert!(
        reaper.holders >= 2,
        "only {} of {kills} had the run",
        reaper.holders
    );
}

#[test]
fn a_coordinator_that_is_cut_off_cannot_commit_beside_its_successor() {
    let scene = Scene::new("uniform:200,600");
    let mut cluster = Cluster::start_with(shape(0, 2));
    let proxy = Proxy::start(cluster.redis.port());
    let first = cluster.add_coordinator_behind(&proxy);
    let first = cluster.coordinators[first].name().to_owned();
    let mut run = scene.submit(&cluster);
    // The first one has the run. It is cut off, a second one takes over, and the first comes back in
    // the middle of that.
    let second = cluster.add_coordinator();
    let second = &cluster.coordinators[second];
    assert_eq!(holder(&cluster, second), first);
    proxy.stall();
    until("the second one has the run", || {
        holder(&cluster, second) == second.name()
    });
    scene.is_under_way(&mut run);
    proxy.heal();
    after(Duration::from_millis(500));
    proxy.cut();
    until("the first one is refused", || proxy.refused() > 0);
    after(Duration::from_secs(1));
    scene.is_under_way(&mut run);
    proxy.heal();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

/// The jobs of a dead coordinator's run wait on in the queue, and would be paid for.
#[test]
fn a_run_that_is_paused_when_its_coordinator_has_died_leaves_no_job_behind() {
    let scene = Scene::new("uniform:300,600");
    let mut cluster = Cluster::start_with(Shape {
        slots: "chat=1".to_owned(),
        ..shape(2, 1)
    });
    let waiting = scene.submit(&cluster);
    let is_waited = |cluster: &Cluster| number(cluster, "HLEN skillopt:{q}:q") > 0;
    until("jobs wait", || is_waited(&cluster));
    let id = scene.world.run_id(OUT);
    let at = Reaper::holding(&cluster).expect("a living coordinator has the run");
    Reaper::new().reap(&mut cluster, at);
    run(&mut cluster.command(&["pause", &id])).code(0);
    waiting.wait().code(4).says(&["was paused by hand"]);
    until("no job waits", || !is_waited(&cluster));
    run(&mut cluster.command(&["resume", &id])).code(0);
    let ended = run(&mut scene.submission(&cluster, OUT));
    scene.is_well(&ended, &cluster, 0);
}
