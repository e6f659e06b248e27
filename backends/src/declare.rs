//! What a backend says of itself: names, roles, settings, and how a client is made.
//!
//! One [`Declaration`] is all that the program knows of a backend; configuration keys, flags, the
//! reference page, aliases and preflight come from it. A new backend is one file with a
//! declaration and one line in [`crate::registry`] (`docs/new-backend.md`).

use std::sync::Arc;

use serde_json::Value;
use skillopt_core::job::Profile;
use skillopt_core::kind::{HUGE, Kind, Word, float};
use skillopt_core::role::Role;
use skillopt_core::secret::Secret;

use crate::contract::ChatModel;
use crate::error::CallError;
use crate::http::Http;

/// What a backend does for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Answers conversations.
    Chat,
    /// Runs as an agent in a workspace.
    Agent,
}

/// A name for a pair of backends, as in `--backend NAME`.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The name.
    pub name: &'static str,
    /// Other spellings.
    pub aliases: &'static [&'static str],
    /// The optimizer's backend.
    pub optimizer: &'static str,
    /// The target's.
    pub target: &'static str,
}

/// One backend.
#[derive(Clone, Copy)]
pub struct Declaration {
    /// Canonical name: what a role is set to.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Names that stand for it, the canonical one first.
    pub labels: &'static [Label],
    /// Whether it can serve as optimizer.
    pub optimizer: bool,
    /// Whether, and how, it can serve as target.
    pub target: Option<Work>,
    /// The model in place of a shipped name that nobody chose; `None` keeps that name. An empty
    /// one leaves the choice to the provider.
    pub default_model: fn(Role) -> Option<&'static str>,
    /// Limit of one exchange where nobody sets one, in seconds; `None`: as the run says.
    pub timeout_seconds: Option<f64>,
    /// Its settings, all beginning with a prefix of its own.
    pub keys: &'static [BackendKey],
    /// Writes into a profile what of the settings may change answers: address, limits, the rest
    /// under `settings`. The same on every machine, without credentials.
    pub describe: fn(Options<'_>, &mut Profile),
    /// Makes a client; `None`: this release cannot call it.
    pub connect: Option<Connect>,
}

/// Makes a client of what a profile says, with what this machine adds; makes no call.
pub type Connect = fn(&Profile, &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError>;

/// What a machine adds to a profile: credentials, programs, connections.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    /// Settings of the profile's role, those that change no answer included.
    pub options: Options<'a>,
    /// Credentials of the profile's role, by the base name of their key.
    pub secret: &'a dyn Fn(&str) -> Option<Secret>,
    /// The environment, for what vendors keep there.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Connections, which all clients of a process share.
    pub http: &'a Arc<Http>,
}

/// Settings as one role sees them: its own value, else the shared one; none if unset or blank.
#[derive(Clone, Copy)]
pub struct Options<'a>(pub &'a dyn Fn(&str) -> Option<Value>);

impl Options<'_> {
    /// Returns a value by the base name of its key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        (self.0)(key)
    }

    /// Returns a text, trimmed; none if it is blank.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        let text = match self.get(key)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Null => return None,
            other => other.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns a number, also of a text.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Value::Number(n) => n.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Returns a number of a setting that can be `none`; `default` if it is unset.
    #[must_use]
    pub fn number_or_none(&self, key: &str, default: f64) -> Option<f64> {
        match self.get(key) {
            None | Some(Value::Null) => Some(default),
            Some(_) => self.number(key),
        }
    }

    /// Returns a whole number that is not negative, also of a text.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u32> {
        let number = match self.get(key)? {
            Value::Number(n) => n.as_u64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.and_then(|n| u32::try_from(n).ok())
    }

    /// Returns a switch, in any accepted spelling.
    #[must_use]
    pub fn switch(&self, key: &str) -> Option<bool> {
        match self.text(key)?.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "enabled" => Some(true),
            "false" | "no" | "off" | "0" | "disabled" => Some(false),
            _ => None,
        }
    }
}

/// One key, or three: itself, `optimizer_…` and `target_…`.
#[derive(Clone, Copy, Debug)]
pub struct BackendKey {
    /// The name without a role.
    pub base: &'static str,
    /// Whether each role has one of its own, which wins over the shared one.
    pub roles: bool,
    /// What values it takes.
    pub kind: Kind,
    /// The value if nobody sets it, in words.
    pub default: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Whether it changes what a run computes.
    pub result: bool,
    /// Variables of the environment that set it, beside its own name in capitals, which comes
    /// first. `{ROLE}` makes one for each role.
    pub variables: &'static [&'static str],
    /// What a variable stands for that is set, but blank; `None`: for nothing.
    pub blank: Option<&'static str>,
    /// Judges what is configured for a role that uses the backend, this key with the others.
    pub check: Option<Check>,
    /// Whether the value names a file, or is the text of one, whose content takes its place: what
    /// the setting means does not depend on the machine that reads it later.
    pub is_document: bool,
}

