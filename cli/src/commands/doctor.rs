//! stub
use crate::{args::DoctorArgs, exit::Exit, failure::Failure, output::Out};
pub(crate) fn run(_: &DoctorArgs, _: &Out) -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
