//! The reference page of all keys, made from the same tables that read them.

use std::fmt::Write as _;

use crate::backend_keys::{BackendKey, backend_keys};
use crate::check::SIM_SETTINGS;
use crate::flat::{BENCHMARK_KEYS, SECTIONS};
use crate::key::{Key, Kind};
use crate::retired::RETIRED;
use crate::run_config::KEYS;
use skillopt_backends::registry;

const INTRO: &str = "\
<!-- Generated from the tables of the `config` crate; do not edit. -->

# Configuration

A configuration is a YAML 1.1 file. Keys stand in sections (`train.batch_size`) or, in the older
flat layout, at the top under their flat name. `_base_: PATH` names one file to build on, relative
to the file's own folder: mappings are merged, everything else is replaced.

Order, the last wins: shipped default, files, `--set key=value` in the order given, flags of their
own. `null` means *not set*. An unknown key in a section is an error; at the top it is passed
through with a warning; in `env` it goes to the benchmark. `skillopt config show --origin` tells
where each value came from.

YAML 1.1 has traps: `yes`, `no`, `on` and `off` are truth values, `010` is 8, `1e3` is text (write
`1.0e+3`), and an unquoted `2:1:7` is a number. Quote what is meant as text.

Files larger than 1 MiB, nested deeper than 64 levels or holding more than 20,000 values are
refused. Credentials (names that end in `api_key`, `token`, `secret` or `password`) are never shown
nor written; give them in the environment.

*Result* says whether a change may change what a run computes; the other keys only change how fast
or where it runs, and may be changed when a run is resumed.
";

/// Returns the page as Markdown.
#[must_use]
pub fn reference_page() -> String {
    let mut page = INTRO.to_owned();
    for section in SECTIONS {
        let _ = write!(page, "\n## {section}\n\n");
        page.push_str("| key | flat name | values | default | flag | result | meaning |\n");
        page.push_str("|---|---|---|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.section() == *section) {
            row(&mut page, key);
        }
    }
    benchmark_part(&mut page);
    backend_part(&mut page);
    page.push_str(
        "\n## Retired keys\n\nAccepted with a warning.\n\n| key | what to do |\n|---|---|\n",
    );
    for (path, _, why) in RETIRED {
        let _ = writeln!(page, "| `{path}` | {why} |");
    }
    page
}

fn row(page: &mut String, key: &Key) {
    let flat = if key.name == key.inner() {
        String::new()
    } else {
        format!("`{}`", key.name)
    };
    let flag = match key.name {
        _ if !key.usage.flag => String::new(),
        "model_backend" => "`--backend`".to_owned(),
        name => format!("`--{name}`"),
    };
    let default = match (key.default)() {
        serde_json::Value::Null => "unset".to_owned(),
        value => format!("`{value}`"),
    };
    let _ = writeln!(
        page,
        "| `{}` | {flat} | {} | {default} | {flag} | {} | {} |",
        key.inner(),
        values(&key.kind),
        if key.usage.result { "yes" } else { "" },
        key.help.split_whitespace().collect::<Vec<_>>().join(" "),
    );
}

fn values(kind: &Kind) -> String {
    match kind {
        Kind::Choice(words) => words
            .iter()
            .map(|(word, aliases)| {
                let others: Vec<String> = aliases
                    .iter()
                    .filter(|a| !a.is_empty())
                    .map(|a| format!("`{a}`"))
                    .collect();
                let word = if word.is_empty() {
                    "`\"\"`".to_owned()
                } else {
                    format!("`{word}`")
                };
                if others.is_empty() {
                    word
                } else {
                    format!("{word} (also {})", others.join(", "))
                }
            })
            .collect::<Vec<_>>()
            .join(", "),
        other => other.allowed(),
    }
}

fn benchmark_part(page: &mut String) {
    page.push_str(
        "\n### Keys of single benchmarks\n\nIn `env`, beside any others a benchmark knows.\n\n",
    );
    page.push_str("| key | meaning |\n|---|---|\n");
    for (name, help) in BENCHMARK_KEYS {
        let _ = writeln!(page, "| `{name}` | {help} |");
    }
}

fn backend_part(page: &mut String) {
    page.push_str("\n## Backends\n\n`model.backend` stands for a pair; a role set by itself keeps its own.\n\n");
    page.push_str("| `model.backend` | optimizer | target |\n|---|---|---|\n");
    for label in registry::labels() {
        let (label, optimizer, target) = (label.name, label.optimizer, label.target);
        let _ = writeln!(page, "| `{label}` | `{optimizer}` | `{target}` |");
    }
    page.push_str(
        "\nThe keys below stand in `model`. Those marked *roles* exist three times: as named, and with \
         `optimizer_` or `target_` before, which wins for that role. Where a key is unset or blank, \
         the environment variable of the same name in capitals is read. A value in a base file that \
         comes with the program ranks below the environment.\n\n\
         All calls of a machine share what its environment says of the network: `HTTP_PROXY`, \
         `HTTPS_PROXY`, `ALL_PROXY` (`http` and `socks5` proxies) and `NO_PROXY`; `SSL_CERT_FILE` and \
         `SSL_CERT_DIR` in place of the system's root certificates, `SKILLOPT_CA_FILE` for further \
         ones; `SKILLOPT_FIRST_BYTE_SECONDS` (half of the call's limit, from 30 to 300) for answers \
         that come in pieces, and \
         `SKILLOPT_BETWEEN_CHUNKS_SECONDS` (180) for each piece of any answer.\n\n",
    );
    page.push_str("| key | roles | values | default | meaning |\n|---|---|---|---|---|\n");
    for key in backend_keys() {
        let BackendKey {
            base,
            roles,
            kind,
            default,
            help,
            ..
        } = key;
        let roles = if *roles { "roles" } else { "" };
        let _ = writeln!(
            page,
            "| `{base}` | {roles} | {} | {default} | {help} |",
            values(kind)
        );
    }
    let _ = write!(
        page,
        "\n`model.sim` takes these settings of the simulated model: `{}`. A single one can be given as \
         `model.sim_NAME`.\n",
        SIM_SETTINGS.join("`, `")
    );
}
