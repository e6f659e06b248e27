//! A plain HTTP client: these tests talk to this machine alone.

pub(crate) use skillopt_tests::support::way_out::Plain;
