//! opencode (exec-CLIs spec 6.1).

use serde_json::json;

use super::copilot::with_skill;
use super::{Call, Cli, Errand, File, Needs, Range, Version, args, env};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const OPENCODE: Cli = Cli {
    backend: "opencode_exec",
    program: "opencode",
    package: "opencode-ai",
    tested: Range {
        first: Version(1, 18, 33),
        last: Version(1, 18, 33),
    },
    wire: Wire::Chat,
    is_direct: false,
    dialect: Dialect::Opencode,
    needs: Needs {
        memory_mib: 630,
        disk_mib: 64,
    },
    replaces: &[],
    call,
};

/// Most tokens of one answer where nobody says.
const ANSWER_TOKENS: u32 = 16_384;

fn call(errand: &Errand<'_>) -> Call {
    let model = format!("relay/{}", errand.model);
    let limit = match errand.max_tokens {
        0 => ANSWER_TOKENS,
        limit => limit,
    };
    let mut known = json!({
        "tool_call": true, "limit": {"context": 128_000, "output": limit},
    });
    if !errand.effort.is_empty() {
        known["options"] = json!({"reasoningEffort": errand.effort});
    }
    let config = json!({
        "provider": {"relay": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": errand.url("/v1"), "apiKey": errand.key},
            "models": {errand.model: known},
        }},
        "model": model,
        "small_model": model,
        "autoupdate": false,
        "share": "disabled",
    });
    let mut files = errand.skill_in(".agents/skills");
    files.push(File::home(
        ".config/opencode/opencode.json",
        config.to_string(),
    ));
    Call {
        args: args(&[
            "run",
            "--format",
            "json",
            "--model",
            &model,
            "--dir",
            errand.work,
        ]),
        env: env(&[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
            // Else it asks for no more than a number of its own.
            ("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", &limit.to_string()),
        ]),
        stdin: with_skill(errand),
        files,
    }
}
