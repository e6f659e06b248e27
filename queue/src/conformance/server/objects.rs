//! Object stores for tests: S3 and Azure as their emulators speak, Google's as a program beside
//! this file does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use skillopt_runtime::clock::Stopwatch;
use tempfile::TempDir;

use super::{START_MAX, WATCH, free_port, signal};
use crate::object::Site;

/// The bucket, or container, that there is.
pub const BUCKET: &str = "kept";
/// The secret that opens it, and another one of the same form.
const SECRETS: [&str; 2] = [
    "c2tpbGxvcHQtdGVzdHMtc2VjcmV0LW9uZS1yaWdodA==",
    "c2tpbGxvcHQtdGVzdHMtc2VjcmV0LXR3by13cm9uZw==",
];

/// Whose interface a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Amazon's S3.
    S3,
    /// Azure's blobs.
    Azure,
    /// Google's cloud storage.
    Google,
}

/// A server that keeps its values in a folder, so that they are there when it starts again.
pub struct ObjectServer {
    vendor: Vendor,
    port: u16,
    dir: TempDir,
    child: Mutex<Option<Child>>,
}

impl ObjectServer {
    /// Starts a server with one bucket.
    ///
    /// # Panics
    /// If it does not come up; the message holds its log.
    #[must_use]
    pub fn start(vendor: Vendor) -> Self {
        let server = Self {
            vendor,
            port: free_port(),
            dir: tempfile::tempdir().expect("a folder for a server"),
            child: Mutex::new(None),
        };
        server.restart();
        server
    }

    /// Returns its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of its bucket.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(BUCKET)
    }

    /// Returns the address of another bucket.
    #[must_use]
    pub fn url_of(&self, bucket: &str) -> String {
        let scheme = match self.vendor {
            Vendor::S3 => "s3",
            Vendor::Azure => "az",
            Vendor::Google => "gs",
        };
        format!("{scheme}://{bucket}/some/folder")
    }

    /// Returns what the environment has to hold for it.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        self.settings_with(self.port, SECRETS[0])
    }

    /// The same with a wrong secret.
    #[must_use]
    pub fn wrong_settings(&self) -> Vec<(String, String)> {
        let mut settings = self.settings_with(self.port, SECRETS[1]);
        for (name, value) in &mut settings {
            // The emulator of S3 knows accounts, but cannot work out their signatures.
            if name == "AWS_ACCESS_KEY_ID" {
                *value = "nobody".to_owned();
            }
        }
        settings
    }

    /// The same over another port, e.g. of a proxy.
    #[must_use]
    pub fn settings_at(&self, port: u16) -> Vec<(String, String)> {
        self.settings_with(port, SECRETS[0])
    }

    fn settings_with(&self, port: u16, secret: &str) -> Vec<(String, String)> {
        let at = format!("http://127.0.0.1:{port}");
        let azure = format!("{at}/tests");
        let pairs = match self.vendor {
            Vendor::S3 => vec![
                ("AWS_ENDPOINT_URL", &*at),
                ("AWS_ALLOW_HTTP", "true"),
                ("AWS_REGION", "us-east-1"),
                ("AWS_ACCESS_KEY_ID", "tests"),
                ("AWS_SECRET_ACCESS_KEY", secret),
            ],
            Vendor::Azure => vec![
                ("AZURE_STORAGE_ENDPOINT", &*azure),
                ("AZURE_ALLOW_HTTP", "true"),
                ("AZURE_STORAGE_ACCOUNT_NAME", "tests"),
                ("AZURE_STORAGE_ACCOUNT_KEY", secret),
            ],
            Vendor::Google => vec![
                ("GOOGLE_BASE_URL", &*at),
                ("GOOGLE_ALLOW_HTTP", "true"),
                ("GOOGLE_BEARER_TOKEN", secret),
            ],
        };
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        pairs.into_iter().map(own).collect()
    }

    /// Returns the secrets that no text may show.
    #[must_use]
    pub const fn secrets() -> [&'static str; 2] {
        SECRETS
    }

    /// Returns the place of its bucket.
    #[must_use]
    pub fn site(&self) -> Site {
        Site::new(&self.url(), self.settings())
    }

    /// Returns how many bytes it keeps.
    ///
    /// # Panics
    /// If its folder cannot be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        fn below(folder: &Path) -> u64 {
            let entries = std::fs::read_dir(folder).expect("a folder").flatten();
            let size = |entry: std::fs::DirEntry| match entry.metadata() {
                Ok(found) if found.is_dir() => below(&entry.path()),
                found => found.map_or(0, |found| found.len()),
            };
            entries.map(size).sum()
        }
        below(&self.dir.path().join("kept"))
    }

    /// Kills it, as a power cut would. The emulator of Azure is told to end instead: it writes down what
    /// it has every few seconds only, which no store of Azure does.
    ///
    /// # Panics
    /// If it or its shell does not end.
    pub fn kill(&self) {
        let child = self.child.lock().expect("no panic").take();
        if let Some(mut child) = child {
            if self.vendor == Vendor::Azure {
                signal(&mut child, "TERM");
                self.wait_for("over\n");
            }
            signal(&mut child, "KILL");
            child.wait().expect("the shell ends");
        }
    }

    /// Starts it, also after [`ObjectServer::kill`], with what its folder holds.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn restart(&self) {
        let mut command = Command::new("sh");
        command.args(["-c", WATCH, "node"]).arg(self.program());
        let log = self.dir.path().join("log");
        let file = std::fs::File::create(&log).expect("a log");
        let again = file.try_clone().expect("a log");
        command
            .args([&self.port.to_string(), BUCKET, SECRETS[0]])
            .env("SKILLOPT_OBJECT_SERVERS", installed())
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(again);
        *self.child.lock().expect("no panic") = Some(command.spawn().expect("a shell"));
        self.wait_for("ready\n");
    }

    /// Waits until it has said something.
    fn wait_for(&self, words: &str) {
        let log = self.dir.path().join("log");
        let waited = Stopwatch::start();
        while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains(words)) {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(waited.elapsed() < START_MAX, "no object store: {log}");
            assert!(!log.contains("Error"), "no object store: {log}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Writes the program that starts the server, and returns where it is.
    fn program(&self) -> PathBuf {
        let text = match self.vendor {
            Vendor::S3 => include_str!("objects/s3.cjs"),
            Vendor::Azure => include_str!("objects/azure.cjs"),
            Vendor::Google => include_str!("objects/google.cjs"),
        };
        let file = self.dir.path().join("server.cjs");
        std::fs::write(&file, text).expect("a program");
        file
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the folder with the emulators that the tests' set-up has put there.
fn installed() -> PathBuf {
    let named = std::env::var_os("SKILLOPT_OBJECT_SERVERS").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        root.join("target/tools/object-servers")
    });
    assert!(
        folder.join("node_modules").is_dir(),
        "no object stores in `{}`: `cargo xtask test` installs them and sets SKILLOPT_OBJECT_SERVERS",
        folder.display()
    );
    folder
}
