//! skillopt command line.
fn main() {}
