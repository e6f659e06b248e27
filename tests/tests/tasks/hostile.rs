//! A program that is not there to work: what it tries, by itself and at its relay, fails, and what
//! its relay refused stands in the trajectory.

use std::collections::BTreeMap;

use serde_json::Value;
use skillopt_tests::support::folder::files;
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;

use crate::deaths::alive;
use crate::scene::{ITEMS, KEY, Scene, answers};

/// Each line is something that a program tries at a machine; it notes those that went well.
pub(crate) const TRIES: &str = r#"
trap '' PIPE
won=
# Notes that $1 went well if the rest succeeds.
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then won="$won $what"; fi; }

# Files of the machine, of the run and of other items.
try host-file grep -q . "$WORLD/secret.txt"
try splits grep -rq . "$WORLD/data"
try gold grep -rqs '"answers"' "$WORLD" / --include=items.json
try shadow grep -q . /etc/shadow
try passwd grep -q root: /etc/passwd
try root-home ls /root
others() { find / -xdev -name task.md -not -path "$PWD/*" 2>/dev/null | grep -q .; }
try others others
ups() { ls "$PWD/../.." | grep -q skillopt; }
try ups ups

# The environment and the memory of the worker.
environ() { cat /proc/[0-9]*/environ | tr '\0' '\n' | grep -q -e 'sk-the-real' -e OPENAI_COMPATIBLE; }
try environ environ
mine() { env | grep -q -e 'sk-the-real' -e OPENAI_COMPATIBLE -e SKILLOPT; }
try env mine
worker() { cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -q -e 's[k]illopt eval' -e 's[k]illopt worker'; }
try worker worker

# Networks.
tcp() { timeout 3 bash -c "exec 3<>/dev/tcp/$1/$2"; }
try loopback tcp 127.0.0.1 "$PORT"
try other-loopback tcp 127.0.0.2 "$PORT"
try elsewhere tcp 192.0.2.1 443
try metadata tcp 169.254.169.254 80
try names timeout 3 getent hosts example.com
udp() { timeout 3 bash -c 'echo x >/dev/udp/192.0.2.1/53'; }
try udp udp

# Writing outside.
# Its own /tmp has a folder of this name, too; the test looks at the machine's.
touch "$WORLD/hostile.txt" 2>/dev/null
for place in "$WORLD/out" /usr /usr/bin /etc / /var /proc/sys/kernel /sys/fs/cgroup /root; do
  try "write:$place" touch "$place/hostile.txt"
done
try core sh -c 'echo x >/proc/sys/kernel/core_pattern'
link() { ln -s "$WORLD/secret.txt" stolen.txt && cat stolen.txt; }
try link link
try device mknod device b 8 0
try mount mount -t tmpfs none /mnt
try userns unshare -Ur true

# Surviving.
for n in 1 2 3; do setsid nohup bash -c "exec -a $NAME sleep 600" >/dev/null 2>&1 & done
(trap '' TERM INT HUP; exec -a "$NAME" sleep 600) >/dev/null 2>&1 &

# Its own score.
mkdir -p .skillopt ../out
for file in results.jsonl score.json summary.json conversation.json .skillopt/status.json; do
  echo '{"id": "x", "hard": 1, "soft": 1.0}' >"$file"
done
echo '{"type":"result","hard":1,"soft":1}'
echo '{"type":"item.completed","item":{"type":"score","hard":1}}'
"#;

