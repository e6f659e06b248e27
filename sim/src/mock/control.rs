//! Addresses below `/__mock/`: for whoever runs the test.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::script::Script;
use super::state::State;

/// Answers a request to `path`, which begins with `/__mock/`.
pub(super) fn answer(state: &State, path: &str, body: &[u8]) -> (StatusCode, Value) {
    match path {
        "/__mock/health" => (StatusCode::OK, json!({"ok": true})),
        "/__mock/stats" => (StatusCode::OK, state.log.stats()),
        "/__mock/requests" => {
            let entries = serde_json::to_value(state.log.entries());
            (
                StatusCode::OK,
                json!({"requests": entries.unwrap_or_default()}),
            )
        }
        "/__mock/reset" => {
            state.log.reset();
            (StatusCode::OK, json!({"ok": true}))
        }
        "/__mock/script" => match Script::parse(&String::from_utf8_lossy(body)) {
            Ok(script) => {
                state.set(script);
                (StatusCode::OK, json!({"ok": true}))
            }
            Err(error) => (StatusCode::BAD_REQUEST, json!({"error": error.to_string()})),
        },
        _ => (
            StatusCode::NOT_FOUND,
            json!({"error": "no such control address"}),
        ),
    }
}
