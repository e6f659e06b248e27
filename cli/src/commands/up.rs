//! `skillopt up`: a whole cluster on this machine, for trying it out.
//!
//! Redis, a coordinator and workers are children in process groups of their own, so that Ctrl-C
//! reaches this program alone, which then takes them down in order. A child is started through
//! `skillopt child`, which has the system kill it when this program is killed.

mod child;
mod redis;

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use skillopt_runtime::{Shutdown, files};
use tempfile::TempDir;

use crate::args::UpArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Out, Tone};
use crate::process;

use self::child::Child;

/// How long a part may take until it is ready.
const START: Duration = Duration::from_secs(30);
/// How long workers may finish what they have, and how long the others may take to end.
const WORKERS_END: Duration = Duration::from_secs(30);
const OTHERS_END: Duration = Duration::from_secs(10);
/// Time between two looks at the children.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &UpArgs, out: &Out) -> Result<Exit, Failure> {
    let shutdown = Shutdown::new();
    let told = {
        let out = out.clone();
        move |count: u32| match count {
            1 => out.note("stopping: workers finish what they have; Ctrl-C again stops at once"),
            _ => out.note("stopping at once"),
        }
    };
    is_free(args.listen)?;
    let place = Place::new(args)?;
    let work = async {
        let mut up = Up::default();
        let begun = tokio::select! {
            biased;
            begun = up.begin(args, &place, out) => begun,
            () = shutdown.drain.cancelled() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        let ended = match begun {
            Ok(()) => up.watch(&shutdown, out).await,
            Err(failure) => Err(failure),
        };
        // Without one of its parts nothing can be finished.
        up.end(ended.is_ok(), &shutdown).await;
        ended
    };
    let ended = process::block_on(&shutdown, told, work)?;
    place.leave(out, ended.is_err());
    ended.map(|()| Exit::Done)
}

/// Tells at once that the coordinator could not listen, most often because another cluster is up.
fn is_free(listen: SocketAddr) -> Result<(), Failure> {
    let bound = TcpListener::bind(listen).map(drop);
    bound.map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => Failure::usage(format!(
            "`{listen}` is in use already; is another `skillopt up` or coordinator running?"
        ))
        .hint("end that one, or choose another address: `--listen 127.0.0.1:0` takes a free port"),
        _ => Failure::usage(format!("cannot listen on `{listen}`: {e}"))
            .hint("choose another address with --listen"),
    })
}

/// Where files are.
struct Place {
    root: PathBuf,
    own: Option<TempDir>,
    /// Kept from others with this value: two of them would write one Redis's file.
    _lock: File,
}

impl Place {
    fn new(args: &UpArgs) -> Result<Self, Failure> {
        let (root, own) = match &args.dir {
            Some(dir) => (std::path::absolute(dir)?, None),
            None => {
                let dir = tempfile::Builder::new().prefix("skillopt-up-").tempdir()?;
                (dir.path().to_owned(), Some(dir))
            }
        };
        for part in ["redis", "logs", "scratch"] {
            files::create_dir_all(&root.join(part))?;
        }
        let lock = lock(&root)?;
        Ok(Self {
            root,
            own,
            _lock: lock,
        })
    }

    fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    /// Keeps the logs of a cluster that broke.
    fn leave(self, out: &Out, is_broken: bool) {
        if let Some(dir) = self.own
            && is_broken
        {
            let path = dir.keep();
            out.note(format!("logs are in {}", path.join("logs").display()));
        }
    }
}

/// Takes the folder for this process, and writes down which one that is.
fn lock(root: &Path) -> Result<File, Failure> {
    let path = root.join("lock");
    let cannot = |e| files::FileError::new("lock", &path, e);
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(cannot)?;
            write!(file, "{}", std::process::id()).map_err(cannot)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let holder = files::read_limited(&path, 64).unwrap_or_default();
            Err(Failure::usage(format!(
                "another `skillopt up` (process {}) uses `{}`",
                String::from_utf8_lossy(&holder),
                root.display()
            ))
            .hint("end that one, or name another folder with --dir"))
        }
        Err(TryLockError::Error(e)) => Err(cannot(e).into()),
    }
}

/// The children, in the order in which they were started.
#[derive(Default)]
struct Up {
    redis: Option<Child>,
    coordinator: Option<Child>,
    workers: Vec<Child>,
}

