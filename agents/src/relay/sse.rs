//! Finds the events of a stream in its bytes.

/// Largest event that is looked at; what is longer passes unseen.
const EVENT_MAX: usize = 32 << 20;

/// Bytes of a stream, cut into events.
#[derive(Default)]
pub(super) struct Events {
    waiting: Vec<u8>,
    /// Up to here no end of an event was found.
    looked_at: usize,
}

impl Events {
    /// Takes bytes and calls `each` with the data of every event that is whole.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        self.waiting.extend_from_slice(bytes);
        let mut begin = 0;
        let mut at = self.looked_at;
        while let Some(found) = self.waiting[at..].iter().position(|byte| *byte == b'\n') {
            let line_end = at + found;
            let after = &self.waiting[line_end + 1..];
            let blank = match after {
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                _ => 0,
            };
            at = line_end + 1;
            if blank > 0 {
                event(&self.waiting[begin..line_end], &mut each);
                at += blank;
                begin = at;
            }
        }
        self.waiting.drain(..begin);
        // The end of an event may have come in part.
        self.looked_at = self.waiting.len().saturating_sub(2);
        if self.waiting.len() > EVENT_MAX {
            self.waiting.clear();
            self.looked_at = 0;
        }
    }

    /// Takes what is left at the end of the stream.
    pub(super) fn end(&mut self, mut each: impl FnMut(&str)) {
        let rest = std::mem::take(&mut self.waiting);
        event(&rest, &mut each);
    }
}

fn event(bytes: &[u8], each: &mut impl FnMut(&str)) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let Some(first) = lines.next() else {
        return;
    };
    let first = first.trim();
    match lines.next() {
        None => each(first),
        Some(second) => {
            let rest: Vec<&str> = std::iter::once(second)
                .chain(lines)
                .map(str::trim)
                .collect();
            each(&format!("{first}\n{}", rest.join("\n")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_wherever_the_bytes_are_cut() {
        let stream = "event: a\ndata: {\"n\":1}\n\n: comment\n\ndata: {\"n\":\"é\"}\r\n\r\ndata: x\ndata: y\n\ndata: [DONE]";
        let whole = ["{\"n\":1}", "{\"n\":\"é\"}", "x\ny", "[DONE]"];
        for size in 1..stream.len() {
            let mut events = Events::default();
            let mut seen = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.feed(piece, |data| seen.push(data.to_owned()));
            }
            events.end(|data| seen.push(data.to_owned()));
            assert_eq!(seen, whole, "in pieces of {size}");
        }
    }
}
