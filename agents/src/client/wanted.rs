//! Which CLI a profile names, and where it lies.

use skillopt_backends::agents::declared::Declared;
use skillopt_backends::declare::{Local, Options};
use skillopt_core::job::Profile;

use crate::cli::{self, Cli, Vendor, Version};
use crate::installed::{Installed, NotInstalled};
use crate::relay::Wire;
use crate::run::Program;

/// The CLI that a profile names.
pub(super) enum Wanted {
    Known(&'static Cli),
    Declared(Box<Declared>),
}

/// The backend whose CLI a user declares.
pub(super) const DECLARED: &str = "declared_exec";

impl super::Agent {
    /// Refuses a profile whose program this machine lacks, or has in another release; `path` is where
    /// programs lie, and `told` says what a program without a package says of its release. What is wrong
    /// with the profile itself is told by [`Self::new`].
    ///
    /// # Errors
    /// What is missing, and how it can be had.
    pub fn is_installed(
        profile: &Profile,
        options: Options<'_>,
        path: &str,
        told: impl FnOnce(&Installed) -> Option<Version>,
    ) -> Result<(), NotInstalled> {
        let Ok(wanted) = Wanted::of(profile) else {
            return Ok(());
        };
        let release = Self::release_of(profile);
        let found = wanted.find(options, path, release)?;
        match found.version.is_some() || !wanted.asks(release) {
            true => Ok(()),
            false => wanted.fits(&found, told(&found), release),
        }
    }

    /// Returns what is to be said before a run of a release that was not tried.
    #[must_use]
    pub fn doubt(profile: &Profile) -> Option<String> {
        cli::find(&profile.backend)?.doubt(Self::release_of(profile))
    }

    /// Returns the release that a profile wants: the one that was tried, or `agent_version`; empty if
    /// any will do.
    #[must_use]
    pub fn release_of(profile: &Profile) -> &str {
        let release = profile.settings.get("version");
        release
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    }

    /// Names the program that a profile wants: the same for all that are served by the same.
    #[must_use]
    pub fn name(profile: &Profile) -> String {
        let setting = |name: &str| profile.settings.get(name);
        let declared = setting("cli").and_then(|cli| cli.get("name"));
        let words = [declared, setting("version")];
        let words = words
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_str);
        let all: Vec<&str> = std::iter::once(profile.backend.as_str())
            .chain(words)
            .collect();
        all.join(" ")
    }
}

impl Wanted {
    pub(super) fn of(profile: &Profile) -> Result<Self, String> {
        if profile.backend != DECLARED {
            let cli = cli::find(&profile.backend);
            return Ok(Self::Known(cli.ok_or("this release cannot run it")?));
        }
        let Some(declared) = profile.settings.get("cli") else {
            return Err(
                "`model.agent_cli` names no file that declares the agent; docs/new-agent-cli.md has \
                 an example"
                    .to_owned(),
            );
        };
        let declared = Declared::read(declared).map_err(|why| format!("`agent_cli` {why}"))?;
        Ok(Self::Declared(Box::new(declared)))
    }

    pub(super) const fn wire(&self) -> Wire {
        match self {
            Self::Known(cli) => cli.wire,
            Self::Declared(declared) => cli::declared::wire(declared),
        }
    }

    /// Returns one that is built in.
    pub(super) const fn known(&self) -> Option<&'static Cli> {
        match self {
            Self::Known(cli) => Some(cli),
            Self::Declared(_) => None,
        }
    }

    /// Returns how it is let out to its vendor, if it asks that by itself.
    pub(super) fn vendor(&self) -> Option<Vendor> {
        self.known().and_then(|cli| cli.vendor)
    }

    pub(super) fn is_direct(&self) -> bool {
        self.vendor().is_some()
    }

    pub(super) fn install(
        &self,
        local: &Local<'_>,
        release: &str,
    ) -> Result<Installed, NotInstalled> {
        // A bare name is looked up, as in a shell.
        let path = (local.env)("PATH").unwrap_or_default();
        self.find(local.options, &path, release)
    }

    fn find(
        &self,
        options: Options<'_>,
        path: &str,
        release: &str,
    ) -> Result<Installed, NotInstalled> {
        let configured = |backend: &str| options.text(&format!("{backend}_path"));
        match self {
            Self::Known(cli) => {
                let at = configured(cli.backend);
                Installed::find_release(cli, at.as_deref(), path, release)
            }
            Self::Declared(declared) => {
                let at = configured(DECLARED);
                Installed::find_declared(declared, at.as_deref(), path, release)
            }
        }
    }

    /// Returns whether a program that no package knows has to say of which release it is.
    pub(super) fn asks(&self, release: &str) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Declared(_) => !release.is_empty(),
        }
    }

    /// Refuses a program that says it is of another release.
    pub(super) fn fits(
        &self,
        installed: &Installed,
        found: Option<Version>,
        release: &str,
    ) -> Result<(), NotInstalled> {
        match self {
            Self::Known(cli) => installed.is_of(found, cli, release),
            Self::Declared(_) => installed.is_declared(found, release),
        }
    }

    pub(super) fn program(&self) -> Program<'_> {
        match self {
            Self::Known(cli) => Program::Known(cli),
            Self::Declared(declared) => Program::Declared(declared),
        }
    }
}
