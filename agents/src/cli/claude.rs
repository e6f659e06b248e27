//! Claude Code CLI (exec-CLIs spec 5).

use serde_json::Value;

use super::{Call, Cli, Errand, Range, SKILL_NAME, Version, args, env};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const CLAUDE: Cli = Cli {
    backend: "claude_code_exec",
    program: "claude",
    package: "@anthropic-ai/claude-code",
    tested: Range {
        first: Version(2, 1, 197),
        last: Version(2, 1, 197),
    },
    wire: Wire::Messages,
    is_direct: false,
    dialect: Dialect::Claude,
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--no-session-persistence",
        "--model",
        errand.model,
        "--permission-mode",
        "bypassPermissions",
        // Settings of whoever runs the worker must not lead the agent.
        "--setting-sources",
        "project",
        "--strict-mcp-config",
    ]);
    if let Some(effort) = effort(errand.effort) {
        words.extend(args(&["--effort", effort]));
    }
    let thinking = errand.settings.get("claude_code_exec_max_thinking_tokens");
    let thinking = thinking.map_or(Some(THINKING), Value::as_u64);
    if let Some(tokens) = thinking.filter(|n| *n > 0) {
        words.extend(["--max-thinking-tokens".to_owned(), tokens.to_string()]);
    }
    if let Some(name) = errand.setting("claude_code_exec_profile") {
        words.extend(args(&[
            "--append-system-prompt",
            &format!("Profile: {name}"),
        ]));
    }
    let mut variables = env(&[
        ("CLAUDE_CONFIG_DIR", &format!("{}/.claude", errand.home)),
        ("ANTHROPIC_BASE_URL", &errand.url("")),
        ("ANTHROPIC_API_KEY", errand.key),
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // The relay tries again; the CLI would for minutes.
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ("API_TIMEOUT_MS", "600000"),
        // Root inside the sandbox is nobody outside.
        ("IS_SANDBOX", "1"),
    ]);
    if errand.max_tokens > 0 {
        variables.insert(
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS".to_owned(),
            errand.max_tokens.to_string(),
        );
    }
    Call {
        args: words,
        env: variables,
        // A slash and the skill's name puts its text into the first request.
        stdin: format!("/{SKILL_NAME} {}", errand.prompt),
        files: errand.skill_in(".claude/skills"),
    }
}

/// Most tokens of thinking where nobody says.
const THINKING: u64 = 16_384;

/// Returns how hard the model thinks in a word that the CLI knows; `None` leaves it to the CLI.
fn effort(word: &str) -> Option<&'static str> {
    Some(match word.trim().to_lowercase().as_str() {
        "none" | "off" => return None,
        "minimal" | "low" => "low",
        "high" => "high",
        "xhigh" | "max" => "max",
        _ => "medium",
    })
}
