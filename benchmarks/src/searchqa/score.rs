//! The scorer: exact match and token overlap after normalising (benchmarks spec 2.3).
//!
//! Texts are treated the way the published scores treated them: Unicode lower case, ASCII
//! punctuation deleted, articles dropped as whole words.

/// How well an answer fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// 1 if the normalised answer equals a normalised gold answer.
    pub em: f64,
    /// Token F1, the best over the gold answers.
    pub f1: f64,
    /// 1 if one of the two texts contains the other; for information.
    pub sub_em: f64,
    /// The answer as found in the reply.
    pub predicted: String,
}

/// Scores a reply.
#[must_use]
pub fn evaluate(reply: &str, golds: &[&str]) -> Score {
    let predicted = extract_answer(reply);
    let judged = Judged::new(predicted, golds);
    Score {
        em: judged.exact_match(),
        f1: judged.f1(),
        sub_em: judged.contains(),
        predicted: predicted.to_owned(),
    }
}

/// Returns [`Score::em`] of an answer.
#[must_use]
pub fn exact_match(answer: &str, golds: &[&str]) -> f64 {
    Judged::new(answer, golds).exact_match()
}

/// Returns [`Score::f1`] of an answer.
#[must_use]
pub fn f1_score(answer: &str, golds: &[&str]) -> f64 {
    Judged::new(answer, golds).f1()
}

/// Returns [`Score::sub_em`] of an answer.
#[must_use]
pub fn sub_em(answer: &str, golds: &[&str]) -> f64 {
    Judged::new(answer, golds).contains()
}

/// Returns the text of the last `<answer>…</answer>` pair, possibly empty; without a pair the last
/// non-blank line.
#[must_use]
pub fn extract_answer(reply: &str) -> &str {
    const OPEN: &str = "<answer>";
    const CLOSE: &str = "</answer>";
    let mut found = None;
    let mut rest = reply;
    while let Some((_, after)) = split_once_ignoring_case(rest, OPEN) {
        let Some((inside, tail)) = split_once_ignoring_case(after, CLOSE) else {
            break;
        };
        found = Some(inside);
        rest = tail;
    }
    found.map_or_else(
        || {
            let mut lines = reply.rsplit('\n').map(trim);
            lines.find(|line| !line.is_empty()).unwrap_or_default()
        },
        trim,
    )
}

/// Splits around the first occurrence of `tag`, whose ASCII letters may be of any case.
fn split_once_ignoring_case<'a>(text: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
    let mut from = 0;
    while let Some(start) = text.get(from..)?.find('<') {
        let at = from + start;
        if let Some(candidate) = text.get(at..at + tag.len())
            && candidate.eq_ignore_ascii_case(tag)
        {
            return Some((text.get(..at)?, text.get(at + tag.len()..)?));
        }
        from = at + 1;
    }
    None
}

/// Lower-cases, deletes ASCII punctuation, drops the words `a`, `an`, `the` and collapses blanks.
#[must_use]
pub fn normalize(text: &str) -> String {
    let lower = text.to_lowercase();
    let mut bare = String::with_capacity(lower.len());
    bare.extend(lower.chars().filter(|c| !c.is_ascii_punctuation()));
    let mut out = String::with_capacity(bare.len());
    for piece in bare.split(is_blank).filter(|piece| !piece.is_empty()) {
        push_without_articles(&mut out, piece);
    }
    if out.ends_with(' ') {
        out.pop();
    }
    out
}

/// Appends `piece` and a blank. Inside a piece other symbols (typographic quotes, dashes) end a
/// word too, and an article between them leaves a blank.
fn push_without_articles(out: &mut String, piece: &str) {
    let mut rest = piece;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        if matches!(word, "a" | "an" | "the") {
            push_blank(out);
        } else {
            out.push_str(word);
        }
        let symbols = tail.find(char::is_alphanumeric).unwrap_or(tail.len());
        let (symbols, tail) = tail.split_at(symbols);
        out.push_str(symbols);
        rest = tail;
    }
    push_blank(out);
}

fn push_blank(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

/// White space as the published scorer sees it: Unicode's, and the four ASCII separators.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Trims white space as [`normalize`] sees it.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// An answer and its golds, normalised once for the three measures.
struct Judged<'a> {
    answer: &'a str,
    normal: String,
    golds: Vec<(&'a str, String)>,
}

impl<'a> Judged<'a> {
    fn new(answer: &'a str, golds: &[&'a str]) -> Self {
        Self {
            answer,
            normal: normalize(answer),
            golds: golds.iter().map(|gold| (*gold, normalize(gold))).collect(),
        }
    }

    /// Texts of articles only normalise to nothing; these are equal only if they are the same
    /// text (W-2.2).
    fn exact_match(&self) -> f64 {
        let same = |(gold, normal): &(&str, String)| {
            *normal == self.normal
                && (!normal.is_empty()
                    || trim(gold).to_lowercase() == trim(self.answer).to_lowercase())
        };
        f64::from(u8::from(self.golds.iter().any(same)))
    }

    fn contains(&self) -> f64 {
        // An empty gold answer is contained in everything and says nothing (W-2.2).
        let touches = |(_, gold): &(&str, String)| {
            if gold.is_empty() {
                self.normal.is_empty()
            } else {
                gold.contains(&self.normal) || self.normal.contains(gold.as_str())
            }
        };
        f64::from(u8::from(self.golds.iter().any(touches)))
    }

    fn f1(&self) -> f64 {
        if self.normal.is_empty() {
            let some_empty = self.golds.iter().any(|(_, gold)| gold.is_empty());
            return f64::from(u8::from(some_empty));
        }
        let answer = sorted_tokens(&self.normal);
        self.golds
            .iter()
            .filter(|(_, gold)| !gold.is_empty())
            .map(|(_, gold)| f1_of(&answer, &sorted_tokens(gold)))
            .fold(0.0, f64::max)
    }
}

fn sorted_tokens(normal: &str) -> Vec<&str> {
    let mut tokens: Vec<&str> = normal.split(' ').collect();
    tokens.sort_unstable();
    tokens
}

/// F1 of two sorted multisets.
fn f1_of(answer: &[&str], gold: &[&str]) -> f64 {
    let (mut i, mut j, mut common) = (0, 0, 0u32);
    while let (Some(left), Some(right)) = (answer.get(i), gold.get(j)) {
        match left.cmp(right) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    if common == 0 {
        return 0.0;
    }
    // Token counts are far below 2^53, where the casts would round.
    let precision = f64::from(common) / answer.len() as f64;
    let recall = f64::from(common) / gold.len() as f64;
    2.0 * precision * recall / (precision + recall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalising_follows_the_published_scorer() {
        for (text, want) in [
            ("the \u{201c}A\u{201d} team", "\u{201c} \u{201d} team"),
            ("x\u{1c}the\u{1f}y", "x y"),
            ("  ", ""),
            ("a\u{2014}b", "\u{2014}b"),
        ] {
            assert_eq!(normalize(text), want, "{text}");
        }
    }

    #[test]
    fn the_last_pair_wins_in_any_case() {
        for (reply, want) in [
            ("<ANSWER>x</Answer>", "x"),
            ("<answer>a</answer><answer>b", "a"),
            ("<answer>é < 3</answer>", "é < 3"),
            ("a\r\nb\r\n \r\n", "b"),
        ] {
            assert_eq!(extract_answer(reply), want, "{reply}");
        }
    }
}
