//! How a command ends whose answers were recorded.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::models::Tape;
use crate::output::Out;

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
