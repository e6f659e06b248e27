//! One prepared run: its folders, and the ports behind which its relays answer.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Error;
use crate::bubblewrap::{HOME, WORK};
use crate::level::Level;
use crate::limits::Limits;
use crate::shared::{Shared, make};
use crate::task::{Place, Relay};

/// The first port of the relays where the program has a network of its own: one that nobody expects
/// a server of the program's on.
const FIRST_PORT: u16 = 47_001;

/// The folders as the program sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Its home.
    pub home: PathBuf,
    /// Where it works.
    pub work: PathBuf,
    /// For temporary files.
    pub tmp: PathBuf,
}

/// One prepared run. Dropping it removes its folders, and ends whatever still runs in it.
#[derive(Debug)]
pub struct Room {
    pub(crate) shared: Arc<Shared>,
    pub(crate) folder: PathBuf,
    pub(crate) relays: Vec<Relay>,
    pub(crate) ports: Vec<u16>,
    /// Ports of the machine that are ours, where it has no network of its own.
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) limits: Limits,
}

impl Room {
    pub(crate) fn new(
        shared: Arc<Shared>,
        folder: PathBuf,
        relays: Vec<Relay>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let mut room = Self {
            shared,
            folder,
            relays,
            ports: Vec::new(),
            listeners: Vec::new(),
            limits,
        };
        make(&room.folder, false)?;
        for name in ["home", "work", "tmp"] {
            make(&room.folder.join(name), false)?;
        }
        for (count, _) in (0u16..).zip(&room.relays) {
            if room.shared.level == Level::Bubblewrap {
                room.ports.push(FIRST_PORT + count);
                continue;
            }
            let no_port = |e: std::io::Error| Error::Start(format!("no port for a relay: {e}"));
            let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(no_port)?;
            listener.set_nonblocking(true).map_err(no_port)?;
            room.ports
                .push(listener.local_addr().map_err(no_port)?.port());
            room.listeners.push(listener);
        }
        Ok(room)
    }

    /// Returns the folders as the program will see them.
    #[must_use]
    pub fn paths(&self) -> Paths {
        match self.shared.level {
            Level::Bubblewrap => Paths {
                home: HOME.into(),
                work: WORK.into(),
                tmp: "/tmp".into(),
            },
            Level::Landlock | Level::None => Paths {
                home: self.outside(Place::Home),
                work: self.outside(Place::Work),
                tmp: self.folder.join("tmp"),
            },
        }
    }

    /// Returns the ports of `127.0.0.1` behind which the relays answer, in their order.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns what the program sees of this run alone, paths and ports, each with what stands in its
    /// place where the program has namespaces of its own; nothing where it has them.
    #[must_use]
    pub fn of_this_run(&self) -> Vec<(String, String)> {
        if self.shared.level == Level::Bubblewrap {
            return Vec::new();
        }
        let Paths { home, work, tmp } = self.paths();
        let paths = [(home, HOME), (work, WORK), (tmp, "/tmp")];
        let paths = paths
            .into_iter()
            .map(|(path, usual)| (path.to_string_lossy().into_owned(), usual.to_owned()));
        let ports = (FIRST_PORT..).zip(&self.ports).flat_map(|(usual, port)| {
            ["127.0.0.1", "localhost"]
                .map(|host| (format!("{host}:{port}"), format!("{host}:{usual}")))
        });
        paths.chain(ports).collect()
    }

    pub(crate) fn outside(&self, place: Place) -> PathBuf {
        self.folder.join(match place {
            Place::Work => "work",
            Place::Home => "home",
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(cleaner) = &self.shared.cleaner {
            cleaner.remove(self.folder.clone());
        }
    }
}
