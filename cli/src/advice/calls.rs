//! What helps against failed calls, by what the provider, the network and the settings of the backend
//! say.

use skillopt_backends::declare::{BackendKey, Declaration};
use skillopt_core::kind::Kind;

/// Parts of what is said of a failed connection, in small letters, and what they mean.
const NETWORK: &[(&[&str], &str)] = &[
    (
        &[
            "not valid yet",
            "notvalidyet",
            "certexpired",
            "certificate expired",
            "expired: verification time",
        ],
        "the server's certificate is not valid at this machine's time: set the clock, then ask the \
         provider",
    ),
    (
        &[
            "unknownissuer",
            "invalid peer certificate",
            "certificate",
            "handshake",
            "corrupt message",
        ],
        "TLS failed: if a proxy or a server of your own signs its certificates, name its CA with \
         SSL_CERT_FILE; if the server speaks plain HTTP, write http://",
    ),
    (
        &[
            "lookup address",
            "dns",
            "name or service not known",
            "nodename nor servname",
        ],
        "there is no such host for this machine: check the spelling of the address, then DNS and \
         whether a proxy is needed (HTTPS_PROXY)",
    ),
    (
        &["proxy", "tunnel"],
        "the proxy did not let it through: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
    ),
    (
        &["connection refused"],
        "nothing listens there: check the port, and start the server",
    ),
    (
        &["deadline has elapsed", "timed out", "unreachable"],
        "no way to the server: check the network, a firewall, and whether a proxy is needed \
         (HTTPS_PROXY)",
    ),
];

/// Parts of what providers say of a refused request, in small letters, and what they mean.
const SETTINGS: &[(&[&str], &str)] = &[
    (
        &["deploymentnotfound", "deployment"],
        "there is no such deployment: the model's name has to be that of a deployment of this resource",
    ),
    (
        &["api version", "api-version"],
        "the resource does not know this version of the interface: check the key for the API version",
    ),
    (
        &["region", "location is not supported"],
        "the provider does not serve this model in this region: use an address of another region",
    ),
    (
        &["thinking", "reasoning"],
        "the model refuses the thinking mode or the reasoning effort: set `model.reasoning_effort` \
         and the backend's key for thinking to what it knows",
    ),
    (
        &["temperature"],
        "the model refuses the temperature: leave the backend's key for it unset",
    ),
    (
        &["model"],
        "the provider does not know the model: check its spelling, and whether the key may use it",
    ),
];

/// Returns what helps against a failed call that is told so, by the backend that made it, if it is
/// known; nothing if no call failed.
pub(super) fn advice(told: &str, backend: Option<&Declaration>) -> Option<String> {
    of(told, &detail(told), backend)
}

/// The same where what the provider said, in small letters, is known apart from the rest.
pub(super) fn of(told: &str, detail: &str, backend: Option<&Declaration>) -> Option<String> {
    let fits = |table: &[(&[&str], &'static str)]| {
        let mut rows = table.iter();
        let found = rows.find(|(parts, _)| parts.iter().any(|part| detail.contains(part)));
        found.map(|(_, words)| (*words).to_owned())
    };
    let has = |part: &str| told.contains(part);
    if has("rejected the credentials (HTTP 429)") {
        // As it is told of an account without money: the key itself is good.
        return Some(
            "the account's quota or credit is used up: raise it with the provider, or use another \
             account"
                .to_owned(),
        );
    }
    if has("rejected the credentials") {
        return Some(if has("the sign-in failed") {
            sign_in(backend)
        } else {
            backend.map_or_else(unknown_key, credentials)
        });
    }
    if has("no connection to") {
        let why = fits(NETWORK);
        let words =
            why.unwrap_or_else(|| "check the address and whether the server is up".to_owned());
        return Some(match backend.and_then(address) {
            Some(key) => format!("{words} (`model.{key}`)"),
            None => words,
        });
    }
    if has("does not offer this") || has("refused the request") {
        let words = "check the address and the model's name";
        return Some(fits(SETTINGS).unwrap_or_else(|| words.to_owned()));
    }
    let mut rows = OTHERS.iter();
    let found = rows.find(|(part, _)| has(part));
    found.map(|(_, words)| (*words).to_owned())
}

/// Parts of messages that mean the same whoever was asked.
const OTHERS: &[(&str, &str)] = &[
    (
        "did not answer within",
        "raise `env.exec_timeout` (for the optimizer `model.optimizer_timeout`), or check whether \
         the server is overloaded",
    ),
    (
        " stalled: ",
        "the server took the call and fell silent: check whether it is overloaded; a slow one needs \
         more of SKILLOPT_FIRST_BYTE_SECONDS and SKILLOPT_BETWEEN_CHUNKS_SECONDS",
    ),
    (
        "did not answer as asked",
        "the model does not keep to the schema or calls no tool: use the answer mode `free` \
         (`model.target_answer_mode`, `model.optimizer_answer_mode`), or another model",
    ),
    (
        "asked us to slow down",
        "wait, or use fewer slots (`--slots`)",
    ),
    ("answered HTTP 5", "wait until the provider is well again"),
    (
        "is not a chat completion",
        "check the address: it must speak the interface of its backend",
    ),
];

/// Returns what was said, in small letters, without the address: it may hold any word of the tables.
fn detail(told: &str) -> String {
    let after = MARKS.iter().filter_map(|mark| {
        let at = told.find(mark)? + mark.len();
        let rest = &told[at..];
        let rest = rest.strip_prefix('`').and_then(|rest| rest.split_once('`'));
        Some(rest.map_or(&told[at..], |(_, rest)| rest))
    });
    let detail = after.max_by_key(|rest| rest.len());
    detail.unwrap_or_default().to_lowercase()
}

/// What stands between an address and what was said of it, or before both.
const MARKS: &[&str] = &[
    "no connection to ",
    "` does not offer this ",
    "` refused the request ",
];

/// Says where the keys of a backend are set, and what else makes a good key a bad one.
fn credentials(backend: &Declaration) -> String {
    let keys = secrets(backend);
    let mut words = if keys.is_empty() {
        "sign in to the program that makes the calls".to_owned()
    } else {
        format!("set a key that is valid: {}", keys.join(" or "))
    };
    if let Some(address) = address(backend) {
        words.push_str(&format!(
            "; a good key is refused by the address of another region or account (`model.{address}`)"
        ));
    }
    words
}

fn unknown_key() -> String {
    "set the key that this address wants, where the calls are made; `skillopt doctor CONFIG` names it"
        .to_owned()
}

/// Says what is wrong where a token is had, not where the model is.
fn sign_in(backend: Option<&Declaration>) -> String {
    let mode = backend.map_or(&[][..], |backend| backend.keys);
    let mode = mode.iter().find(|key| key.base.ends_with("_auth_mode"));
    let words = "sign in again (`az login`), or check the tenant, the client and its secret";
    match mode {
        Some(BackendKey { base, .. }) => format!("{words}; `model.{base}` says how it is done"),
        None => words.to_owned(),
    }
}

fn secrets(backend: &Declaration) -> Vec<String> {
    let keys = backend.keys.iter().filter(|key| key.kind == Kind::Secret);
    keys.map(|key| key.base.to_uppercase()).collect()
}

/// Returns the key that holds a backend's address.
fn address(backend: &Declaration) -> Option<&'static str> {
    let mut keys = backend.keys.iter().map(|key| key.base);
    keys.find(|key| key.ends_with("_base_url") || key.ends_with("_endpoint"))
}
