//! stub
use crate::{args::ReplayArgs, exit::Exit, failure::Failure, output::Out};
pub(crate) fn run(_: &ReplayArgs, _: &Out) -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
