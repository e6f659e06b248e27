//! Prompt templates: text with `{{field}}` placeholders.

use serde_json::Value;

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Field(&'a str),
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    let mut field = None;
    std::iter::from_fn(move || {
        if let Some(name) = field.take() {
            return Some(Piece::Field(name));
        }
        if rest.is_empty() {
            return None;
        }
        let found = rest.split_once("{{").and_then(|(before, after)| {
            let (name, tail) = after.split_once("}}")?;
            Some((before, name.trim(), tail))
        });
        let (text, tail) = match found {
            Some((before, name, tail)) => {
                field = Some(name);
                (before, tail)
            }
            None => (rest, ""),
        };
        rest = tail;
        Some(Piece::Text(text))
    })
}

/// Returns the names of the placeholders, in order.
pub(super) fn fields(template: &str) -> Vec<&str> {
    pieces(template)
        .filter_map(|piece| match piece {
            Piece::Field(name) => Some(name),
            Piece::Text(_) => None,
        })
        .collect()
}

/// Fills in the item's fields and the skill. Values are put in as they are: braces inside a value
/// are no placeholders. A missing field stays empty; loading has checked that there is none.
pub(super) fn render(template: &str, item: &Value, skill: &str) -> String {
    let mut out = String::with_capacity(template.len() + skill.len());
    for piece in pieces(template) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Field("skill") => out.push_str(skill.trim()),
            Piece::Field(name) => match item.get(name) {
                Some(Value::String(text)) => out.push_str(text),
                Some(other) => out.push_str(&other.to_string()),
                None => {}
            },
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_filled_in_once() {
        let item = json!({"q": "{{skill}}", "n": 3, "list": [1]});
        for (template, want) in [
            ("Q: {{q}}!", "Q: {{skill}}!"),
            ("{{ n }}{{list}}", "3[1]"),
            ("{{skill}}|", "S|"),
            ("open {{n", "open {{n"),
            ("", ""),
        ] {
            assert_eq!(render(template, &item, " S "), want, "{template}");
        }
        assert_eq!(fields("a {{x}} {{ y }}"), ["x", "y"]);
    }
}
