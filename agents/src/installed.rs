//! Where a CLI's program lies, and what a sandbox must be able to read to run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skillopt_backends::agents::declared::Declared;

use crate::cli::{Cli, Version};

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The program.
    pub program: PathBuf,
    /// Its version; `None` if no package tells it.
    pub version: Option<Version>,
    /// Folders that it needs, itself included.
    pub read_only: Vec<PathBuf>,
    /// Folders for the `PATH` inside.
    pub path: Vec<PathBuf>,
}

/// Why a CLI cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotInstalled {
    /// There is no such program.
    Missing {
        /// What was looked for.
        program: String,
        /// How it can be had.
        help: String,
    },
    /// Its folders cannot be read.
    Unreadable(String),
    /// It is of a release whose flags and events are not known.
    OtherRelease {
        /// What was found.
        program: String,
        /// Its release.
        found: Version,
        /// The releases that are known.
        known: String,
        /// How one of them can be had.
        help: String,
    },
}

impl std::fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { program, help } => write!(f, "`{program}` is not installed; {help}"),
            Self::Unreadable(why) => f.write_str(why),
            Self::OtherRelease {
                program,
                found,
                known,
                help,
            } => write!(
                f,
                "`{program}` is of release {found}, whose flags and events may differ from those that \
                 are known ({known}); {help}"
            ),
        }
    }
}

impl std::error::Error for NotInstalled {}

/// Folders that every sandbox shows anyway.
const SHOWN: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64"];

impl Installed {
    /// Finds a CLI of a release that it was tried with: at `configured` if that is a path, else in
    /// the folders of `path`.
    ///
    /// # Errors
    /// It is not there, or of another release.
    pub fn find(cli: &Cli, configured: Option<&str>, path: &str) -> Result<Self, NotInstalled> {
        Self::find_release(cli, configured, path, "")
    }

    /// Finds a CLI of one release; empty: of those that it was tried with.
    ///
    /// # Errors
    /// It is not there, or of another release.
    pub fn find_release(
        cli: &Cli,
        configured: Option<&str>,
        path: &str,
        release: &str,
    ) -> Result<Self, NotInstalled> {
        let wanted = configured.unwrap_or(cli.program);
        let Some(found) = look_up(wanted, path) else {
            return Err(NotInstalled::Missing {
                program: wanted.to_owned(),
                help: help(cli),
            });
        };
        let program = native(cli, &found).unwrap_or(found);
        let installed = Self::at(&program, path)?;
        installed.is_of(installed.version, cli, release)?;
        Ok(installed)
    }

