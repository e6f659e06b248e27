//! Claude Code CLI (exec-CLIs spec 5).

use super::{Call, Cli, Errand, Needs, Range, SKILL_NAME, Version, args};
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
    needs: Needs {
        memory_mib: 300,
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
    if let Some(tokens) = thinking(errand) {
        words.extend(["--max-thinking-tokens".to_owned(), tokens.to_string()]);
    }
    if let Some(name) = errand.setting("claude_code_exec_profile") {
        words.extend(args(&[
            "--append-system-prompt",
            &format!("Profile: {name}"),
        ]));
    }
    Call {
        args: words,
        env: errand.env(
            &[
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
            ],
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        ),
        // A slash and the skill's name puts its text into the first request.
        stdin: format!("/{SKILL_NAME} {}", errand.prompt),
        files: errand.skill_in(".claude/skills"),
    }
}

/// Most tokens of thinking where nobody says.
const THINKING: u64 = 16_384;
/// The interface takes no smaller number, but for none at all.
const THINKING_MIN: u64 = 1_024;

/// Returns the most tokens of thinking; `None` leaves it to the CLI.
fn thinking(errand: &Errand<'_>) -> Option<u64> {
    if let Some(tokens) = errand.settings.get("claude_code_exec_max_thinking_tokens") {
        return tokens.as_u64().filter(|tokens| *tokens > 0);
    }
    if errand.max_tokens == 0 {
        return Some(THINKING);
    }
    // Thoughts count as part of an answer: they must leave room for the rest of it.
    let half = u64::from(errand.max_tokens) / 2;
    match half < THINKING_MIN {
        true => Some(0),
        false => Some(half.min(THINKING)),
    }
}

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
