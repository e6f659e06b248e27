//! Helpers of the tests: the golden-vector runner, and the processes that tests start.

pub mod parity;
pub mod support;
