//! opencode (exec-CLIs spec 6.1).

use serde_json::json;

use super::copilot::with_skill;
use super::{Call, Cli, Errand, File, Range, Version, args, env};
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
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let model = format!("relay/{}", errand.model);
    let config = json!({
        "provider": {"relay": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": errand.url("/v1"), "apiKey": errand.key},
            "models": {errand.model: {
                "tool_call": true, "limit": {"context": 128_000, "output": 16_384},
            }},
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
        ]),
        stdin: with_skill(errand),
        files,
    }
}
