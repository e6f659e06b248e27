//! `simulated`: the model inside the program; made by the crate that simulates.

use skillopt_core::role::Role;

use crate::declare::{Declaration, Label, Work, describes_nothing};

/// What the program knows of `simulated`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "simulated",
    about: "a model inside the program: no key, no network",
    labels: &[Label {
        name: "simulated",
        aliases: &["sim"],
        optimizer: "simulated",
        target: "simulated",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |role| {
        Some(match role {
            Role::Optimizer => "sim-optimizer",
            Role::Target => "sim-target",
        })
    },
    timeout_seconds: None,
    keys: &[],
    describe: describes_nothing,
    connect: None,
};
