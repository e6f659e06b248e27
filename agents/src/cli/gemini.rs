//! Gemini CLI (exec-CLIs spec 6.3).

use serde_json::json;

use super::copilot::with_skill;
use super::{Call, Cli, Errand, File, Range, Version, args, env};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const GEMINI: Cli = Cli {
    backend: "gemini_exec",
    program: "gemini",
    package: "@google/gemini-cli",
    tested: Range {
        first: Version(0, 61, 0),
        last: Version(0, 61, 0),
    },
    wire: Wire::Gemini,
    is_direct: false,
    dialect: Dialect::Gemini,
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
    });
    let mut files = errand.skill_in(".agents/skills");
    files.push(File::home(".gemini/settings.json", settings.to_string()));
    Call {
        args: args(&[
            "--skip-trust",
            "-o",
            "stream-json",
            "-m",
            errand.model,
            "--approval-mode",
            "yolo",
        ]),
        env: env(&[
            ("GEMINI_API_KEY", errand.key),
            ("GOOGLE_GEMINI_BASE_URL", &errand.url("")),
        ]),
        stdin: with_skill(errand),
        files,
    }
}
