//! Takes out of what was asked and done what is of one run alone, so that the same work leaves the same
//! trajectory: the key of the relay, and paths and ports where a sandbox shares the machine's. Last words,
//! which are scored, stay as they are.

use std::sync::Arc;

use serde_json::Value;

use crate::relay::Record;

/// What stands in place of a key.
const KEY: &str = "[key of the relay]";

/// Texts of one run, with what stands in their places.
pub(crate) struct Masks(Vec<(String, String)>);

impl Masks {
    /// Makes them of a room's own texts and of the key of its relay.
    pub(crate) fn new(mut of_this_run: Vec<(String, String)>, key: &str) -> Self {
        of_this_run.push((key.to_owned(), KEY.to_owned()));
        Self(of_this_run)
    }

    /// Masks everything that was asked and said.
    pub(crate) fn record(&self, record: &mut Record) {
        for exchange in &mut record.exchanges {
            self.value(Arc::make_mut(&mut exchange.request));
            let said = &mut exchange.said;
            self.text(&mut said.text);
            self.text(&mut said.reasoning);
            for (_, arguments) in &mut said.calls {
                self.text(arguments);
            }
        }
    }

    /// Masks every text of a value.
    pub(crate) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.value(value)),
            Value::Object(map) => map.values_mut().for_each(|value| self.value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, text: &mut String) {
        for (part, usual) in &self.0 {
            if !part.is_empty() && text.contains(part.as_str()) {
                *text = replaced(text, part, usual);
            }
        }
    }
}

/// Replaces a part wherever no further digit follows: there it would be another port.
fn replaced(text: &str, part: &str, usual: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(part) {
        out.push_str(before);
        let is_longer = part.ends_with(|c: char| c.is_ascii_digit())
            && after.starts_with(|c: char| c.is_ascii_digit());
        out.push_str(if is_longer { part } else { usual });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::relay::{Exchange, Said, Tokens};

    #[test]
    fn what_is_of_one_run_alone_is_masked_wherever_it_stands() {
        let of_this_run = [
            ("/tmp/rooms/7-3/task", "/sandbox/work"),
            ("127.0.0.1:4321", "127.0.0.1:47001"),
        ];
        let of_this_run = of_this_run.map(|(part, usual)| (part.to_owned(), usual.to_owned()));
        let masks = Masks::new(of_this_run.to_vec(), "sk-relay-1");
        let said = "in /tmp/rooms/7-3/task: 127.0.0.1:4321 and 127.0.0.1:43210, sk-relay-1";
        let want = "in /sandbox/work: 127.0.0.1:47001 and 127.0.0.1:43210, [key of the relay]";
        let mut record = Record {
            exchanges: vec![Exchange {
                request: Arc::new(json!({"input": [{"output": said}, 7]})),
                status: 200,
                tries: 1,
                said: Said {
                    text: said.to_owned(),
                    calls: vec![("exec".to_owned(), said.to_owned())],
                    ..Said::default()
                },
                tokens: Tokens::default(),
            }],
            ..Record::default()
        };
        masks.record(&mut record);
        let exchange = &record.exchanges[0];
        assert_eq!(*exchange.request, json!({"input": [{"output": want}, 7]}));
        assert_eq!(exchange.said.text, want);
        assert_eq!(exchange.said.calls[0].1, want);
    }
}
