//! A cluster of real processes on a real Redis, and everything that can happen to it.
//!
//! Whatever is killed, frozen, cut off or restarted: the run folder is byte for byte that of a run
//! that nobody disturbed, no call whose answer was kept is made again, nothing is stuck, and nothing
//! is left behind. Where a fault comes in the midst of a run, that is checked, too.
//! `docs/guarantees.md` says what is promised; this is how it is shown.
//!
//! Kills come at random times from a printed seed. `SKILLOPT_KILLS` is the number of coordinators
//! that are killed (20).

mod budget;
mod coordinators;
mod hedges;
mod jobs;
mod long;
mod network;
mod nodes;
mod objects;
mod poison;
mod redis;
mod scene;
mod upgrade;
mod workers;
