//! GitHub Copilot CLI with a provider of our own (exec-CLIs spec 6.2): no login is needed.

use super::{Call, Cli, Errand, Needs, Range, Version, args, escaped};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const COPILOT: Cli = Cli {
    backend: "copilot_exec",
    program: "copilot",
    package: "@github/copilot",
    tested: Range {
        first: Version(1, 0, 102),
        last: Version(1, 0, 102),
    },
    wire: Wire::Chat,
    is_direct: false,
    dialect: Dialect::Copilot,
    needs: Needs {
        memory_mib: 360,
        disk_mib: 300,
    },
    replaces: &[],
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "--output-format",
        "json",
        "--stream",
        "off",
        "--no-color",
        "--log-level",
        "none",
        "--disable-builtin-mcps",
        "--no-custom-instructions",
    ]);
    // Without it every tool is refused, for nobody is there to be asked.
    if errand.setting("copilot_exec_allow_all_tools") != Some("false") {
        words.push("--allow-all-tools".to_owned());
    }
    if !errand.effort.is_empty() {
        words.extend(args(&["--reasoning-effort", errand.effort]));
    }
    Call {
        args: words,
        env: errand.env(
            &[
                ("COPILOT_HOME", &format!("{}/.copilot", errand.home)),
                ("COPILOT_OFFLINE", "true"),
                ("COPILOT_AUTO_UPDATE", "false"),
                ("COPILOT_PROVIDER_BASE_URL", &errand.url("/v1")),
                ("COPILOT_PROVIDER_API_KEY", errand.key),
                ("COPILOT_MODEL", errand.model),
            ],
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
        ),
        stdin: with_skill(errand),
        files: errand.skill_in(".agents/skills"),
    }
}

/// A CLI that offers skills through a tool uses them if the model wishes; the words say that it
/// should.
pub(super) fn with_skill(errand: &Errand<'_>) -> String {
    format!(
        "First load the skill `{}` with your skill tool and follow it.\n\n{}",
        super::SKILL_NAME,
        escaped(errand.prompt)
    )
}
