//! Counterparts of edit application, protected blocks, JSON extraction and hashing; see the parent
//! module.

use serde_json::{Value, json};
use skillopt_core::skill::{self, Report, appendix, slow_block};
use skillopt_core::stages::{AnswerMode, appendix as consolidation};
use skillopt_core::text::trim;
use skillopt_core::{json_extract, score};

use super::Outcome;

pub(super) fn call(function: &str, case: &Value) -> Outcome {
    let input = &case["input"];
    let skill = input["skill"].as_str().unwrap_or_default();
    Ok(match function {
        "apply_edit" => {
            let (skill, report) = skill::apply_edit(skill, &input["edit"]);
            let mut seen = json!({"skill": skill, "report": record(&report, false)});
            if case.get("right").is_some() {
                seen["status"] = json!(report.status);
            }
            seen
        }
        "apply_patch_with_report" => {
            let edits = input["patch"]["edits"].as_array();
            let (skill, reports) = skill::apply_patch(skill, edits.map_or(&[], Vec::as_slice));
            let reports: Vec<Value> = reports.iter().map(|r| record(r, true)).collect();
            json!({"skill": skill, "reports": reports})
        }
        "has_slow_update_field" => json!({"value": slow_block::is_present(skill)}),
        "extract_slow_update_field" => json!({"content": slow_block::guidance(skill)}),
        "inject_empty_slow_update_field" => json!({"skill": slow_block::inject_empty(skill)}),
        "replace_slow_update_field" => {
            let content = input["content"].as_str().unwrap_or_default();
            json!({"skill": slow_block::replace(skill, content)})
        }
        "extract_appendix_notes" => json!({"notes": appendix::notes(skill)}),
        "inject_empty_appendix_field" => json!({"skill": appendix::inject_empty(skill)}),
        "append_to_appendix_field" => {
            let skill = appendix::append(skill, &texts(&input["notes"]));
            let mut seen = json!({"skill": skill});
            if case["expected"].get("notes").is_some() {
                seen["notes"] = json!(appendix::notes(&skill));
            }
            seen
        }
        "extract_appendix_notes_from_result" => {
            let notes = input["result"].get("appendix_notes");
            json!({"notes": notes.map(consolidation::notes).unwrap_or_default()})
        }
        "consolidate_appendix_notes" => consolidate(input),
        "extract_json" => json!({"value": json_extract::object(text(input)?)}),
        "extract_json_array" => json!({"value": json_extract::array(text(input)?)}),
        "skill_hash" => {
            let content = input["content"].as_str().ok_or("no content")?;
            let folder = skill::Folder::of_document(content);
            assert_eq!(folder.hash_short(), score::skill_hash(content));
            json!({"hash": folder.hash_short()})
        }
        "compute_score" => {
            let rows = input["results"].as_array().ok_or("no results")?;
            let score = score::mean(rows.iter().filter_map(Value::as_object));
            json!(score.map_err(|e| e.to_string())?)
        }
        _ => return Err(format!("no counterpart for `{function}`")),
    })
}

/// A report as the cases show it: without the text of an error, the index only within a patch.
fn record(report: &Report, with_index: bool) -> Value {
    let mut record = json!(report);
    if let Some(fields) = record.as_object_mut() {
        fields.remove("error");
        if !with_index {
            fields.remove("index");
        }
    }
    record
}

fn consolidate(input: &Value) -> Value {
    let notes = texts(&input["notes"]);
    let answer = match &input["optimizer_response"] {
        Value::String(text) => Some(text.clone()),
        response if response.get("raise").is_some() => None,
        response => Some(response.to_string()),
    };
    if !consolidation::is_needed(&notes) {
        let old: Vec<&str> = notes
            .iter()
            .map(|note| trim(note))
            .filter(|n| !n.is_empty())
            .collect();
        return json!({"notes": old, "calls": []});
    }
    let shown = consolidation::Input {
        answers: AnswerMode::Free,
        notes: &notes,
    };
    let call = json!({
        "stage": consolidation::LABEL,
        "max_completion_tokens": consolidation::MAX_TOKENS,
        "retries": consolidation::RETRIES,
    });
    let accepted = consolidation::accept(answer.as_deref(), &shown);
    let old = || {
        notes
            .iter()
            .map(|n| trim(n).to_owned())
            .filter(|n| !n.is_empty())
            .collect()
    };
    let notes: Vec<String> = accepted.unwrap_or_else(old);
    json!({"notes": notes, "calls": [call]})
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    items
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn text(input: &Value) -> Result<&str, String> {
    input["text"].as_str().ok_or_else(|| "no text".to_owned())
}