    /// Refuses `found` if it is a release that a CLI was not tried with, or another than `release` if
    /// that is not empty. Nothing is refused of which nobody knows the release.
    ///
    /// # Errors
    /// [`NotInstalled::OtherRelease`].
    pub fn is_of(
        &self,
        found: Option<Version>,
        cli: &Cli,
        release: &str,
    ) -> Result<(), NotInstalled> {
        let is_tested = cli.is_tried(release);
        let fits = |version| match Version::find(release) {
            Some(release) if !is_tested => release == version,
            _ => cli.tested.holds(version),
        };
        match found {
            Some(version) if !fits(version) => Err(NotInstalled::OtherRelease {
                program: self.program.display().to_string(),
                found: version,
                known: if is_tested {
                    cli.tested.to_string()
                } else {
                    format!("{release}, by `agent_version`")
                },
                help: format!(
                    "{}; or set `model.agent_version: {version}` to use it untested",
                    help(cli)
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Finds the program of a CLI that a user declared.
    ///
    /// # Errors
    /// It is not there, or of another release than is declared.
    pub fn find_declared(
        declared: &Declared,
        configured: Option<&str>,
        path: &str,
        release: &str,
    ) -> Result<Self, NotInstalled> {
        let named = declared.command.first().map_or("", String::as_str);
        let wanted = configured.unwrap_or(named);
        let found = look_up(wanted, path).ok_or_else(|| NotInstalled::Missing {
            program: wanted.to_owned(),
            help: "put it on the PATH, or set `declared_exec_path`".to_owned(),
        })?;
        let installed = Self::at(&found, path)?;
        installed.is_declared(installed.version, release)?;
        Ok(installed)
    }

    /// Refuses `found` if another release is declared; if one of them is not known, they agree.
    ///
    /// # Errors
    /// [`NotInstalled::OtherRelease`].
    pub(crate) fn is_declared(
        &self,
        found: Option<Version>,
        release: &str,
    ) -> Result<(), NotInstalled> {
        match (found, Version::find(release)) {
            (Some(found), Some(release)) if found != release => Err(NotInstalled::OtherRelease {
                program: self.program.display().to_string(),
                found,
                known: release.to_string(),
                help: format!("declare `version: {found}`, or set `model.agent_version: {found}`"),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the environment that its programs have inside, where nothing is added.
    pub(crate) fn environment(&self, home: &str, tmp: &str) -> BTreeMap<String, String> {
        let folders = self.path.iter().map(|folder| folder.to_string_lossy());
        let path: Vec<_> = folders
            .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into))
            .collect();
        let all = [
            ("HOME", home),
            ("PATH", &path.join(":")),
            ("TMPDIR", tmp),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    /// Makes what is needed of a program that lies at a path.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn at(program: &Path, path: &str) -> Result<Self, NotInstalled> {
        let real = program.canonicalize().map_err(|e| {
            NotInstalled::Unreadable(format!("`{}` cannot be read: {e}", program.display()))
        })?;
        let mut read_only = Vec::new();
        let mut folders = Vec::new();
        let package = package_of(&real);
        let shown = match &package {
            // A script finds its dependencies beside it.
            Some(package) if is_script(&real) => &package.beside,
            Some(package) => &package.folder,
            // A program that lies by itself is shown by itself, not with all that lies around it.
            None => &real,
        };
        add(&mut read_only, shown.clone());
        // A bundle of ripgrep lies beside some programs; several CLIs need one.
        if let Some(rg) = look_up("rg", path) {
            let rg = rg.canonicalize().unwrap_or(rg);
            folders.extend(rg.parent().map(Path::to_path_buf));
            add(&mut read_only, rg);
        }
        if is_script(&real)
            && let Some(node) = look_up("node", path)
        {
            let node = node.canonicalize().unwrap_or(node);
            folders.extend(node.parent().map(Path::to_path_buf));
            // It stands alone: its folder may be somebody's home.
            add(&mut read_only, node);
        }
        Ok(Self {
            version: package.and_then(|package| release(&real, &package.folder)),
            program: real,
            read_only,
            path: folders,
        })
    }
}

/// Says how a CLI can be had.
fn help(cli: &Cli) -> String {
    if cli.package.is_empty() {
        format!(
            "install it as its vendor says, or set `{}_path`",
            cli.backend
        )
    } else {
        format!(
            "`npm install -g {}@{}`, or set `{}_path`",
            cli.package, cli.tested.last, cli.backend
        )
    }
}

fn add(folders: &mut Vec<PathBuf>, folder: PathBuf) {
    let is_shown = SHOWN.iter().any(|shown| folder.starts_with(shown));
    if !is_shown && !folders.contains(&folder) {
        folders.push(folder);
    }
}

fn look_up(name: &str, path: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let folders = std::env::split_paths(path);
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Packages hold a native program beside the script that starts it; the script needs Node, and may
/// not have been set up.
fn native(cli: &Cli, found: &Path) -> Option<PathBuf> {
    let real = found.canonicalize().ok()?;
    let modules = real
        .ancestors()
        .find(|folder| folder.ends_with("node_modules"))?;
    Some(modules.join(cli.native)).filter(|path| !cli.native.is_empty() && path.is_file())
}

/// The package that a program belongs to.
struct Package {
    /// Its folder.
    folder: PathBuf,
    /// What its dependencies lie in.
    beside: PathBuf,
}

/// Returns the package that owns a program: what lies directly in the innermost `node_modules`, with
/// its scope; or the program's own folder, if it holds what the program is a script for.
fn package_of(program: &Path) -> Option<Package> {
    for above in program.ancestors() {
        let Some(parent) = above.parent() else {
            break;
        };
        let is_scope = parent
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('@'));
        let holder = if is_scope {
            parent.parent()
        } else {
            Some(parent)
        };
        if let Some(modules) = holder.filter(|holder| holder.ends_with("node_modules")) {
            return Some(Package {
                folder: above.to_path_buf(),
                beside: modules.to_path_buf(),
            });
        }
    }
    let own = program.parent()?;
    // Some programs are a script that starts what lies beside it.
    own.join("index.js").is_file().then(|| Package {
        folder: own.to_path_buf(),
        beside: own.to_path_buf(),
    })
}

/// Returns the release that the package of a program says it is of.
fn release(program: &Path, package: &Path) -> Option<Version> {
    let folders = program.ancestors().skip(1);
    let mut inside = folders.take_while(|folder| folder.starts_with(package));
    // Folders of a package may have files of that name that tell how to read them, and no release.
    inside.find_map(|folder| {
        let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
        let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
        Version::find(manifest.get("version")?.as_str()?)
    })
}

fn is_script(program: &Path) -> bool {
    let mut head = [0; 2];
    let read = std::fs::File::open(program)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    read.is_ok() && head == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_native_program_is_taken_and_only_its_package_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let modules = dir.path().canonicalize().unwrap().join("lib/node_modules");
        let package = modules.join("@openai/codex-linux-x64");
        let native = package.join("vendor/x86_64-unknown-linux-musl/bin/codex");
        put(&native, "\u{7f}ELF");
        put(
            &modules.join("@openai/codex/bin/codex"),
            "#!/usr/bin/env node\n",
        );
        let path = modules.join("@openai/codex/bin");
        let codex = cli::find("codex_exec").unwrap();
        let found = Installed::find(codex, None, path.to_str().unwrap()).unwrap();
        assert_eq!(found.program, native);
        assert_eq!(found.read_only, [package]);
    }

    #[test]
    fn a_script_is_shown_with_what_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let modules = root.join("app/node_modules");
        put(
            &modules.join("@google/gemini-cli/bundle/gemini"),
            "#!/usr/bin/env node\n",
        );
        put(&root.join("node/bin/node"), "\u{7f}ELF");
        let path = format!(
            "{}:{}",
            modules.join("@google/gemini-cli/bundle").display(),
            root.join("node/bin").display()
        );
        let gemini = cli::find("gemini_exec").unwrap();
        let found = Installed::find(gemini, None, &path).unwrap();
        assert_eq!(found.read_only, [modules, root.join("node/bin/node")]);
        assert_eq!(found.path, [root.join("node/bin")]);
    }

    #[test]
    fn a_program_of_another_release_is_refused_and_one_by_itself_shows_nothing_around_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let package = root.join("node_modules/@anthropic-ai/claude-code-linux-x64");
        put(&package.join("claude"), "\u{7f}ELF");
        put(&package.join("package.json"), r#"{"version": "9.9.9"}"#);
        let claude = cli::find("claude_code_exec").unwrap();
        let path = package.join("claude");
        let words = Installed::find(claude, path.to_str(), "")
            .unwrap_err()
            .to_string();
        for part in ["9.9.9", "2.1.197", "model.agent_version: 9.9.9"] {
            assert!(words.contains(part), "{words}");
        }
        let release =
            |release: &str| Installed::find_release(claude, path.to_str(), "", release).is_ok();
        assert!(release("9.9.9"), "a release that was asked for is used");
        assert!(!release("9.9.8") && !release("2.1.197") && !release(""));
        put(&root.join("somebody/claude"), "\u{7f}ELF");
        let path = root.join("somebody/claude");
        let found = Installed::find(claude, path.to_str(), "").unwrap();
        assert_eq!(found.read_only, [path]);
    }

    #[test]
    fn only_the_package_that_owns_a_program_tells_its_release() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let release = |path: &str, text: &str| {
            put(&root.join(path), text);
            Installed::at(&root.join(path), "").unwrap().version
        };
        // Of a project around it, and of what a package is part of.
        put(&root.join("package.json"), r#"{"version": "9.9.9"}"#);
        put(&root.join("bin/package.json"), r#"{"version": "8.8.8"}"#);
        assert_eq!(release("claude", "\u{7f}ELF"), None);
        assert_eq!(release("bin/claude", "\u{7f}ELF"), None);
        assert_eq!(release("node_modules/@a/b/bin/claude", "\u{7f}ELF"), None);
        put(
            &root.join("node_modules/@a/b/package.json"),
            r#"{"version": "1.2.3"}"#,
        );
        let own = Some(Version(1, 2, 3));
        assert_eq!(release("node_modules/@a/b/bin/claude", "\u{7f}ELF"), own);
        assert_eq!(
            release("node_modules/@a/b/cli", "#!/usr/bin/env node\n"),
            own
        );
        // Some folders of a package only say how their files are read.
        let kind = root.join("node_modules/@a/b/bin/package.json");
        put(&kind, r#"{"type": "module"}"#);
        assert_eq!(release("node_modules/@a/b/bin/claude", "\u{7f}ELF"), own);
        // A program that starts what lies beside it is a package with it.
        put(&root.join("bin/index.js"), "");
        let beside = Some(Version(8, 8, 8));
        assert_eq!(release("bin/claude", "#!/bin/bash\n"), beside);
        let found = Installed::at(&root.join("bin/claude"), "").unwrap();
        assert_eq!(found.read_only, [root.join("bin")]);
    }

    #[test]
    fn what_is_missing_is_told_with_what_helps() {
        let codex = cli::find("codex_exec").unwrap();
        let words = Installed::find(codex, None, "/nowhere")
            .unwrap_err()
            .to_string();
        assert!(words.contains("`codex` is not installed"), "{words}");
        assert!(
            words.contains("npm install -g @openai/codex@0.171.0"),
            "{words}"
        );
    }
}
