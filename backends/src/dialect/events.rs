//! Takes a stream of server-sent events apart.

use std::borrow::Cow;

/// Returns what each event of `body` carries. Names, comments and events without data are left out.
pub(crate) fn data(body: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut lines = body.split(|byte| *byte == b'\n');
    std::iter::from_fn(move || {
        let mut data: Option<Cow<'_, [u8]>> = None;
        for line in lines.by_ref() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() && data.is_some() {
                return data;
            }
            let Some(text) = line.strip_prefix(b"data:") else {
                continue;
            };
            let text = text.strip_prefix(b" ").unwrap_or(text);
            match &mut data {
                None => data = Some(Cow::Borrowed(text)),
                Some(longer) => {
                    longer.to_mut().push(b'\n');
                    longer.to_mut().extend_from_slice(text);
                }
            }
        }
        // The last event may lack its empty line.
        data
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let seen: Vec<String> = data(body.as_bytes())
            .map(|data| String::from_utf8_lossy(&data).into_owned())
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn events_end_at_empty_lines() {
        check("event: a\ndata: 1\n\n: ping\n\ndata:2\n\n", &["1", "2"]);
        check("data: 1\r\n\r\ndata: 2", &["1", "2"]);
        check("data: 1\ndata: 2\n\n", &["1\n2"]);
        check("", &[]);
        check("<html>", &[]);
    }
}
