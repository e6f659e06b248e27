//! What a coordinator's refusal, or its silence, means to a person.

use std::error::Error as _;

use tonic::{Code, Status};

use super::address::root;
use crate::exit::Exit;
use crate::failure::Failure;

/// What the TLS library says when it hears an answer in plain text.
const NO_TLS: &str = "InvalidContentType";

/// Returns whether the connection failed, and not what was asked: another try may succeed.
pub(super) fn is_link(status: &Status) -> bool {
    // A status that a server sent has no source; one that the client made of a broken connection
    // has.
    status.code() == Code::Unavailable || status.source().is_some()
}

/// Returns what broke the connection, in a few words.
pub(super) fn cause(status: &Status) -> String {
    match status.source() {
        Some(error) => root(error),
        None => status.message().to_owned(),
    }
}

/// No coordinator answers.
pub(super) fn unreachable(places: &str, cause: &str) -> Failure {
    let (said, hint) = if cause.contains(NO_TLS) {
        (
            format!("the coordinator at {places} does not speak TLS"),
            "write `http://` instead of `https://` in --coordinator or SKILLOPT_COORDINATOR, or have \
             it serve TLS with --tls-cert",
        )
    } else {
        (
            format!("the coordinator at {places} does not answer: {cause}"),
            "check the address (--coordinator or SKILLOPT_COORDINATOR) and whether it runs; \
             `skillopt up` starts a cluster on this machine",
        )
    };
    Failure::new(Exit::Unreachable, said).hint(hint)
}

/// Turns a refusal into a failure.
pub(super) fn failure(status: &Status) -> Failure {
    let said = status.message().trim();
    let said = if said.is_empty() {
        format!("the coordinator refused: {}", status.code())
    } else {
        said.to_owned()
    };
    match status.code() {
        Code::Unauthenticated => Failure::usage(said).hint(
            "show a token: in SKILLOPT_TOKEN or with --token-file; an admin makes one with \
             `skillopt token create`",
        ),
        Code::PermissionDenied => Failure::usage(said)
            .hint("an admin makes tokens with other roles: `skillopt token create --role …`"),
        Code::NotFound => match list_of(&said) {
            Some(hint) => Failure::usage(said).hint(hint),
            None => Failure::usage(said),
        },
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::AlreadyExists
        | Code::OutOfRange
        | Code::ResourceExhausted => Failure::usage(said),
        Code::Unimplemented => Failure::usage("the coordinator does not know this request")
            .hint("it is of another release; use the same one on both sides"),
        Code::Cancelled => Failure::new(Exit::Interrupted, said),
        _ => Failure::new(Exit::Unexpected, said),
    }
}

/// Returns where a person finds what there is of that which was not found.
fn list_of(said: &str) -> Option<&'static str> {
    let is_of = |what: &str| said.contains(&format!("no {what} "));
    if said.contains("skillopt runs") {
        None
    } else if is_of("worker") {
        Some("`skillopt workers` lists what there is")
    } else if is_of("token") {
        Some("the id of a token was shown when `skillopt token create` made it")
    } else {
        Some("`skillopt runs` lists what there is")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_found_is_looked_for_where_its_like_are() {
        for (said, want) in [
            ("there is no worker `w`", "skillopt workers"),
            ("there is no token `t`", "skillopt token create"),
            ("there is no run `r`", "skillopt runs"),
        ] {
            let hint = failure(&Status::not_found(said)).hint.unwrap();
            assert!(hint.contains(want), "{hint}");
        }
        let told = failure(&Status::not_found(
            "no sweep `s`; `skillopt runs` lists all",
        ));
        assert_eq!(told.hint, None);
    }

    #[test]
    fn refusals_have_exit_codes() {
        for (code, want) in [
            (Code::Unauthenticated, Exit::Usage),
            (Code::PermissionDenied, Exit::Usage),
            (Code::NotFound, Exit::Usage),
            (Code::InvalidArgument, Exit::Usage),
            (Code::Internal, Exit::Unexpected),
        ] {
            let failure = failure(&Status::new(code, "the words"));
            assert_eq!(failure.exit, want);
            assert_eq!(failure.errors[0].message, "the words");
        }
        assert_eq!(unreachable("http://x", "refused").exit, Exit::Unreachable);
    }

    #[test]
    fn a_broken_connection_is_told_from_a_refusal() {
        assert!(is_link(&Status::unavailable("going away")));
        assert!(!is_link(&Status::unknown("sent by a server")));
        let broken = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert!(is_link(&broken));
        assert_eq!(cause(&broken), "reset");
    }
}
