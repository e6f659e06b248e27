//! Qwen Code (exec-CLIs spec 6.4).

use super::copilot::with_skill;
use super::{Call, Cli, Errand, Range, Version, args, env};
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
    call,
};

fn call(errand: &Errand<'_>) -> Call {
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
        env: env(&[
            ("OPENAI_API_KEY", errand.key),
            ("OPENAI_BASE_URL", &errand.url("/v1")),
            ("OPENAI_MODEL", errand.model),
        ]),
        stdin: with_skill(errand),
        files: errand.skill_in(".agents/skills"),
    }
}
