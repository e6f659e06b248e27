//! Builds the tree from parse events, without recursion.

use std::collections::BTreeMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, ScalarStyle, Span, Tag};

use super::{MAX_DEPTH, MAX_NODES, YamlError, scalar};
use crate::node::{Data, Mapping, Node, Origin};

/// A list or mapping that is still open.
enum Open {
    List(Vec<Node>),
    Map {
        own: Mapping,
        merged: Vec<Mapping>,
        key: Option<String>,
    },
}

struct Frame {
    open: Open,
    anchor: usize,
    origin: Origin,
    /// Values counted before this one was opened.
    before: usize,
}

/// Takes events and grows the tree.
pub(super) struct Builder {
    path: Arc<str>,
    stack: Vec<Frame>,
    root: Option<Node>,
    documents: usize,
    anchors: BTreeMap<usize, (Node, usize)>,
    count: usize,
}

impl Builder {
    pub(super) const fn new(path: Arc<str>) -> Self {
        Self {
            path,
            stack: Vec::new(),
            root: None,
            documents: 0,
            anchors: BTreeMap::new(),
            count: 0,
        }
    }

    pub(super) fn finish(self) -> Option<Node> {
        self.root
    }

    fn error(&self, mark: &Marker, reason: impl Into<String>) -> YamlError {
        YamlError {
            path: self.path.to_string(),
            line: mark.line(),
            column: mark.col() + 1,
            reason: reason.into(),
        }
    }

    fn origin(&self, mark: &Marker) -> Origin {
        Origin::File {
            path: Arc::clone(&self.path),
            line: mark.line(),
            column: mark.col() + 1,
        }
    }

    /// Takes one event.
    pub(super) fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), YamlError> {
        let mark = span.start;
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(
                        self.error(&mark, "a second document starts here; use one file each")
                    );
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, &mark)?;
                let node = self.scalar(&text, style, tag.as_deref(), &mark)?;
                self.close(node, anchor, 1, &mark)
            }
            Event::SequenceStart(anchor, tag) => {
                self.expect_tag(tag.as_deref(), "seq", &mark)?;
                self.push(Open::List(Vec::new()), anchor, &mark)
            }
            Event::MappingStart(anchor, tag) => {
                self.expect_tag(tag.as_deref(), "map", &mark)?;
                let open = Open::Map {
                    own: Mapping::new(),
                    merged: Vec::new(),
                    key: None,
                };
                self.push(open, anchor, &mark)
            }
            Event::SequenceEnd | Event::MappingEnd => self.pop(&mark),
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(self.error(&mark, "this alias refers to a value it is part of"));
                };
                self.count(size, &mark)?;
                self.close(node, 0, size, &mark)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn count(&mut self, more: usize, mark: &Marker) -> Result<(), YamlError> {
        self.count = self.count.saturating_add(more);
        if self.count > MAX_NODES {
            return Err(self.error(
                mark,
                format!(
                    "more than {MAX_NODES} values, aliases filled in; a configuration is smaller"
                ),
            ));
        }
        Ok(())
    }

    fn push(&mut self, open: Open, anchor: usize, mark: &Marker) -> Result<(), YamlError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.error(mark, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let before = self.count;
        self.count(1, mark)?;
        let origin = self.origin(mark);
        self.stack.push(Frame {
            open,
            anchor,
            origin,
            before,
        });
        Ok(())
    }

    fn pop(&mut self, mark: &Marker) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let data = match frame.open {
            Open::List(items) => Data::List(items),
            Open::Map { own, merged, .. } => Data::Map(join(merged, own)),
        };
        let size = self.count.saturating_sub(frame.before);
        self.close(Node::new(data, frame.origin), frame.anchor, size, mark)
    }

    /// Hands a finished value to what it stands in.
    fn close(
        &mut self,
        node: Node,
        anchor: usize,
        size: usize,
        mark: &Marker,
    ) -> Result<(), YamlError> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let path = Arc::clone(&self.path);
        let error = |reason: &str| YamlError {
            path: path.to_string(),
            line: mark.line(),
            column: mark.col() + 1,
            reason: reason.to_owned(),
        };
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map { own, merged, key }) => match key.take() {
                None => {
                    *key = Some(key_text(&node).ok_or_else(|| error("a key must be plain text"))?);
                }
                Some(name) if name == MERGE => {
                    let more = merge_sources(node)
                        .ok_or_else(|| error("`<<` takes a mapping or a list of mappings"))?;
                    merged.extend(more);
                }
                Some(name) => own.insert(name, node),
            },
        }
        Ok(())
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        mark: &Marker,
    ) -> Result<Node, YamlError> {
        let plain = style == ScalarStyle::Plain;
        let data = match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.as_str())) {
            None if plain => scalar::resolve(text),
            None | Some((true, "str")) => Data::Text(text.to_owned()),
            Some((true, "int")) => scalar::int(text)
                .ok_or_else(|| self.error(mark, "tagged `!!int`, but not a whole number"))?,
            Some((true, "float")) => match (scalar::float(text), text.parse()) {
                (Some(data), _) => data,
                (None, Ok(x)) => Data::Float(x),
                (None, Err(_)) => return Err(self.error(mark, "tagged `!!float`, but no number")),
            },
            Some((true, "bool")) => scalar::truth(text)
                .map(Data::Bool)
                .ok_or_else(|| self.error(mark, "tagged `!!bool`, but no truth value"))?,
            Some((true, "null")) => Data::Null,
            Some((false, "" | "!")) => Data::Text(text.to_owned()),
            Some(_) => return Err(self.error(mark, "this tag is not supported in a configuration")),
        };
        let raw =
            matches!(data, Data::Bool(_) | Data::Int(_) | Data::Float(_)).then(|| text.to_owned());
        let merge = plain && text == MERGE_WORD && self.expects_key();
        let data = if merge {
            Data::Text(MERGE.to_owned())
        } else {
            data
        };
        Ok(Node {
            data,
            raw,
            origin: self.origin(mark),
        })
    }

    fn expects_key(&self) -> bool {
        matches!(
            self.stack.last().map(|frame| &frame.open),
            Some(Open::Map { key: None, .. })
        )
    }

    fn expect_tag(&self, tag: Option<&Tag>, want: &str, mark: &Marker) -> Result<(), YamlError> {
        match tag {
            None => Ok(()),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == want => Ok(()),
            Some(_) => Err(self.error(mark, "this tag is not supported in a configuration")),
        }
    }
}

const MERGE_WORD: &str = "<<";
/// Stands for a plain `<<`; a quoted one is an ordinary key. No file can hold this text, because
/// NUL characters are refused before.
const MERGE: &str = "\0<<";

/// A key is kept as it is spelled, also if it looks like a number.
fn key_text(node: &Node) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        Data::Null => Some("null".to_owned()),
        Data::Bool(_) | Data::Int(_) | Data::Float(_) => node.raw.clone(),
        Data::List(_) | Data::Map(_) => None,
    }
}

/// Returns the mappings to merge in, the strongest last.
fn merge_sources(node: Node) -> Option<Vec<Mapping>> {
    match node.data {
        Data::Map(map) => Some(vec![map]),
        Data::List(items) => items
            .into_iter()
            .rev()
            .map(|item| match item.data {
                Data::Map(map) => Some(map),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn join(merged: Vec<Mapping>, own: Mapping) -> Mapping {
    if merged.is_empty() {
        return own;
    }
    let mut all = Mapping::new();
    for (key, value) in merged.into_iter().flatten().chain(own) {
        all.insert(key, value);
    }
    all
}
