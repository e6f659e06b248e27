//! A fake CLI: a shell script that tells what it was started with, may ask its model something, and
//! says what it was told to say.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::script::{Run, Step};

/// What it saw comes first on standard error, between two marks: files of its folder are not
/// collected unless the task wants them.
const SCRIPT: &str = r#"#!/bin/bash
# It is of no release.
[ "$*" = --version ] && exit 1
seen=$(mktemp -d)
for arg in "$@"; do printf '%s\0' "$arg"; done > "$seen/argv"
env -0 > "$seen/env"
pwd > "$seen/cwd"
cat > "$seen/stdin"
mkdir "$seen/work" "$seen/home"
cp -r . "$seen/work"
work=$PWD
(cd "$HOME" && find . -path "./${work#"$HOME"/}" -prune -o -type f -size -64k -exec cp --parents {} "$seen/home" \;)
for path in @HIDDEN@; do [ -e "$path" ] && printf '%s\0' "$path"; done > "$seen/visible"
printf '%s\n' '@BEGIN@' >&2
(cd "$seen" && find . -type f -print0 | while IFS= read -r -d '' file; do
  printf '%s\t' "${file#./}"; base64 -w0 "$file"; printf '\n'
done) >&2
# What comes after is what the case says, far from what was seen.
printf '%s\n%600s\n' '@END@' '' >&2
port=$(cat "$seen/env" "$seen/home"/.codex/config.toml 2>/dev/null | grep -ao '127.0.0.1:[0-9]*' | head -n1 | cut -d: -f2)
key=$(grep -arho 'sk-relay-[0-9a-f]*-worth-nothing' "$seen/env" "$seen/home" | head -n1)
if [ -n '@PATH@' ]; then
  body='@BODY@'
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'POST @PATH@ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' "$key" "${#body}" "$body" >&3
  cat <&3 > /dev/null
fi
[ -n '@TOOL@' ] && './@TOOL@' > /dev/null
cat <<'@END@'
@STDOUT@@END@
cat >&2 <<'@END@'
@STDERR@@END@
[ -n '@STAYS@' ] && exec sleep 1000
exit @CODE@
"#;
const BEGIN: &str = "----- seen begins";
const END: &str = "----- seen ends";

/// The programs of a case.
pub(super) struct Fake {
    folder: tempfile::TempDir,
}

/// What one run of a program looked like.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: String,
    pub(super) stdin: String,
    /// What lay in its folder, by path.
    pub(super) work: BTreeMap<String, Vec<u8>>,
    /// What lay in its home.
    pub(super) home: BTreeMap<String, Vec<u8>>,
    /// What it could see of what it should not.
    pub(super) visible: Vec<String>,
}

impl Fake {
    pub(super) fn new() -> io::Result<Self> {
        let fake = Self {
            folder: tempfile::tempdir()?,
        };
        // They are there from the beginning, and do nothing.
        fake.prepare(&Run::of("", &serde_json::Value::Null), &[], None)?;
        Ok(fake)
    }

    /// Returns the folder of the programs.
    pub(super) fn bin(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the programs do `run` when they are started next. `hidden` is what they try to see,
    /// `ask` the path and body of what they ask their model.
    pub(super) fn prepare(
        &self,
        run: &Run,
        hidden: &[PathBuf],
        ask: Option<(&str, &str)>,
    ) -> io::Result<()> {
        let hidden: Vec<String> = hidden
            .iter()
            .map(|path| format!("'{}'", path.display()))
            .collect();
        let (path, body) = ask
            .filter(|_| matches!(run.step, Step::Says { .. }))
            .unwrap_or_default();
        let stays = if run.step == Step::Stays { "yes" } else { "" };
        let script = SCRIPT
            .replace("@HIDDEN@", &hidden.join(" "))
            .replace("@BEGIN@", BEGIN)
            .replace("@END@", END)
            .replace("@PATH@", path)
            .replace("@BODY@", body)
            .replace("@STAYS@", stays)
            .replace("@TOOL@", &run.tool)
            .replace("@CODE@", &run.exit_code.to_string())
            // What the case says comes last: nothing in it is filled in.
            .replace("@STDOUT@", &whole_lines(&run.stdout))
            .replace("@STDERR@", &whole_lines(&run.stderr));
        for name in ["codex", "claude", "copilot", "cursor-agent"] {
            let path = self.folder.path().join(name);
            std::fs::write(&path, &script)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}

fn whole_lines(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('\n') => text.to_owned(),
        text => format!("{text}\n"),
    }
}

impl Seen {
    /// Reads what a run told; `None` if it did not come to the end of it.
    pub(super) fn read(stderr: &str) -> Option<Self> {
        let (_, after) = stderr.split_once(BEGIN)?;
        let (told, _) = after.split_once(END)?;
        let mut seen = Self::default();
        let files: BTreeMap<String, Vec<u8>> = told
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(name, content)| (name.to_owned(), decoded(content).unwrap_or_default()))
            .collect();
        let zeros = |bytes: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let parts = text.split_terminator('\0');
            parts.map(str::to_owned).collect()
        };
        for (name, bytes) in files {
            let text = || String::from_utf8_lossy(&bytes).into_owned();
            match name.split_once('/') {
                Some(("work", path)) => _ = seen.work.insert(path.to_owned(), bytes),
                Some(("home", path)) => _ = seen.home.insert(path.to_owned(), bytes),
                _ => match name.as_str() {
                    "argv" => seen.argv = zeros(&bytes),
                    "visible" => seen.visible = zeros(&bytes),
                    "env" => {
                        let pairs = zeros(&bytes);
                        let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
                        seen.env = pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
                    }
                    "cwd" => seen.cwd = text().trim().to_owned(),
                    "stdin" => seen.stdin = text(),
                    _ => {}
                },
            }
        }
        Some(seen)
    }

    /// Returns a file of its folder as text.
    pub(super) fn file(&self, path: &str) -> Option<String> {
        let bytes = self.work.get(path)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Reads base64.
fn decoded(line: &str) -> Option<Vec<u8>> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let body = line.trim_end_matches('=');
    for group in body.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            let value = LETTERS.iter().position(|known| known == letter)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bits <<= 6 * (4 - group.len());
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_tells_is_read() {
        assert_eq!(decoded("aGFsbG8=").as_deref(), Some(&b"hallo"[..]));
        assert_eq!(decoded("YQ==").as_deref(), Some(&b"a"[..]));
        assert_eq!(decoded("a.b="), None);
        let told =
            format!("noise\n{BEGIN}\nargv\tYQBiAA==\nwork/empty\t\nstdin\taGFsbG8=\n{END}\nrest");
        let seen = Seen::read(&told).unwrap();
        assert_eq!(seen.argv, ["a", "b"]);
        assert_eq!(seen.stdin, "hallo");
        assert_eq!(seen.file("empty").as_deref(), Some(""));
        assert!(Seen::read("nothing").is_none());
    }
}
