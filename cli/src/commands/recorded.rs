//! How a command begins and ends whose answers are recorded, or taken from a recording.

use skillopt_config::RunConfig;

use crate::args::TapeArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::models::{self, Tape};
use crate::output::Out;

/// Opens the recording that was named, if one was.
///
/// # Errors
/// It cannot be read or written, or would hold half of what the run asks for: an agent's tasks are
/// more than answers, and are not kept in it.
pub(super) fn open(args: &TapeArgs, config: &RunConfig) -> Result<Tape, Failure> {
    let (record, replay_from) = (args.record.as_deref(), args.replay_from.as_deref());
    let flag = match (record, replay_from) {
        (Some(_), _) => Some("--record"),
        (None, Some(_)) => Some("--replay-from"),
        (None, None) => None,
    };
    if let Some(flag) = flag
        && models::has_agent(config)
    {
        return Err(Failure::usage(format!(
            "`{flag}` is about the answers of chat models, but the target `{}` is an agent: what it \
             does in its folder is not kept there, so that no run could be made from the file",
            config.target_backend
        ))
        .hint(
            "leave it out; `--store FILE` keeps what agents did, and another run of the same \
             configuration takes it from there",
        ));
    }
    Tape::open(record, replay_from)
}

/// Ends a command: without all answers in its recording it did not do what it was told, though the run
/// itself may be done.
///
/// # Errors
/// Those of `ended`, or the recording is not whole.
pub(super) fn close(tape: &Tape, ended: Result<Exit, Failure>, out: &Out) -> Result<Exit, Failure> {
    let Some(words) = tape.missing() else {
        return ended;
    };
    match ended {
        Ok(_) => Err(Failure::new(Exit::Unexpected, words).hint(
            "the run is done and its folder is whole; to record it, make room and run it again with \
             another `--out` and store",
        )),
        Err(failure) => {
            out.note(words);
            Err(failure)
        }
    }
}
