//! Writes the folders of rollout stages beside the run: nothing waits for a slow disk, except for
//! room, and at the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;
use serde_json::value::RawValue;
use skillopt_core::job::RolloutRecord;
use skillopt_runtime::files::FileError;
use tokio::sync::mpsc;

use crate::folder::{RunFolder, StageWriter};
use crate::halt::Halt;

/// Batches of items that may wait to be written.
const WAITING_MAX: usize = 3;

/// One thing to write.
pub(super) enum Page {
    /// The folders of some items, by their safe names.
    Items(Arc<StageWriter>, Vec<(String, Arc<RolloutRecord>)>),
    /// The rows of a stage, in order.
    Rows(Arc<StageWriter>, Vec<Box<RawValue>>),
    /// A stage that is complete and may be seen.
    Show(Arc<StageWriter>),
    /// A further file of a stage, by its path; it must come after the stage is shown.
    Note(RunFolder, String, Value),
}

impl Page {
    fn write(self) -> Result<(), FileError> {
        match self {
            Self::Items(writer, items) => items
                .iter()
                .try_for_each(|(name, record)| writer.prediction(name, record)),
            Self::Note(folder, path, value) => folder.json(&path, &value),
            Self::Rows(writer, rows) => writer.rows(rows.iter().map(|row| row.get().as_bytes())),
            Self::Show(writer) => writer.show(),
        }
    }
}

/// The thread that writes, and the way to it.
pub(super) struct Scribe {
    pages: Mutex<Option<mpsc::Sender<Page>>>,
    thread: Mutex<Option<JoinHandle<Result<(), FileError>>>>,
}

impl Scribe {
    pub(super) fn start() -> Self {
        let (pages, mut inbox) = mpsc::channel::<Page>(WAITING_MAX);
        let thread = std::thread::Builder::new().name("folder writer".into());
        let write = move || {
            while let Some(page) = inbox.blocking_recv() {
                page.write()?;
            }
            Ok(())
        };
        // Without a thread every page is refused, and the run pauses with that.
        let thread = thread.spawn(write).ok();
        Self {
            pages: Mutex::new(Some(pages)),
            thread: Mutex::new(thread),
        }
    }

    /// Hands a page over; waits while too many are not written yet.
    pub(super) async fn write(&self, page: Page) -> Result<(), Halt> {
        let pages = self
            .pages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let is_taken = match pages {
            Some(pages) => pages.send(page).await.is_ok(),
            None => false,
        };
        if is_taken { Ok(()) } else { Err(self.cause()) }
    }

    /// Waits until everything is written.
    pub(super) fn close(&self) -> Result<(), Halt> {
        drop(
            self.pages
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        match self.join() {
            Some(Ok(Ok(()))) | None => Ok(()),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(_)) => Err(fault()),
        }
    }

    /// Why pages are refused: the thread has ended with an error, or could not be started.
    fn cause(&self) -> Halt {
        match self.join() {
            Some(Ok(Err(error))) => error.into(),
            _ => fault(),
        }
    }

    fn join(&self) -> Option<std::thread::Result<Result<(), FileError>>> {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        thread.map(JoinHandle::join)
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        // Whoever wants to know has called `close`.
        drop(self.close());
    }
}

fn fault() -> Halt {
    Halt::infrastructure("the run folder cannot be written any more")
}
