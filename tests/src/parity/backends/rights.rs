//! What the sentences under `right` say about the wire, where the reference is wrong.
//!
//! Rules come first, for what many cases are about; after them, what single sentences say of a
//! request. A case that is not marked is left as it is.

use serde_json::{Map, Value, json};

/// Returns the case with what is right in place of what was recorded.
pub(super) fn apply(case: &Value) -> Value {
    let mut case = case.clone();
    if case["reference_bug"] == true {
        final_statuses(&mut case);
        one_loop(&mut case);
        outcomes(&mut case);
        sentences(&mut case);
    }
    case
}

/// A status that cannot pass is final: one request (backends spec 8, point 2).
fn final_statuses(case: &mut Value) {
    let status = case["expected_result"]["error"]["last"]["status"].as_u64();
    if matches!(status, Some(400 | 401 | 403 | 404 | 405 | 422)) {
        case["expected_request"]["request_count"] = 1.into();
    }
}

/// There is one loop with one budget: the tries of the library below it are none of ours.
fn one_loop(case: &mut Value) {
    let sleeps = case["expected_request"]["sleeps"].as_array();
    let by_library = |sleep: &Value| sleep["by"] == "transport";
    let is_nested = sleeps.into_iter().flatten().any(by_library);
    let retries = case["input"]["call"]["retries"].as_u64();
    if let (true, Some(retries)) = (is_nested, retries) {
        case["expected_request"]["request_count"] = retries.into();
    }
}

/// Every answer that is not a whole one has a name (backends spec 8, point 5).
fn outcomes(case: &mut Value) {
    let script = case["response"]["script"].as_array();
    let [answer] = script.map_or(&[][..], Vec::as_slice) else {
        return;
    };
    let Some(outcome) = outcome_of(&answer["body"]) else {
        return;
    };
    let expected = &mut case["expected_result"];
    expected["outcome"] = outcome.into();
    let is_reply = matches!(outcome, "truncated" | "empty");
    if let Some(expected) = expected.as_object_mut() {
        // What was an error of the reference is billed all the same.
        if expected.remove("error").is_some() && is_reply {
            expected.remove("token_summary");
        }
        if !is_reply {
            expected.remove("ok");
        }
    }
    if case["expected_request"]["request_count"] != 0 {
        case["expected_request"]["request_count"] = 1.into();
    }
}

fn outcome_of(body: &Value) -> Option<&'static str> {
    let reason = body["incomplete_details"]["reason"].as_str();
    let choice = &body["choices"][0];
    let finish = choice["finish_reason"].as_str().or(reason);
    if finish == Some("content_filter") || body["error"]["code"] == "content_filter" {
        return Some("filtered");
    }
    if choice["message"]["refusal"].is_string() {
        return Some("refused");
    }
    if matches!(finish, Some("length" | "max_output_tokens")) {
        return Some("truncated");
    }
    let message = choice["message"].as_object()?;
    let content = message.get("content").unwrap_or(&Value::Null);
    let is_blank = content.is_null() || content.as_str().is_some_and(|text| text.trim().is_empty());
    (is_blank && !message.contains_key("tool_calls")).then_some("empty")
}

