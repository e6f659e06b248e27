//! What went wrong with a call, and whether another try helps.

use ::redis::{ErrorKind, RedisError};

use super::address::{Address, Kind};
use crate::store::Error;

/// What to do about a failed try.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server is away, or not ready: connect again, try again.
    Away(String),
    /// The server does not know the script yet.
    NoScript,
    /// Another try will not help.
    Final(Error),
}

/// Judges the error of one try.
pub(super) fn judge(address: &Address, error: &RedisError) -> Fault {
    let place = address.to_string();
    let code = error.code().unwrap_or_default();
    let detail = scrub(address, error.detail().unwrap_or_default());
    let full = |why: &str| {
        Fault::Final(Error::Full {
            place: format!("{place} ({why})"),
        })
    };
    let refused = |fix: &str| {
        Fault::Final(Error::Io {
            place: place.clone(),
            detail: format!("{code} {detail}; {fix}"),
        })
    };
    match code {
        "NOSCRIPT" => Fault::NoScript,
        "OOM" => full(
            "its `maxmemory` is used up: raise it, or name a place for large values with `--objects`",
        ),
        "MISCONF" => full("it cannot write its files: look at its log and its disk"),
        "LOADING" | "BUSY" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "READONLY" | "MOVED"
        | "ASK" | "UNBLOCKED" | "NOREPLICAS" => Fault::Away(format!("{code} {detail}")),
        "NOAUTH" | "WRONGPASS" => Fault::Final(password(address)),
        "NOPERM" => refused("docs/redis.md names the rights that a user needs"),
        "" => match error.kind() {
            // The library keeps neither the code nor the words of this one.
            ErrorKind::AuthenticationFailed => Fault::Final(password(address)),
            ErrorKind::InvalidClientConfig | ErrorKind::UnexpectedReturnType => {
                Fault::Final(Error::Io {
                    place,
                    detail: scrub(address, &error.to_string()),
                })
            }
            _ => Fault::Away(scrub(address, &error.to_string())),
        },
        _ => refused("see the server's log"),
    }
}

/// The login is wrong, or missing.
fn password(address: &Address) -> Error {
    // Which of them it was is not told apart by the library.
    let (who, more) = match address.kind {
        Kind::Sentinel(_) => (
            "it or a Sentinel",
            "; that of the Sentinels is `?sentinel_user=USER&sentinel_password=PASSWORD` behind the \
             address",
        ),
        _ => ("it", ""),
    };
    Error::Io {
        place: address.to_string(),
        detail: format!(
            "{who} refused the password; give the right user and password in the address \
             (SKILLOPT_REDIS_URL), or the password with --redis-password-file{more}"
        ),
    }
}

/// Takes the passwords out of a text, should a server or library ever repeat one.
pub(super) fn scrub(address: &Address, text: &str) -> String {
    let mut text = text.to_owned();
    for secret in address.secrets() {
        text = text.replace(secret, "…");
    }
    text
}
