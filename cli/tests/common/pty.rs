//! The program on a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::Place;

/// Nothing that is waited for takes so long, even on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal of its own, made by `script`, in which a shell notes the terminal's modes before
/// and after the command.
pub(crate) struct Pty {
    child: Child,
    keys: ChildStdin,
    news: mpsc::Receiver<u8>,
    seen: String,
}

impl Pty {
    pub(crate) fn start(place: &Place, args: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_skillopt");
        let inner = format!("echo $$ > pid; exec {program} {args}");
        let script = format!(
            "stty rows 24 cols 90; stty -a > before; sh -c '{inner}'; echo code=$?; stty -a > after"
        );
        let mut child = Command::new("script")
            .args(["-qfec", &script, "typescript"])
            .current_dir(place.path(""))
            .env_remove("SKILLOPT_COORDINATOR")
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = child.stdin.take().unwrap();
        let mut out = child.stdout.take().unwrap();
        let (tell, news) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut buffer) {
                if buffer[..n].iter().any(|b| tell.send(*b).is_err()) {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            news,
            seen: String::new(),
        }
    }

    /// Waits until the screen has been told `text`, a word: blanks that are there are not told
    /// again.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) {
        let mut bytes = std::mem::take(&mut self.seen).into_bytes();
        loop {
            let seen = String::from_utf8_lossy(&bytes);
            if seen.contains(text) {
                self.seen = seen.into_owned();
                return;
            }
            match self.news.recv_timeout(PATIENCE) {
                Ok(byte) => bytes.push(byte),
                Err(_) => panic!("no {text:?} in {seen}"),
            }
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Checks that the command ended with `code` and left the terminal as it was; returns what
    /// stands below, in the scrollback.
    #[track_caller]
    pub(crate) fn ended(mut self, place: &Place, code: i32) -> String {
        self.until(&format!("code={code}"));
        drop(self.keys);
        assert!(self.child.wait().unwrap().success());
        let modes = place.read("before");
        assert!(
            modes.contains(" icanon") && modes.contains(" echo "),
            "{modes}"
        );
        assert_eq!(modes, place.read("after"));
        let (screen, below) = self.seen.rsplit_once("\x1b[?1049l").unwrap();
        assert!(screen.contains("\x1b[?1049h"), "a screen of its own");
        assert!(self.seen.contains("\x1b[?25h"), "the cursor is back");
        below.to_owned()
    }
}
