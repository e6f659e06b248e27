//! Vendors' programs as text models: one process for each exchange, without tools, in an empty
//! folder with a home of its own, so that nothing of the machine's user leaks into an answer and
//! nothing in a prompt can reach the machine.

mod desk;
mod envelope;
pub(crate) mod environment;
mod fault;
mod plain;
mod prompt;
mod run;

pub(crate) use desk::Desk;
pub(crate) use envelope::{Envelope, enforce};
pub(crate) use fault::Fault;
pub(crate) use plain::Plain;
pub(crate) use prompt::{Prompt, images, system};
pub(crate) use run::{Output, Run};
