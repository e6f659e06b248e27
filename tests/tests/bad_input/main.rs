//! What people and models get wrong. What can be seen before the first call costs nothing: exit
//! code 2, a message that names the thing, no call, no run folder. What a model answers never
//! crashes a run.

mod answers;
mod configuration;
mod data;
mod out;
mod skill;

use skillopt_tests::support::fake::{Fake, completion};
use skillopt_tests::support::{Ended, World};

/// Trains in `world` and checks that it is refused before anything is spent or written.
#[track_caller]
fn refused(world: &World, args: &[&str], words: &[&str]) {
    ended_unpaid(world, "out", args)
        .code(2)
        .says(&["error: "])
        .says(words);
    assert!(!world.path("out").exists(), "no run folder is left behind");
}

/// Trains in `world` and checks that no call was made.
#[track_caller]
fn ended_unpaid(world: &World, out: &str, args: &[&str]) -> Ended {
    let server = Fake::start(|_| completion("unexpected"));
    let ended = world.ended(out, &server.url(), args);
    assert_eq!(server.calls(), 0, "nothing may be spent:\n{}", ended.stderr);
    ended
}
