//! How a Gemini model is asked to think, told by its name.

use serde_json::{Value, json};

/// Returns what to say for an effort; nothing for a model that does not think, or whose name tells
/// nothing of it.
#[must_use]
pub fn thinking(model: &str, effort: &str) -> Option<Value> {
    let (major, minor) = version(model)?;
    let is_pro = model.contains("pro");
    if (major, minor) == (2, 5) {
        let budget = match effort {
            "low" => 1_024,
            "medium" => 8_192,
            "high" | "xhigh" | "max" => 24_576,
            _ => return None,
        };
        return Some(json!({"thinkingBudget": budget}));
    }
    if major < 3 {
        return None;
    }
    let level = match effort {
        "low" => "LOW",
        // The first of its line knows two levels only.
        "medium" if is_pro && (major, minor) == (3, 0) => "HIGH",
        "medium" => "MEDIUM",
        "high" | "xhigh" | "max" => "HIGH",
        _ => return None,
    };
    Some(json!({"thinkingLevel": level}))
}

/// Reads a name like `gemini-2.5-flash` or `models/gemini-3-pro-preview`.
fn version(model: &str) -> Option<(u32, u32)> {
    let (_, after) = model.split_once("gemini-")?;
    let word = after.split('-').next()?;
    let (major, minor) = word.split_once('.').unwrap_or((word, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_how_a_model_thinks() {
        for (model, effort, expected) in [
            (
                "gemini-2.5-flash",
                "medium",
                json!({"thinkingBudget": 8192}),
            ),
            ("gemini-2.5-pro", "max", json!({"thinkingBudget": 24576})),
            (
                "gemini-3-flash-preview",
                "medium",
                json!({"thinkingLevel": "MEDIUM"}),
            ),
            (
                "gemini-3-pro-preview",
                "medium",
                json!({"thinkingLevel": "HIGH"}),
            ),
            (
                "models/gemini-3.1-pro",
                "medium",
                json!({"thinkingLevel": "MEDIUM"}),
            ),
            ("gemini-3.5-flash", "low", json!({"thinkingLevel": "LOW"})),
        ] {
            assert_eq!(thinking(model, effort), Some(expected), "{model}");
        }
        for (model, effort) in [
            ("gemini-2.0-flash", "high"),
            ("gemini-flash-latest", "high"),
            ("gemma-3-27b-it", "high"),
            ("gemini-3-flash", ""),
            ("gemini-3-flash", "minimal"),
        ] {
            assert_eq!(thinking(model, effort), None, "{model}");
        }
    }
}