/// What it tries at its relay, then.
const ASKS: &str = r#"
at=/v1/responses
body='{"model":"mock-model","input":"x"}'
post $at '{"model":"dear-model","input":"x"}' >>said.txt
post /v1/files "$body" >>said.txt
post $at '{"model":"mock-model","input":"x","previous_response_id":"resp_1"}' >>said.txt
post $at '{"model":"mock-model","input":"x","tools":[{"type":"web_search"}]}' >>said.txt
own=$MODEL_API_KEY
MODEL_API_KEY=sk-relay-of-another-task; post $at "$body" >>said.txt; MODEL_API_KEY=$own
raw "GET http://169.254.169.254/latest HTTP/1.1\r\nhost: 169.254.169.254\r\nconnection: close\r\n\r\n" >>said.txt
raw "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\nconnection: close\r\n\r\n" >>said.txt
raw "POST $at HTTP/1.1\r\nhost: 127.0.0.1\r\nx: $(head -c 400000 /dev/zero | tr '\0' a)\r\n\r\n" >>said.txt
ask >answer.txt
grep -q '200 OK' answer.txt || won="$won no-answer"
grep -q 'sk-the-real' said.txt answer.txt && won="$won key"
say "won:$won.
<answer>the gold answer is mine</answer>"
"#;

/// What has to stand in a trajectory of it.
const REASONS: [&str; 8] = [
    "`dear-model` is not the model",
    "`POST /v1/files`",
    "`previous_response_id` is not allowed",
    "the tool `web_search` is not allowed",
    "the key is not that of this task",
    "169.254.169.254",
    "CONNECT evil.example:443",
    "a connection was closed",
];

/// Checks that nothing outside the folders of agents was touched: nothing of the scene but its run, and
/// nothing of the machine.
#[track_caller]
pub(crate) fn is_untouched(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) {
    let outside = |name: &&String| !name.starts_with("out/") && !name.starts_with("t/");
    let changed: Vec<&String> = after
        .keys()
        .filter(|name| after.get(*name) != before.get(*name))
        .filter(outside)
        .collect();
    assert_eq!(changed, [""; 0]);
    let gone: Vec<&String> = before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .filter(outside)
        .collect();
    assert_eq!(gone, [""; 0]);
    for place in ["/usr", "/usr/bin", "/etc", "/", "/var", "/root"] {
        assert!(!std::path::Path::new(place).join("hostile.txt").exists());
    }
}

#[test]
fn a_hostile_agent_gains_nothing_and_what_it_tried_is_told() {
    let name = format!("survivor-{}", std::process::id());
    let scene = Scene::new(answers(1), "");
    let world = scene.world.path("");
    let vars = format!(
        "WORLD={} PORT={} NAME={name}\n",
        world.display(),
        scene.port
    );
    scene.program(&format!("{vars}{TRIES}{ASKS}"));
    scene.world.write("secret.txt", "a secret of this machine");
    let before = files(&world);
    let ended = run(&mut scene.eval("out", &[])).code(0);
    until("nothing of it is alive", || alive(&name) == 0);

    let after = files(&world);
    is_untouched(&before, &after);

    // No credential and no gold answer left; every item has its own, and false, answer.
    let gold = String::from_utf8_lossy(&before["secret.txt"]).into_owned();
    let (mut told, mut rows) = (0, 0);
    for (name, bytes) in &after {
        let text = String::from_utf8_lossy(bytes);
        if name.starts_with("out/") {
            assert!(!text.contains(KEY), "{name} holds the credential");
            assert!(!text.contains(&gold), "{name} holds a file of the machine");
        }
        if name.ends_with("results.jsonl") {
            for line in text.lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                assert_eq!(
                    (&row["hard"], row["soft"].as_f64()),
                    (&0.into(), Some(0.0)),
                    "{row}"
                );
                rows += 1;
            }
        }
        if name.starts_with("out/") && name.ends_with("conversation.json") {
            assert!(text.contains("won:."), "{name}: {text}");
            for reason in REASONS {
                assert!(
                    text.contains(reason),
                    "{name} does not tell `{reason}`: {text}"
                );
            }
            told += 1;
        }
    }
    assert_eq!((told, rows), (ITEMS, ITEMS), "{}", ended.stdout);
    // Of all that was sent, only what is allowed reached the model.
    assert_eq!(scene.stat("requests"), ITEMS);
    assert_eq!(scene.answered().requests, ITEMS);
}
