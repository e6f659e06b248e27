//! What a program sees of our environment: what is listed, and nothing else.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::declare::Options;

/// Looks a variable up.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How a program finds others, which language it speaks, how it gets out.
const GENERAL: &[&str] = &[
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// Returns what is set of the general variables and of those that one program wants.
pub(crate) fn allowed(env: Lookup<'_>, own: &[&str]) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = GENERAL
        .iter()
        .chain(own)
        .filter_map(|name| Some(((*name).to_owned(), env(name)?)))
        .collect();
    if !pairs.iter().any(|(name, _)| name == "LANG") {
        pairs.push(("LANG".to_owned(), "C.UTF-8".to_owned()));
    }
    pairs
}

/// Returns the variables that a setting names, in a list or in one text with commas.
pub(crate) fn named(options: Options<'_>, key: &str) -> Vec<String> {
    let names = match options.get(key) {
        Some(Value::Array(names)) => names,
        Some(Value::String(text)) => text.split(',').map(Value::from).collect(),
        _ => Vec::new(),
    };
    let names = names.iter().filter_map(Value::as_str).map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Checks that a setting names variables, and does not hold what they hold.
pub(crate) fn names_variables(options: Options<'_>, key: &str) -> Result<(), String> {
    let is_name = |name: &String| {
        let starts = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
        starts && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    // What is no name may be the key itself, which is not repeated.
    match named(options, key).iter().position(|name| !is_name(name)) {
        Some(at) => Err(format!(
            "entry {} of `{key}` is no name of a variable; name the variable that holds the key, e.g. \
             `OPENAI_API_KEY`",
            at + 1
        )),
        None => Ok(()),
    }
}

/// Shortest text of a login that is taken for a secret: words and dates are shorter, tokens longer.
const TOKEN_MIN: usize = 20;

/// Returns what must not be said again: the keys given, and the tokens of the login that the program
/// used. It is read after the program, which may have renewed them.
pub(crate) fn known(login: Option<&Path>, given: &[String]) -> Vec<String> {
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) if text.len() >= TOKEN_MIN => found.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
            Value::Object(values) => values.values().for_each(|value| texts(value, found)),
            _ => {}
        }
    }
    let mut known = given.to_vec();
    let read = login.and_then(|login| std::fs::read(login).ok());
    if let Some(login) = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        texts(&login, &mut known);
    }
    known
}

/// Returns the folder in which a vendor's program keeps its things: where `variable` says, else
/// `folder` in the home of the machine's user.
pub(crate) fn folder(env: Lookup<'_>, variable: &str, folder: &str) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    set(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(folder)))
}

/// Returns a program as it can be started from any folder.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = PathBuf::from(name);
    if name.contains('/') {
        std::path::absolute(&path).unwrap_or(path)
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_place_of_a_name_is_refused_and_not_repeated() {
        let check = |value: Value| {
            let get = |name: &str| (name == "keys").then(|| value.clone());
            names_variables(Options(&get), "keys")
        };
        assert_eq!(check(serde_json::json!(["OPENAI_API_KEY", "_K2"])), Ok(()));
        assert_eq!(check(Value::Null), Ok(()));
        for value in ["sk-ant-0123", "A, 2B", "A B", "Ä"] {
            let refused = check(Value::from(value)).unwrap_err();
            assert!(
                refused.contains("`keys`") && !refused.contains("sk-ant"),
                "{refused}"
            );
        }
    }

    #[test]
    fn the_tokens_of_a_login_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let login = folder.path().join("auth.json");
        let (access, refresh) = ("sk-live-0123456789-access", "rt-0123456789-refresh-0");
        let text = serde_json::json!({
            "mode": "oauth", "last": 7,
            "vendor": {"type": "api", "tokens": [access, {"refresh": refresh}]},
        });
        std::fs::write(&login, text.to_string()).unwrap();
        let given = ["given".to_owned()];
        let mut seen = known(Some(&login), &given);
        seen.sort();
        assert_eq!(seen, ["given", refresh, access]);
        // Nobody is logged in, or in a way that is no JSON.
        assert_eq!(known(None, &given), given);
        std::fs::write(&login, "token = 'x'").unwrap();
        assert_eq!(known(Some(&login), &given), given);
    }

    #[test]
    fn what_is_not_listed_stays_here() {
        let env = |name: &str| Some(format!("value of {name}"));
        let pairs = allowed(&env, &["OWN"]);
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.contains(&"PATH") && names.contains(&"OWN"),
            "{names:?}"
        );
        assert_eq!(names.len(), GENERAL.len() + 1);
        let bare = allowed(&|_| None, &["OWN"]);
        assert_eq!(bare, [("LANG".to_owned(), "C.UTF-8".to_owned())]);
    }

    #[test]
    fn a_program_is_found_from_any_folder() {
        assert_eq!(program("claude"), PathBuf::from("claude"));
        assert!(program("./bin/claude").is_absolute());
    }
}
