//! What a sweep came to, in sentences.

use super::counts::Counts;

/// Says how the answer is made up.
pub(super) fn second(counts: &Counts, arms: &[String]) -> String {
    let mut text = format!(
        "{} clearly best, {} tied, {} worse; compared with {}.",
        counts.best,
        counts.tied,
        counts.worse,
        arms.join(", ")
    );
    let unlabelled = counts.finished - counts.labelled;
    for (n, words) in [
        (unlabelled, "finished without a label"),
        (counts.running, "running"),
        (counts.waiting, "waiting"),
        (counts.paused, "paused"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
    ] {
        if n > 0 {
            text.push_str(&format!(" {n} {words}."));
        }
    }
    text
}

/// Says how many labels may be wrong by chance.
pub(super) fn chance(labelled: u64, family: bool) -> String {
    const WORDS: [&str; 11] = [
        "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    if family {
        return "The intervals are corrected for all comparisons of the sweep: the chance that any label is \
                wrong is at most 5%."
            .to_owned();
    }
    let word = |n: u64| {
        let word = usize::try_from(n).ok().and_then(|n| WORDS.get(n));
        word.map_or_else(|| n.to_string(), |w| (*w).to_owned())
    };
    if labelled == 0 {
        return "No cell has a label yet.".to_owned();
    }
    // One in twenty.
    let (number, verb) = match (labelled / 20, labelled % 20) {
        (0, _) => ("less than one".to_owned(), "is"),
        (1, 0) => (word(1), "is"),
        (n, 0) => (word(n), "are"),
        (n, _) => (format!("{} or {}", word(n), word(n + 1)), "are"),
    };
    format!(
        "The intervals are at 95% for each cell: {number} of {labelled} labels {verb} to be expected wrong by chance."
    )
}
