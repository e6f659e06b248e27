//! Qwen Code (exec-CLIs spec 6.4).

use serde_json::json;

use super::copilot::with_skill;
use super::{Call, Cli, Errand, File, Needs, Range, Version, args};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const QWEN: Cli = Cli {
    backend: "qwen_code_exec",
    program: "qwen",
    package: "@qwen-code/qwen-code",
    tested: Range {
        first: Version(0, 15, 10),
        last: Version(0, 15, 10),
    },
    wire: Wire::Chat,
    is_direct: false,
    dialect: Dialect::Qwen,
    needs: Needs {
        memory_mib: 880,
        disk_mib: 16,
    },
    replaces: &[],
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut files = errand.skill_in(".agents/skills");
    if !errand.effort.is_empty() {
        // Its own setting of this kind is sent in a form that few servers know.
        let body = json!({"reasoning_effort": errand.effort});
        let settings = json!({"model": {"generationConfig": {"extra_body": body}}});
        files.push(File::home(".qwen/settings.json", settings.to_string()));
    }
    Call {
        args: args(&[
            "--auth-type",
            "openai",
            "-m",
            errand.model,
            "-o",
            "stream-json",
            "--yolo",
        ]),
        env: errand.env(
            &[
                ("OPENAI_API_KEY", errand.key),
                ("OPENAI_BASE_URL", &errand.url("/v1")),
                ("OPENAI_MODEL", errand.model),
            ],
            "QWEN_CODE_MAX_OUTPUT_TOKENS",
        ),
        stdin: with_skill(errand),
        files,
    }
}
