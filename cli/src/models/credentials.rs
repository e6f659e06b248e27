//! Where the credentials of a client come from: written out, a variable, or a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;

use skillopt_backends::CallError;
use skillopt_config::{BackendSettings, Role};
use skillopt_core::secret::{Reference, Secret, is_secret_name};

/// Largest file that is taken for a credential, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Hands a client its credentials and remembers which.
pub(super) struct Credentials<'a> {
    settings: &'a BackendSettings,
    role: Role,
    given: RefCell<Given>,
}

/// What a client was given.
#[derive(Default)]
pub(super) struct Given {
    /// The credentials themselves, which must not be shown.
    pub(super) secrets: Vec<Secret>,
    /// Whether one of them may be another one the next time it is looked at.
    pub(super) may_change: bool,
    /// Why one could not be had.
    fault: Option<String>,
}

impl<'a> Credentials<'a> {
    pub(super) fn new(settings: &'a BackendSettings, role: Role) -> Self {
        Self {
            settings,
            role,
            given: RefCell::default(),
        }
    }

    /// Returns a credential by the base name of its key. One that cannot be had is told by
    /// [`Self::given`].
    pub(super) fn secret(&self, key: &str) -> Option<Secret> {
        let secret = self.settings.secret(self.role, key)?;
        let mut given = self.given.borrow_mut();
        let found = match secret.reference() {
            None => Ok(secret.clone()),
            Some(place) => {
                given.may_change |= matches!(place, Reference::File(_));
                look_up(place)
            }
        };
        match found {
            Ok(secret) => {
                given.secrets.push(secret.clone());
                Some(secret)
            }
            Err(fault) => {
                given.fault.get_or_insert(format!("`{key}`: {fault}"));
                None
            }
        }
    }

    /// Returns a variable of the environment.
    pub(super) fn env(&self, name: &str) -> Option<String> {
        let value = std::env::var(name).ok()?;
        let password = password(&value);
        let is_secret = is_secret_name(name);
        let hidden = is_secret.then(|| value.clone()).into_iter().chain(password);
        let hidden = hidden.map(Secret::new);
        self.given.borrow_mut().secrets.extend(hidden);
        Some(value)
    }

    /// Returns what was handed out.
    ///
    /// # Errors
    /// A credential could not be had.
    pub(super) fn given(self, shown: &str) -> Result<Given, CallError> {
        let given = self.given.into_inner();
        match given.fault {
            None => Ok(given),
            Some(detail) => Err(CallError::Misconfigured {
                endpoint: shown.to_owned(),
                status: 0,
                detail,
            }),
        }
    }
}

/// Returns the password of an address, as a proxy's may have one.
fn password(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("://")?;
    let (user, _) = rest.split('/').next()?.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    Some(password.to_owned())
}

/// Reads a credential where it stands.
fn look_up(place: Reference<'_>) -> Result<Secret, String> {
    let text = match place {
        Reference::Env(name) => std::env::var(name)
            .map_err(|_| format!("`{place}`: there is no such variable where the model is called")),
        // Small and on this machine: no call waits for it.
        Reference::File(path) => File::open(path)
            .and_then(|file| {
                let mut text = String::new();
                file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
                Ok(text)
            })
            .map_err(|e| format!("`{place}` cannot be read where the model is called: {e}")),
    }?;
    match text.trim() {
        "" => Err(format!("`{place}` is empty")),
        text => Ok(Secret::new(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(key: &str) -> BackendSettings {
        let env = |name: &str| (name == "OPENAI_COMPATIBLE_API_KEY").then(|| key.to_owned());
        BackendSettings::from_env(&env).unwrap()
    }

    fn found(key: &str) -> Result<(String, bool), String> {
        let settings = settings(key);
        let credentials = Credentials::new(&settings, Role::Target);
        let secret = credentials.secret("openai_compatible_api_key");
        let given = credentials.given("m").map_err(|e| e.to_string())?;
        Ok((secret.unwrap().expose().to_owned(), given.may_change))
    }

    #[test]
    fn a_credential_is_found_where_it_stands() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let place = format!("file:{}", file.path().display());
        assert!(found(&place).unwrap_err().contains("is empty"));
        std::fs::write(file.path(), "sk-file\n").unwrap();
        assert_eq!(found(&place), Ok(("sk-file".to_owned(), true)));
        assert_eq!(found("sk-literal"), Ok(("sk-literal".to_owned(), false)));
        // Cargo sets it for every test.
        let name = env!("CARGO_PKG_NAME").to_owned();
        assert_eq!(found("env:CARGO_PKG_NAME"), Ok((name, false)));
    }

    #[test]
    fn a_credential_that_is_not_there_is_told_with_its_key_and_place() {
        for place in ["env:SKILLOPT_NO_SUCH", "file:/no/such/key"] {
            let fault = found(place).unwrap_err();
            assert!(fault.contains("openai_compatible_api_key"), "{fault}");
            assert!(fault.contains(place), "{fault}");
        }
    }

    #[test]
    fn the_password_of_an_address() {
        for (address, want) in [
            ("http://me:pa:ss@proxy:3128/x", Some("pa:ss")),
            ("http://proxy:3128", None),
            ("http://me@proxy", None),
            ("plain", None),
        ] {
            assert_eq!(password(address).as_deref(), want, "{address}");
        }
    }
}
