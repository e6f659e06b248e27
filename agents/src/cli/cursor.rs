//! Cursor CLI, from its documented interface: `-p --output-format stream-json`, the prompt on
//! standard input, `cli-config.json` and the proxy variables of its network settings.
//!
//! It asks servers of its vendor through an interface of its own, so that no relay can stand
//! between: it is let out through a tunnel to named hosts.

use serde_json::json;

use super::copilot::with_skill;
use super::{Call, Cli, Errand, File, Needs, Range, Version, args, env};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const CURSOR: Cli = Cli {
    backend: "cursor_exec",
    program: "cursor-agent",
    package: "",
    tested: Range {
        first: Version(2026, 1, 28),
        last: Version(2026, 1, 28),
    },
    // Nothing looks at it: there is no relay.
    wire: Wire::Chat,
    is_direct: true,
    dialect: Dialect::Cursor,
    needs: Needs {
        memory_mib: 64,
        disk_mib: 16,
    },
    replaces: &[],
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "-p",
        "--output-format",
        "stream-json",
        "--trust",
        "--workspace",
        errand.work,
        "--sandbox",
        errand.setting("cursor_exec_sandbox").unwrap_or("enabled"),
    ]);
    // Where no file is wanted, none is to be changed.
    words.extend(match errand.wants_files {
        true => args(&["--force"]),
        false => args(&["--mode", "ask"]),
    });
    if !errand.model.is_empty() {
        words.extend(args(&["--model", errand.model]));
    }
    let tunnel = errand.url("");
    // Its streams go over HTTP/1.1: a tunnel is for one connection.
    let config = json!({
        "version": 1,
        "editor": {"vimMode": false},
        "permissions": {"allow": [], "deny": []},
        "network": {"useHttp1ForAgent": true},
    });
    let mut files = errand.skill_in(".cursor/skills");
    files.push(File::home(".cursor/cli-config.json", config.to_string()));
    Call {
        args: words,
        env: env(&[
            ("CURSOR_CONFIG_DIR", &format!("{}/.cursor", errand.home)),
            ("CURSOR_API_KEY", errand.key),
            ("HTTPS_PROXY", &tunnel),
            ("HTTP_PROXY", &tunnel),
            ("NODE_USE_ENV_PROXY", "1"),
            ("NO_OPEN_BROWSER", "1"),
        ]),
        stdin: with_skill(errand),
        files,
    }
}
