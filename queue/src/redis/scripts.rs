//! The scripts, each with what they share in front.

use std::sync::LazyLock;

use super::script::Script;

macro_rules! script {
    ($name:ident, $flags:literal, $file:literal) => {
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(
                "#!lua",
                $flags,
                "\n",
                include_str!("scripts/common.lua"),
                include_str!(concat!("scripts/", $file))
            ))
        });
    };
}

// What frees memory, or keeps what was paid for, also runs when memory is short.
script!(SUBMIT, "", "submit.lua");
script!(LEASE, "", "lease.lua");
script!(FINISH, " flags=allow-oom", "finish.lua");
script!(RENEW, " flags=allow-oom", "renew.lua");
script!(CANCEL, " flags=allow-oom", "cancel.lua");
script!(CHECK, " flags=allow-oom", "check.lua");
script!(STATES, " flags=allow-oom", "states.lua");
script!(STATS, " flags=allow-oom", "stats.lua");
script!(ASKED, " flags=allow-oom", "asked.lua");
script!(RUNS, " flags=allow-oom", "runs.lua");
script!(DEAD, " flags=no-writes", "dead.lua");
script!(FITS, " flags=no-writes", "fits.lua");
script!(HELLO, " flags=allow-oom", "hello.lua");

/// Adds an event to a run's log; it shares nothing with the others.
pub(super) static APPEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/append.lua")));

/// Takes back the name of a result without content, also when memory is short; it shares nothing
/// with the others.
pub(super) static FORGET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        "#!lua flags=allow-oom\n",
        include_str!("scripts/forget.lua")
    ))
});