/// What the sentence of a single case says of a request or a result, as a change to what was
/// recorded: members are replaced one by one, and null takes one away.
fn sentences(case: &mut Value) {
    let id = case["id"].as_str().unwrap_or_default().to_owned();
    let change = match id.as_str() {
        // The operator's shared version counts in both roles.
        "openai_chat/base_yaml_role_version_masks_shared_override" => request(json!({
            "query": {"api-version": "2025-04-01-preview"},
        })),
        // A token never goes to a plain or foreign host; nobody is even asked for one.
        "openai_chat/aad_token_to_plain_http_host" => json!({
            "expected_request": {"request_count": 0, "side_processes": null},
            "expected_result": {
                "ok": null, "token_summary": null,
                "error": {"kind": "invalid_setting"},
            },
        }),
        // Parts are converted, so that the model sees the picture.
        "openai_chat/responses_image_lost" => request(json!({"body": {"input": [{
            "role": "user",
            "content": [
                {"type": "input_text", "text": "what?"},
                {
                    "type": "input_image", "detail": "high",
                    "image_url": "data:image/png;base64,iVBORw0KGgo=",
                },
            ],
        }]}})),
        // A call for a named deployment goes to the optimizer's own backend.
        "openai_chat/with_deployment_ignores_role_backend" => request(json!({
            "path": "/qwen/v1/chat/completions",
            "headers": {"authorization": null},
            "body": {"max_completion_tokens": null, "max_tokens": 8000, "temperature": 0.7},
            "read_timeout_s": 300.0,
        })),
        // The family is known in any spelling, and always thinks.
        "minimax_chat/m2_prefix_is_case_sensitive" => {
            request(json!({"body": {"thinking": {"type": "adaptive"}}}))
        }
        // The words of qwen_chat leave the temperature out here too.
        "minimax_chat/temperature_none_word_crashes_at_start" => json!({
            "expected_request": {
                "request_count": 1,
                "request": {
                    "method": "POST", "path": "/v1/chat/completions",
                    "headers": {"authorization": "Bearer {{secret:MM}}"},
                    "body": {
                        "model": "MiniMax-M3", "max_tokens": 8000,
                        "thinking": {"type": "disabled"},
                        "messages": [
                            {"role": "system", "content": "SYS"},
                            {"role": "user", "content": "USR"},
                        ],
                    },
                },
            },
            "expected_result": {"import_error": null, "outcome": "answer"},
        }),
        // Defaults in a base file rank below the environment.
        "minimax_chat/base_yaml_strings_parsed" => request(json!({"body": {
            "max_tokens": 77, "temperature": 0.1, "thinking": {"type": "adaptive"},
        }})),
        // The model that was named for the target wins; its family always thinks.
        "minimax_chat/base_yaml_model_beats_explicit_target_model" => request(json!({"body": {
            "model": "MiniMax-M2.7", "thinking": {"type": "adaptive"},
        }})),
        // Each role names its own model.
        "minimax_chat/optimizer_sends_target_model" => {
            request(json!({"body": {"model": "MiniMax-M3"}}))
        }
        // The caller's limit counts.
        "minimax_chat/router_drops_target_timeout" => {
            let mut requests = case["expected_request"]["requests"].clone();
            for request in requests.as_array_mut().into_iter().flatten() {
                request["read_timeout_s"] = 5.into();
            }
            let mut change = request(json!({"read_timeout_s": 5}));
            change["expected_request"]["requests"] = requests;
            change
        }
        // The code in the answer is read: an empty account is not asked again.
        "minimax_chat/base_resp_error_in_200" => json!({
            "expected_request": {"request_count": 1},
            "expected_result": {"error": null, "outcome": "unauthorized"},
        }),
        // Only runs that use the backend fail.
        "minimax_chat/region_bad_env_breaks_every_run" => {
            json!({"expected_result": {"import_error": null}})
        }
        // A blank leaves the environment in control, and a blank role key the shared key.
        "qwen_chat/config_blank_thinking_resets_env"
        | "qwen_chat/config_shared_thinking_masked_by_blank_role" => {
            request(json!({"body": {"chat_template_kwargs": {"enable_thinking": false}}}))
        }
        // The job's configuration reaches every setting.
        "openai_compatible/yaml_cannot_set_base_url" => {
            request(json!({"path": "/yaml/v1/chat/completions"}))
        }
        // Failed tries are counted, too.
        "accounting/failed_call_not_counted" => json!({"expected_result": {"attempts": 1}}),
        // A stage is one of our own labels, and the total is none: it takes every call in.
        "accounting/stage_named_total_lost" => json!({"expected_result": {"token_summary": {
            "_total": {"calls": 1, "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }}}),
        // A benchmark's calls go to the target's backend, with its own key.
        "benchmark_chat/spreadsheet_openai_compatible_goes_to_azure" => request(json!({
            "path": "/compat/v1/chat/completions",
            "headers": {"authorization": "Bearer {{secret:C}}"},
            "body": {"max_completion_tokens": null, "max_tokens": 8000},
        })),
        // The model is the one that the configuration names for the target.
        "benchmark_chat/spreadsheet_minimax_without_azure" => json!({
            "expected_request": {
                "request_count": 1,
                "request": {
                    "method": "POST", "path": "/mm/chat/completions",
                    "headers": {"authorization": "Bearer {{secret:M}}"},
                    "body": {
                        "model": "gpt-5.5", "max_tokens": 8000, "temperature": 0.7,
                        "thinking": {"type": "disabled"},
                        "messages": [{"role": "user", "content": "{{text:user}}"}],
                    },
                },
            },
            "expected_result": {
                "error": null, "token_summary": null, "ok": {}, "outcome": "answer",
            },
        }),
        _ => return,
    };
    merge(case, &change);
}

fn request(change: Value) -> Value {
    json!({"expected_request": {"request": change}})
}

/// Lays a change over a value, as a JSON merge patch does.
fn merge(value: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *value = change.clone();
        return;
    };
    if !value.is_object() {
        *value = Map::new().into();
    }
    let Some(map) = value.as_object_mut() else {
        return;
    };
    for (name, change) in change {
        if change.is_null() {
            map.remove(name);
        } else {
            merge(map.entry(name).or_insert(Value::Null), change);
        }
    }
}
