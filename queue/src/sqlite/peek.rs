//! Looking at a run's log while another process may be writing it.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::open;
use super::read::Reader;
use crate::message::RunId;
use crate::store::Error;

/// Events read at a time.
const PAGE: usize = 256;

/// Returns the log of a run as it stands, without taking the file: for people who look on.
///
/// # Errors
/// The file is not there, or is none of ours.
pub fn peek_events(path: &Path, run: &RunId) -> Result<Vec<Bytes>, Error> {
    let place: Arc<str> = path.display().to_string().into();
    let reader = Reader::new(open::for_reading(path, &place)?, place);
    let mut events = Vec::new();
    loop {
        let page = reader.events(run, events.len() as u64, PAGE)?;
        if page.is_empty() {
            return Ok(events);
        }
        events.extend(page);
    }
}
