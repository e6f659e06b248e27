//! Inputs into the cluster and artefacts out of it.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use skillopt_core::Hash;
use skillopt_proto::v1::content_server::Content;
use skillopt_proto::v1::{self};
use skillopt_queue::store::BLOB_BYTES_MAX;
use tonic::{Request, Response, Status, Streaming};

use super::super::auth::Role;
use super::super::error::Error;
use super::{Desk, download, message};
use crate::sweep::{error as sweep, folder};

/// Blobs that are asked about in one call.
const HASHES_MAX: usize = 20_000;
/// Blobs of one upload.
const BLOBS_MAX: usize = 20_000;

#[tonic::async_trait]
impl Content for Desk {
    async fn missing(
        &self,
        request: Request<v1::MissingRequest>,
    ) -> Result<Response<v1::MissingResponse>, Status> {
        self.gate.admit(&request, Role::Submitter).await?;
        let asked = request.into_inner().hashes;
        if asked.len() > HASHES_MAX {
            let n = asked.len();
            let words = format!("{n} blobs are asked about, at most {HASHES_MAX} are allowed");
            return Err(Error::Invalid(words).into());
        }
        let hashes: Result<Vec<Hash>, Error> = asked
            .iter()
            .map(|hash| message::hash("blob", hash))
            .collect();
        let missing = self.parts.store.missing(&hashes?).await;
        let missing = missing.map_err(Error::from)?;
        Ok(Response::new(v1::MissingResponse {
            hashes: missing.iter().map(|h| h.as_bytes().to_vec()).collect(),
        }))
    }

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<v1::UploadResponse>, Status> {
        self.gate.admit(&request, Role::Submitter).await?;
        let mut stream = request.into_inner();
        let mut blob = BytesMut::new();
        let mut hashes = Vec::new();
        let mut room = self.uploads.room();
        while let Some(part) = self.uploads.in_time(stream.message()).await? {
            if blob.len() + part.chunk.len() > BLOB_BYTES_MAX {
                let words = format!("a blob has more than {BLOB_BYTES_MAX} bytes");
                return Err(Error::Invalid(words).into());
            }
            room.grow_to(blob.len() + part.chunk.len()).await?;
            blob.extend_from_slice(&part.chunk);
            if part.last {
                if hashes.len() >= BLOBS_MAX {
                    let words = format!("more than {BLOBS_MAX} blobs in one upload; make several");
                    return Err(Error::Invalid(words).into());
                }
                let whole: Bytes = std::mem::take(&mut blob).freeze();
                let hash = self.parts.store.put_blob(whole).await;
                hashes.push(hash.map_err(Error::from)?.as_bytes().to_vec());
                room.free();
            }
        }
        if !blob.is_empty() {
            let words = "the upload ended within a blob; what came of it is not kept";
            return Err(Error::Invalid(words.to_owned()).into());
        }
        Ok(Response::new(v1::UploadResponse { hashes }))
    }

    type DownloadStream = Pin<Box<dyn Stream<Item = Result<v1::DownloadResponse, Status>> + Send>>;

    async fn download(
        &self,
        request: Request<v1::DownloadRequest>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let asked = request.into_inner();
        match self.table.find(caller.limit(), &asked.id).await {
            Ok(stored) => {
                let files = download::files(self, &stored.run, &asked).await?;
                Ok(Response::new(Box::pin(files)))
            }
            // A sweep has an id of its own.
            Err(Error::NotFound(words)) => {
                let sweep = match self.sweeps.get(&(&caller).into(), &asked.id).await {
                    Err(sweep::Error::NotFound(_)) => return Err(Error::NotFound(words).into()),
                    found => found?,
                };
                let (results, observed) = self.sweeps.results(&sweep).await?;
                let files = folder::files(&results, &observed);
                let files = files.map_err(|e| Error::Internal(e.to_string()))?;
                let files = download::parts(files, &asked.only);
                Ok(Response::new(Box::pin(futures_util::stream::iter(files))))
            }
            Err(error) => Err(error.into()),
        }
    }
}
