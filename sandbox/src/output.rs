//! Reads what the program prints: counts all of it, keeps the ends, hands lines on.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;

use crate::limits::Limits;
use crate::report::Output;
use crate::task::{Line, Stream};

/// What both streams share.
pub(crate) struct Shared<'a> {
    total: AtomicU64,
    max: u64,
    /// Told once when both streams together are over the limit.
    pub(crate) over: Notify,
    on_line: Mutex<&'a mut (dyn FnMut(Line<'_>) + Send)>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(limits: &Limits, on_line: &'a mut (dyn FnMut(Line<'_>) + Send)) -> Self {
        Self {
            total: AtomicU64::new(0),
            max: limits.output_bytes,
            over: Notify::new(),
            on_line: Mutex::new(on_line),
        }
    }

    fn count(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.total.fetch_add(bytes, Ordering::Relaxed) + bytes > self.max {
            self.over.notify_one();
        }
    }
}

/// One stream.
pub(crate) struct Collector {
    stream: Stream,
    head_max: usize,
    tail_max: usize,
    line_max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    line: Vec<u8>,
    is_line_cut: bool,
}

impl Collector {
    pub(crate) fn new(stream: Stream, limits: &Limits) -> Self {
        let tail_max = limits.kept_bytes / 4;
        Self {
            stream,
            head_max: limits.kept_bytes - tail_max,
            tail_max,
            line_max: limits.line_bytes,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            line: Vec::new(),
            is_line_cut: false,
        }
    }

    /// Reads to the end; a broken pipe ends the output as the program's end does.
    pub(crate) async fn read(&mut self, mut from: impl AsyncRead + Unpin, shared: &Shared<'_>) {
        let mut buffer = vec![0u8; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            shared.count(count);
            self.take(&buffer[..count], shared);
        }
        if !self.line.is_empty() || self.is_line_cut {
            self.end_line(shared);
        }
    }

    fn take(&mut self, bytes: &[u8], shared: &Shared<'_>) {
        self.total += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let room = (self.head_max - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.tail_max);
        self.tail.drain(..over);

        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let room = (self.line_max - self.line.len()).min(part.len());
            self.line.extend(&part[..room]);
            self.is_line_cut |= room < part.len();
            if parts.peek().is_some() {
                self.end_line(shared);
            }
        }
    }

    fn end_line(&mut self, shared: &Shared<'_>) {
        if let Ok(mut on_line) = shared.on_line.lock() {
            on_line(Line {
                stream: self.stream,
                bytes: &self.line,
                is_cut: self.is_line_cut,
            });
        }
        self.line.clear();
        self.is_line_cut = false;
    }

    pub(crate) fn finish(self) -> Output {
        Output {
            head: self.head,
            tail: self.tail.into(),
            total: self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kept_bytes: usize, line_bytes: usize, chunks: &[&str], text: &str, lines: &[&str]) {
        let limits = Limits {
            kept_bytes,
            line_bytes,
            ..Limits::default()
        };
        let mut seen = Vec::new();
        let mut on_line = |line: Line<'_>| {
            let mark = if line.is_cut { "…" } else { "" };
            seen.push(String::from_utf8_lossy(line.bytes).into_owned() + mark);
        };
        let shared = Shared::new(&limits, &mut on_line);
        let mut collector = Collector::new(Stream::Out, &limits);
        for chunk in chunks {
            collector.take(chunk.as_bytes(), &shared);
        }
        assert_eq!(collector.finish().text(), text);
        assert_eq!(seen, lines);
    }

    #[test]
    fn ends_are_kept_and_lines_handed_on() {
        check(
            99,
            99,
            &["a\nb", "c\n", "\n"],
            "a\nbc\n\n",
            &["a", "bc", ""],
        );
        check(99, 2, &["abc", "d\ne\n"], "abcd\ne\n", &["ab…", "e"]);
        let left_out = "abcdef\n[4 bytes left out]\nkl";
        check(8, 99, &["abcdefgh", "ijkl"], left_out, &[]);
        check(8, 99, &["abcdefghijkl"], left_out, &[]);
        check(8, 99, &["abcdefgh"], "abcdefgh", &[]);
    }
}
