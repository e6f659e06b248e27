//! Top-level stretches of a text in balanced brackets.

use std::ops::Range;

/// Which brackets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brackets {
    /// `{…}`; spans of these are returned.
    Braces,
    /// `{…}` and `[…]`; spans of `[…]` are returned, those inside of `{…}` hidden.
    All,
}

/// The spans of a text.
#[derive(Debug)]
pub(super) struct Scan {
    /// Spans outside of each other and of double-quoted text.
    pub(super) spans: Vec<Range<usize>>,
    /// If a quote outside of the spans has no partner: the spans when quotes in prose are plain
    /// text.
    pub(super) unquoted_spans: Option<Vec<Range<usize>>>,
}

impl Scan {
    /// Scans a text once or twice.
    pub(super) fn of(text: &str, brackets: Brackets) -> Self {
        let (spans, balanced) = Scanner::new(text, brackets, true).run();
        let unquoted_spans = (!balanced).then(|| Scanner::new(text, brackets, false).run().0);
        Self {
            spans,
            unquoted_spans,
        }
    }

    /// Returns the only span, if there is exactly one.
    pub(super) fn only(&self) -> Option<Range<usize>> {
        let spans = match &self.unquoted_spans {
            Some(unquoted) if self.spans.is_empty() => unquoted,
            _ => &self.spans,
        };
        match spans.as_slice() {
            [span] => Some(span.clone()),
            _ => None,
        }
    }
}

/// A bracket that is still open.
struct Open {
    at: usize,
    kind: u8,
    /// What follows could be JSON. An unclosed bracket of this sort is a cut-off value that hides
    /// what it contains; any other is a sign in prose.
    json_like: bool,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    brackets: Brackets,
    /// Whether quotes in prose enclose quoted text.
    prose_quotes: bool,
    open: Vec<Open>,
    /// How many of `open` are braces and square brackets.
    counts: [usize; 2],
    /// Closed spans that no other one contains so far, with their opening bracket.
    closed: Vec<(Range<usize>, u8)>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, brackets: Brackets, prose_quotes: bool) -> Self {
        Self {
            bytes: text.as_bytes(),
            brackets,
            prose_quotes,
            open: Vec::new(),
            counts: [0; 2],
            closed: Vec::new(),
        }
    }

    /// Returns the spans, and whether every quote found its partner.
    fn run(mut self) -> (Vec<Range<usize>>, bool) {
        let mut balanced = true;
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            at = match byte {
                b'"' if self.quote_counts() => match self.end_of_string(at) {
                    Some(end) => end,
                    None => {
                        balanced = false;
                        if !self.open.is_empty() {
                            // A value cut off inside of a text.
                            break;
                        }
                        self.prose_quotes = false;
                        at + 1
                    }
                },
                b'{' | b'[' => {
                    self.open(at, *byte);
                    at + 1
                }
                b'}' => self.close(at, b'{'),
                b']' => self.close(at, b'['),
                _ => at + 1,
            };
        }
        (self.finish(), balanced)
    }

    fn quote_counts(&self) -> bool {
        self.prose_quotes || self.open.last().is_some_and(|open| open.json_like)
    }

    /// Returns the position behind the quote that ends the text starting at `at`.
    fn end_of_string(&self, at: usize) -> Option<usize> {
        let mut i = at + 1;
        loop {
            match self.bytes.get(i)? {
                b'"' => return Some(i + 1),
                b'\\' => i += 2,
                _ => i += 1,
            }
        }
    }

    fn open(&mut self, at: usize, kind: u8) {
        if kind == b'[' && self.brackets == Brackets::Braces {
            return;
        }
        self.counts[slot(kind)] += 1;
        self.open.push(Open {
            at,
            kind,
            json_like: self.looks_like_json(at, kind),
        });
    }

    /// Closes the innermost open bracket of a kind; those opened inside of it were never closed.
    fn close(&mut self, at: usize, kind: u8) -> usize {
        if self.counts[slot(kind)] > 0 {
            while let Some(open) = self.open.pop() {
                self.counts[slot(open.kind)] -= 1;
                if open.kind == kind {
                    while self.closed.last().is_some_and(|(s, _)| s.start > open.at) {
                        self.closed.pop();
                    }
                    self.closed.push((open.at..at + 1, kind));
                    break;
                }
            }
        }
        at + 1
    }

    fn looks_like_json(&self, at: usize, kind: u8) -> bool {
        let rest = self
            .bytes
            .get(at + 1..)
            .unwrap_or_default()
            .trim_ascii_start();
        match (kind, rest.first()) {
            (b'{', first) => matches!(first, Some(b'"' | b'}')),
            (_, Some(b'"' | b'{' | b'[' | b']' | b'-' | b'0'..=b'9')) => true,
            _ => ["true", "false", "null"]
                .iter()
                .any(|literal| rest.starts_with(literal.as_bytes())),
        }
    }

    fn finish(self) -> Vec<Range<usize>> {
        let wanted = match self.brackets {
            Brackets::Braces => b'{',
            Brackets::All => b'[',
        };
        let cut_off = self
            .open
            .iter()
            .find(|open| open.json_like)
            .map_or(self.bytes.len(), |open| open.at);
        self.closed
            .into_iter()
            .filter(|(span, kind)| *kind == wanted && span.start < cut_off)
            .map(|(span, _)| span)
            .collect()
    }
}

fn slot(kind: u8) -> usize {
    usize::from(kind == b'[')
}
