//! The worker's end of the line to init.

use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::Error;
use crate::wire::{Order, Spec, Word};

/// Waits for init's one call.
pub(crate) struct Waiting {
    listener: UnixListener,
    path: PathBuf,
}

impl Waiting {
    pub(crate) fn new(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("control");
        let listener = UnixListener::bind(&path).map_err(Error::io("listen at", &path))?;
        Ok(Self { listener, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// # Cancel safety
    /// May be dropped.
    pub(crate) async fn call(&self) -> std::io::Result<Control> {
        let (stream, _) = self.listener.accept().await?;
        let pid = stream.peer_cred()?.pid();
        let (reading, writing) = stream.into_split();
        Ok(Control {
            pid,
            words: BufReader::new(reading).lines(),
            writing: Some(writing),
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // The program finds nobody here.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The line to init.
pub(crate) struct Control {
    /// Init's process, as it is known here.
    pub(crate) pid: Option<i32>,
    words: Lines<BufReader<OwnedReadHalf>>,
    writing: Option<OwnedWriteHalf>,
}

impl Control {
    pub(crate) async fn send(&mut self, spec: &Spec) -> std::io::Result<()> {
        let text = serde_json::to_string(spec)?;
        self.write(text).await
    }

    /// Asks the program to end; it may be too late for that.
    pub(crate) async fn stop(&mut self) {
        if let Ok(text) = serde_json::to_string(&Order::Stop) {
            let _ = self.write(text).await;
        }
    }

    async fn write(&mut self, text: String) -> std::io::Result<()> {
        match &mut self.writing {
            Some(writing) => writing.write_all((text + "\n").as_bytes()).await,
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Returns what init says next; `None` if it is gone.
    ///
    /// # Cancel safety
    /// May be dropped: nothing is lost.
    pub(crate) async fn word(&mut self) -> Option<Word> {
        let line = self.words.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Cuts the lifeline: init ends everything.
    pub(crate) fn cut(&mut self) {
        self.writing = None;
    }
}
