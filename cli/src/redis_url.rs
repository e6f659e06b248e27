//! Where Redis is, with the password put in from a file: so that neither a list of processes nor a
//! file that others read shows it.

use skillopt_runtime::files;

use crate::args::RedisArgs;
use crate::failure::Failure;

/// Largest password file, in bytes.
const PASSWORD_MAX: u64 = 64 << 10;

/// Returns the address with its password.
///
/// # Errors
/// No address was given, or the password cannot be read.
pub(crate) fn redis_url(args: &RedisArgs) -> Result<String, Failure> {
    let url = args.redis.as_deref().unwrap_or_default().trim();
    if url.is_empty() {
        return Err(Failure::usage("no Redis was named").hint(
            "name one with `--redis redis://127.0.0.1:6379` or in SKILLOPT_REDIS_URL; `skillopt up` \
             starts one on this machine",
        ));
    }
    let Some(path) = &args.redis_password_file else {
        return Ok(url.to_owned());
    };
    let bytes = files::read_limited(path, PASSWORD_MAX)?;
    let password = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("`{}` holds no password", path.display())))?;
    with_password(url, password.trim_end_matches(['\r', '\n']))
}

/// Puts a password into an address that has none.
fn with_password(url: &str, password: &str) -> Result<String, Failure> {
    // The address is not repeated: it may hold another password.
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| Failure::usage("the address of Redis has no scheme; write `redis://…`"))?;
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, known) = login.split_once(':').unwrap_or((login, ""));
    if !known.is_empty() {
        return Err(Failure::usage(
            "the address of Redis has a password, and --redis-password-file names another",
        )
        .hint("leave one of them out"));
    }
    let password = escaped(password);
    Ok(format!("{scheme}://{user}:{password}@{hosts}{path}"))
}

/// Writes everything but letters, digits and `-._~` with percent signs.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_put_in() {
        for (url, want) in [
            ("redis://h:1", "redis://:p%40%2F%20%C3%A4@h:1"),
            ("redis://h", "redis://:p%40%2F%20%C3%A4@h"),
            (
                "rediss://me@h:1/2?ca=x",
                "rediss://me:p%40%2F%20%C3%A4@h:1/2?ca=x",
            ),
            (
                "redis+cluster://a:1,b:2",
                "redis+cluster://:p%40%2F%20%C3%A4@a:1,b:2",
            ),
        ] {
            assert_eq!(with_password(url, "p@/ ä").unwrap(), want);
        }
        let failure = with_password("redis://:hunter2@h", "p").unwrap_err();
        assert!(!failure.errors[0].message.contains("hunter2"));
    }
}
