//! Compiles the `.proto` files; no `protoc` is needed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

const FILES: &[&str] = &[
    "skillopt/v1/content.proto",
    "skillopt/v1/runs.proto",
    "skillopt/v1/sweeps.proto",
    "skillopt/v1/cluster.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=skillopt");
    let files = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("skillopt.v1.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
