//! Gemini CLI (exec-CLIs spec 6.3).

use serde_json::{Map, Value, json};
use skillopt_backends::agents::gemini_thinking;

use super::copilot::with_skill;
use super::{Call, Cli, Errand, File, Needs, Range, Version, args, env};
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
    needs: Needs {
        memory_mib: 380,
        disk_mib: 16,
    },
    replaces: REPLACES,
    call,
};

/// It asks a key's owner for the newest of a line.
const REPLACES: &[(&str, &str)] = &[
    ("auto", "gemini-3.1-pro-preview"),
    ("pro", "gemini-3.1-pro-preview"),
    ("flash", "gemini-3.8-flash"),
    ("flash-lite", "gemini-3.5-flash-lite"),
    ("gemini-3-pro-preview", "gemini-3.1-pro-preview"),
    ("gemini-3-flash", "gemini-3.8-flash"),
    ("gemini-3.5-flash", "gemini-3.8-flash"),
    ("gemini-3.1-flash-lite", "gemini-3.5-flash-lite"),
];

fn call(errand: &Errand<'_>) -> Call {
    let mut settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
    });
    let said = said(errand);
    if !said.is_empty() {
        settings["modelConfigs"] = json!({"customOverrides": [
            {"match": {"model": errand.model}, "modelConfig": {"generateContentConfig": said}},
        ]});
    }
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

/// Returns what is said of an answer beside what the program says of it.
fn said(errand: &Errand<'_>) -> Map<String, Value> {
    let mut said = Map::new();
    if errand.max_tokens > 0 {
        said.insert("maxOutputTokens".to_owned(), errand.max_tokens.into());
    }
    if let Some(thinking) = gemini_thinking(errand.model, errand.effort) {
        said.insert("thinkingConfig".to_owned(), thinking);
    }
    said
}