impl Up {
    async fn begin(&mut self, args: &UpArgs, place: &Place, out: &Out) -> Result<(), Failure> {
        let (redis, url) = redis::start(&args.redis_server, place).await?;
        self.redis = Some(redis);
        let env = [("SKILLOPT_REDIS_URL", url.as_str())];
        let listen = args.listen.to_string();
        let scratch = place.root.join("scratch").display().to_string();
        let command = [
            "coordinator",
            "--name",
            "coordinator",
            "--listen",
            &listen,
            "--scratch",
            &scratch,
        ];
        let coordinator = Child::ours("coordinator", &command, &env, &place.log("coordinator"))?;
        let coordinator = self.coordinator.insert(coordinator);
        coordinator.ready().await?;
        let address = coordinator.said("gRPC on ").ok_or_else(|| {
            Failure::new(
                Exit::Unexpected,
                "the coordinator does not say where it listens",
            )
        })?;
        let (slots, drain) = (args.slots.to_string(), WORKERS_END.as_secs().to_string());
        for n in 1..=args.workers {
            let name = format!("worker-{n}");
            let command = [
                "worker",
                "--name",
                &name,
                "--slots",
                &slots,
                "--drain-seconds",
                &drain,
            ];
            self.workers
                .push(Child::ours(&name, &command, &env, &place.log(&name))?);
        }
        for worker in &mut self.workers {
            worker.ready().await?;
        }
        tell(args, place, &address, out);
        Ok(())
    }

    /// Waits until somebody wants to stop, or too little is left to work with.
    async fn watch(&mut self, shutdown: &Shutdown, out: &Out) -> Result<(), Failure> {
        while !shutdown.drain.is_cancelled() {
            for child in self.redis.iter_mut().chain(&mut self.coordinator) {
                child.check()?;
            }
            self.see_workers(out)?;
            shutdown
                .drain
                .run_until_cancelled(tokio::time::sleep(LOOK))
                .await;
        }
        Ok(())
    }

    /// Lets workers go: one may be drained while the others work on.
    fn see_workers(&mut self, out: &Out) -> Result<(), Failure> {
        let mut at = 0;
        while let Some(worker) = self.workers.get_mut(at) {
            let Some(words) = worker.ended()? else {
                at += 1;
                continue;
            };
            self.workers.remove(at);
            match self.workers.len() {
                0 => {
                    return Err(Failure::new(
                        Exit::Unexpected,
                        format!("no worker is left: {words}"),
                    ));
                }
                1 => out.note(format!("{words}; 1 works on")),
                n => out.note(format!("{words}; {n} work on")),
            }
        }
        Ok(())
    }

    /// Takes all down: workers first, Redis last, as each needs those after it.
    async fn end(&mut self, is_patient: bool, shutdown: &Shutdown) {
        let [workers, others] = if is_patient {
            [WORKERS_END + OTHERS_END, OTHERS_END]
        } else {
            [Duration::ZERO; 2]
        };
        child::end(&mut self.workers, workers, shutdown).await;
        child::end(self.coordinator.as_mut_slice(), others, shutdown).await;
        child::end(self.redis.as_mut_slice(), others, shutdown).await;
    }
}

/// Says what to type next.
fn tell(args: &UpArgs, place: &Place, address: &str, out: &Out) {
    let logs = place.root.join("logs");
    if out.json {
        out.object(
            "up",
            json!({"coordinator": address, "workers": args.workers, "logs": logs}),
        );
        return;
    }
    out.line(format!(
        "a coordinator at {} and {} of {}; logs in {}",
        out.paint.of(Tone::Name, address),
        crate::output::words::plural(u64::from(args.workers), "worker"),
        args.slots,
        shown(&logs)
    ));
    out.line("in another terminal:");
    out.line(format!("  export SKILLOPT_COORDINATOR={address}"));
    out.line("  skillopt submit train CONFIG --out outputs/first --wait");
    out.line("  skillopt workers");
    out.line("Ctrl-C takes it down");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_of_one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path()).unwrap();
        let refused = lock(dir.path()).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        let own = format!("(process {})", std::process::id());
        let said = &refused.errors[0].message;
        assert!(said.contains(&own), "{said}");
        drop(first);
        lock(dir.path()).unwrap();
    }
}
