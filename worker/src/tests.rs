//! A worker among others, on an embedded queue whose time the test moves.

mod leases;
mod leaves;
mod rig;
mod troubles;
