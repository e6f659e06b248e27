//! Real processes for tests: the program, the simulated model behind HTTP, a server that answers
//! anything, folders and how they differ.
//!
//! Everything listens on loopback, on ports that the system chooses, and works in a folder of its
//! own, so tests run beside each other. Nothing sleeps for a fixed time: [`wait::until`] looks
//! again until a deadline. A helper that cannot do its part panics and says why.

pub mod clis;
pub mod cluster;
pub mod draw;
pub mod fake;
pub mod folder;
pub mod http;
pub mod program;
pub mod proxy;
pub mod redis;
pub mod sim;
pub mod store;
pub mod submitted;
pub mod wait;
pub mod way_out;
pub mod world;

pub use cluster::{Cluster, Node, Shape};
pub use draw::Draw;
pub use program::{Ended, Process};
pub use proxy::Proxy;
pub use redis::Redis;
pub use sim::Sim;
pub use world::World;
