//! Large values in an object store: a local folder, S3, GCS or Azure, chosen by URL.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};

use crate::store::Error;

/// A place for large values, by name. Clones share it.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The URL, which holds no secret: credentials come from the environment.
    place: String,
}

impl Objects {
    /// Opens `file:///folder`, `s3://bucket/folder`, `gs://…` or `az://…`; a local folder is made.
    /// Credentials, regions and endpoints come from the environment, in the names that the
    /// providers' own tools use (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    ///
    /// # Errors
    /// If the URL is not understood, a setting is missing, or the folder cannot be made.
    pub fn open(url: &str) -> Result<Self, Error> {
        let failed = |place: &str, detail: String| Error::Io {
            place: place.to_owned(),
            detail,
        };
        if let Some(folder) = url.strip_prefix("file://") {
            std::fs::create_dir_all(folder).map_err(|error| failed(url, error.to_string()))?;
            let store = object_store::local::LocalFileSystem::new_with_prefix(folder)
                .map_err(|error| failed(url, error.to_string()))?
                .with_fsync(true);
            return Ok(Self {
                store: Arc::new(store),
                prefix: Path::default(),
                place: url.to_owned(),
            });
        }
        let form = "use file:///FOLDER, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or \
            az://CONTAINER/FOLDER; credentials come from the environment";
        let is_known = [
            "s3://", "s3a://", "gs://", "az://", "azure://", "abfs://", "abfss://",
        ];
        let has_login = url.contains('@') && !url.starts_with("abfs");
        if has_login || !is_known.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(failed("the address of the object store", form.into()));
        }
        let parsed = url
            .parse()
            .map_err(|_| failed("the address of the object store", form.into()))?;
        let settings = std::env::vars().filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let is_ours = ["aws_", "google_", "azure_"];
            let is_ours = is_ours.iter().any(|prefix| name.starts_with(prefix));
            is_ours.then_some((name, value))
        });
        let (store, prefix) = object_store::parse_url_opts(&parsed, settings)
            .map_err(|error| failed(url, error.to_string()))?;
        Ok(Self {
            store: store.into(),
            prefix,
            place: url.to_owned(),
        })
    }

    /// Stores a value; one that is there is replaced, which changes nothing as names are hashes.
    ///
    /// # Errors
    /// If the place cannot be written.
    pub async fn put(&self, name: &str, value: Bytes) -> Result<(), Error> {
        let path = self.path(name);
        let put = self.store.put(&path, PutPayload::from(value)).await;
        put.map(|_| ()).map_err(|error| self.failed(&error))
    }

    /// Returns a value, `None` if there is none.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let found = match self.store.get(&self.path(name)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let bytes = found.bytes().await;
        bytes.map(Some).map_err(|error| self.failed(&error))
    }

    /// Whether there is a value.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn has(&self, name: &str) -> Result<bool, Error> {
        match self.store.head(&self.path(name)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn path(&self, name: &str) -> Path {
        let mut path = self.prefix.clone();
        for part in name.split('/') {
            path = path.join(part.to_owned());
        }
        path
    }

    fn failed(&self, error: &object_store::Error) -> Error {
        Error::Io {
            place: self.place.clone(),
            detail: error.to_string(),
        }
    }
}
