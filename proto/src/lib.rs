//! The gRPC services of the cluster, generated from `skillopt/v1/*.proto`.
//!
//! The `.proto` files are the documentation; this crate knows no other crate of ours and does
//! nothing. Conversions stand where the values are made: in the coordinator and in the clients.

/// Version 1 of the services.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("skillopt.v1");

    /// The compiled `.proto` files with their comments, for reflection and for the check that a
    /// change breaks no client.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/skillopt.v1.bin"));
}