/// Judges settings of a role together: a remark if there is something to say, an error if they
/// contradict each other.
pub type Check = fn(Options<'_>) -> Result<Option<String>, String>;

impl BackendKey {
    /// Returns the variables that set the key of `role`, or the shared one, first come first.
    #[must_use]
    pub fn variables(&self, role: Option<Role>) -> Vec<String> {
        let own = role.map_or_else(
            || self.base.to_owned(),
            |role| format!("{}_{}", role.as_str(), self.base),
        );
        let others = self.variables.iter().filter_map(|name| match role {
            Some(role) if name.contains(ROLE) => Some(name.replace(ROLE, role.as_str())),
            None if !name.contains(ROLE) => Some((*name).to_owned()),
            _ => None,
        });
        std::iter::once(own)
            .chain(others)
            .map(|name| name.to_uppercase())
            .collect()
    }

    /// Returns the flat names with the role that each is for.
    pub fn places(&self) -> impl Iterator<Item = (String, Option<Role>)> + '_ {
        let roles: &[Option<Role>] = if self.roles {
            &[None, Some(Role::Optimizer), Some(Role::Target)]
        } else {
            &[None]
        };
        roles.iter().map(|role| match role {
            None => (self.base.to_owned(), None),
            Some(one) => (format!("{}_{}", one.as_str(), self.base), *role),
        })
    }

    /// Returns the flat names: one, or three.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.places().map(|(name, _)| name)
    }
}

/// Stands for a role in the name of a variable.
const ROLE: &str = "{ROLE}";

/// Declares a key that both roles share.
#[must_use]
pub const fn key(
    base: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> BackendKey {
    BackendKey {
        base,
        roles: false,
        kind,
        default,
        help,
        result: true,
        variables: &[],
        blank: None,
        check: None,
        is_document: false,
    }
}

/// Declares a key that each role may set for itself.
#[must_use]
pub const fn both(
    base: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> BackendKey {
    BackendKey {
        roles: true,
        ..key(base, kind, default, help)
    }
}

/// Says that a key changes no answer, only how fast or where.
#[must_use]
pub const fn ops(key: BackendKey) -> BackendKey {
    BackendKey {
        result: false,
        ..key
    }
}

/// Names further variables that set a key.
#[must_use]
pub const fn also(key: BackendKey, variables: &'static [&'static str]) -> BackendKey {
    BackendKey { variables, ..key }
}

/// Says what a variable stands for that is set, but blank.
#[must_use]
pub const fn blank_is(key: BackendKey, blank: &'static str) -> BackendKey {
    BackendKey {
        blank: Some(blank),
        ..key
    }
}

/// Says that a key names a file whose content is the value.
#[must_use]
pub const fn document(key: BackendKey) -> BackendKey {
    BackendKey {
        is_document: true,
        ..key
    }
}

/// Adds a check of a key together with others.
#[must_use]
pub const fn checked(key: BackendKey, check: Check) -> BackendKey {
    BackendKey {
        check: Some(check),
        ..key
    }
}

/// What a temperature may be.
pub const TEMPERATURE: Kind = float(0.0, 100.0);
/// What a temperature may be where there is a default that one may want to leave out.
pub const TEMPERATURE_OR_NONE: Kind = Kind::FloatOrNone {
    min: 0.0,
    max: 100.0,
};
/// What a limit of time may be.
pub const SECONDS: Kind = float(0.001, HUGE as f64);
/// A switch that may be left unset.
pub const SWITCH: Kind = Kind::Choice(SWITCH_WORDS);
const SWITCH_WORDS: &[Word] = &[
    ("true", &["yes", "on", "1"]),
    ("false", &["no", "off", "0"]),
    ("", &[]),
];
/// Whether a vendor's SDK takes the place of its program.
pub const SDK: Kind = Kind::Choice(SDK_WORDS);
const SDK_WORDS: &[Word] = &[
    ("auto", &[""]),
    ("true", &["yes", "on", "1", "sdk"]),
    ("false", &["no", "off", "0", "cli"]),
];

/// For a backend whose settings say nothing that changes an answer.
pub fn describes_nothing(_: Options<'_>, _: &mut Profile) {}
