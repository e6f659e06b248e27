//! Request keys: they name the work and not the wording, so that counts, latencies and faults can
//! be compared between implementations (chapter 6).

use crate::call::Call;
use crate::markers::fingerprint;
use crate::stage::Stage;
use crate::unit::short_hash;
use crate::world::Item;

/// Returns the key of a target call on `item` with a skill of fingerprint `fp`.
pub(crate) fn target(call: &Call<'_>, item: &str, fp: &str) -> String {
    let n = call.n_messages.to_string();
    [Stage::Target.as_str(), call.model, item, fp, &n].join("|")
}

/// Returns the key of a call that looks at items: analysts, slow update, meta skill.
pub(crate) fn items(stage: Stage, call: &Call<'_>, items: &[Item<'_>]) -> String {
    let mut ids: Vec<&str> = items.iter().map(|item| item.id).collect();
    ids.sort_unstable();
    let ids = short_hash(&ids.join(","));
    [stage.as_str(), call.model, &ids, &fingerprint(call.user)].join("|")
}

/// Returns the key of a merge of edits with these texts.
pub(crate) fn merge(stage: Stage, call: &Call<'_>, texts: &[&str]) -> String {
    let mut texts = texts.to_vec();
    texts.sort_unstable();
    [stage.as_str(), call.model, &short_hash(&texts.join("\n"))].join("|")
}

/// Returns the key of a choice of `n` among `lines`.
pub(crate) fn ranking(call: &Call<'_>, n: usize, lines: &[&str]) -> String {
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    let lines = short_hash(&lines.join("\n"));
    [Stage::Ranking.as_str(), call.model, &n.to_string(), &lines].join("|")
}

/// Returns the key of a choice of the rate for `lines`.
pub(crate) fn lr_autonomous(call: &Call<'_>, lines: &[&str]) -> String {
    let lines = short_hash(&lines.join("\n"));
    [Stage::LrAutonomous.as_str(), call.model, &lines].join("|")
}

/// Returns the key of a rewrite.
pub(crate) fn rewrite(call: &Call<'_>) -> String {
    let fp = fingerprint(call.user);
    [Stage::Rewrite.as_str(), call.model, &fp].join("|")
}

/// Returns the key of a call that is known by its text only; `name` is `appendix` or `other`.
pub(crate) fn text(name: &str, call: &Call<'_>) -> String {
    [name, call.model, &short_hash(call.user)].join("|")
}
