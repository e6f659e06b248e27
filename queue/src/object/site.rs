//! Which place it is, and with which settings it is opened.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::fault::Judge;
use crate::store::Error;

const FORM: &str = "use file:///FOLDER, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or \
    az://CONTAINER/FOLDER; credentials come from the environment";
/// Time to open a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longest wait between tries.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A place that is open, and the folder in it.
type Opened = (Arc<dyn ObjectStore>, Path);

/// Where large values go: a URL, and what the providers' own tools read from the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Site {
    url: String,
    /// By name in lower case.
    settings: Vec<(String, String)>,
}

impl Site {
    /// Names `file:///folder`, `s3://bucket/folder`, `gs://…` or `az://…` with settings such as
    /// `AWS_REGION`; others than those of the three providers are left out.
    #[must_use]
    pub fn new(url: &str, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        let settings = settings.into_iter().filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let ours = ["aws_", "google_", "azure_"];
            let is_ours = ours.iter().any(|prefix| name.starts_with(prefix));
            is_ours.then_some((name, value))
        });
        Self {
            url: url.to_owned(),
            settings: settings.collect(),
        }
    }

    /// Names a place with the settings of this process's environment.
    #[must_use]
    pub fn from_env(url: &str) -> Self {
        // A variable that is no text is none that a provider's tool could have meant.
        let text = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.into_string().ok()?))
        });
        Self::new(url, text)
    }

    /// Returns the values of settings that nobody should see.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().filter_map(|(name, value)| {
            let is_secret = ["key", "secret", "token", "sas"]
                .iter()
                .any(|word| name.contains(word));
            let is_place = ["_file", "_path", "_uri", "_url", "_id"]
                .iter()
                .any(|end| name.ends_with(end));
            (is_secret && !is_place).then_some(&**value)
        })
    }

    /// Returns the names of the variables that hold a credential, for people.
    fn variables(&self) -> &'static str {
        match self.url.split("://").next() {
            Some("s3" | "s3a") => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …",
            Some("gs") => "GOOGLE_SERVICE_ACCOUNT, GOOGLE_APPLICATION_CREDENTIALS, …",
            _ => "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, …",
        }
    }

    /// Returns what says what went wrong here.
    pub(super) fn judge(&self) -> Judge {
        Judge::new(&self.url, self.variables(), self.secrets())
    }

    pub(super) fn open(&self, away_max: Duration) -> Result<Opened, Error> {
        let malformed = || Error::Io {
            place: "the address of the object store".into(),
            detail: FORM.into(),
        };
        let (scheme, rest) = self.url.split_once("://").ok_or_else(malformed)?;
        if scheme == "file" {
            return self.folder(rest).ok_or_else(malformed)?;
        }
        // A login, or a signature: what is shown to people must hold none.
        let authority = rest.split('/').next().unwrap_or_default();
        let may_have_account = scheme.starts_with("abfs") && !authority.contains(':');
        if rest.contains(['?', '#']) || (rest.contains('@') && !may_have_account) {
            return Err(malformed());
        }
        let bucket_path = rest.split_once('/').map_or("", |(_, path)| path);
        let prefix = Path::from_url_path(bucket_path).map_err(|_| malformed())?;
        let retry = RetryConfig {
            backoff: BackoffConfig {
                max_backoff: WAIT_MAX,
                ..BackoffConfig::default()
            },
            max_retries: usize::MAX,
            retry_timeout: away_max,
        };
        // The time for a whole transfer depends on its size, which only the caller knows.
        let options = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT_MAX);
        /// Hands a builder what was set; it knows its own names.
        macro_rules! build {
            ($builder:ty) => {{
                let mut builder = <$builder>::new()
                    .with_url(&self.url)
                    .with_retry(retry)
                    .with_client_options(options);
                for (name, value) in &self.settings {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let built = builder.build();
                let built = built.map_err(|error| self.judge().unusable(&error))?;
                Arc::new(built) as Arc<dyn ObjectStore>
            }};
        }
        let store = match scheme {
            "s3" | "s3a" => build!(AmazonS3Builder),
            "gs" => build!(GoogleCloudStorageBuilder),
            "az" | "azure" | "abfs" | "abfss" => build!(MicrosoftAzureBuilder),
            _ => return Err(malformed()),
        };
        Ok((store, prefix))
    }

    /// Makes and opens a local folder; nothing if its path depends on where a process was started.
    fn folder(&self, folder: &str) -> Option<Result<Opened, Error>> {
        if !folder.starts_with('/') {
            return None;
        }
        let failed = |detail: String| Error::Io {
            place: self.url.clone(),
            detail,
        };
        let made = std::fs::create_dir_all(folder).map_err(|error| failed(error.to_string()));
        let opened = made.and_then(|()| {
            LocalFileSystem::new_with_prefix(folder).map_err(|error| failed(error.to_string()))
        });
        Some(opened.map(|store| -> Opened { (Arc::new(store.with_fsync(true)), Path::default()) }))
    }
}

/// Shows neither: the URL may hold a login as long as nobody has opened it.
impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").finish_non_exhaustive()
    }
}
