//! One request: read, routed, answered.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::BODY_MAX;
use super::answer::{self, Answer, Cut};
use super::route::{Api, Route};
use super::wire;
use crate::model::SimulatedModel;
use crate::replies::Call;
use crate::stage::Stage;

/// Header by which a client names the stage itself.
const STAGE_HEADER: &str = "x-sim-stage";

/// Why a request is no call.
enum Refusal {
    /// It gets an error.
    Error(StatusCode, String),
    /// Its client went away in the middle of it.
    Gone,
}

/// Answers a request, or cuts its connection.
pub(super) async fn handle(
    model: Arc<SimulatedModel>,
    request: Request<Incoming>,
) -> Result<Answer, Cut> {
    let (head, body) = request.into_parts();
    let route = Route::of(&head.method, head.uri.path());
    match route {
        Route::Call(api, deployment) => {
            let stage = named_stage(&head.headers);
            return call(&model, api, deployment, stage, body).await;
        }
        Route::Models => Ok(answer::models()),
        Route::Alive => Ok(ok(&json!({"status": "ok"}))),
        Route::Stats => Ok(ok(&json!(model.stats()))),
        Route::Reset => {
            model.reset();
            Ok(ok(&json!({"status": "reset"})))
        }
        Route::ShowConfig => Ok(ok(&model.settings().to_json())),
        Route::Configure => configure(&model, body).await,
        Route::WrongMethod => Err(Refusal::Error(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("`{}` does not take {}", head.uri.path(), head.method),
        )),
        Route::Unknown => Err(Refusal::Error(
            StatusCode::NOT_FOUND,
            format!(
                "`{}` is not offered; try chat/completions, messages, models, /sim/stats, \
                 /sim/reset or /sim/config",
                head.uri.path()
            ),
        )),
    }
    .or_else(|refusal| refuse(&model, Api::Chat, refusal))
}

fn ok(body: &Value) -> Answer {
    answer::json(StatusCode::OK, body)
}

fn refuse(model: &SimulatedModel, api: Api, refusal: Refusal) -> Result<Answer, Cut> {
    match refusal {
        Refusal::Error(status, message) => {
            model.note_status(status.as_u16());
            Ok(answer::error(api, status, &message))
        }
        Refusal::Gone => {
            model.note_aborted();
            Err(Cut)
        }
    }
}

fn bad_request(message: String) -> Refusal {
    Refusal::Error(StatusCode::BAD_REQUEST, message)
}

async fn call(
    model: &SimulatedModel,
    api: Api,
    deployment: Option<&str>,
    stage: Result<Option<Stage>, Refusal>,
    body: Incoming,
) -> Result<Answer, Cut> {
    let (stage, body) = match (stage, read(body).await) {
        (Ok(stage), Ok(body)) => (stage, body),
        (Err(refusal), _) | (_, Err(refusal)) => return refuse(model, api, refusal),
    };
    let parsed = match wire::parse(&body) {
        Ok(parsed) => parsed,
        Err(e) => return refuse(model, api, bad_request(e.to_string())),
    };
    let call = Call {
        sys: &parsed.sys,
        user: &parsed.user,
        model: deployment.unwrap_or(&parsed.model),
        n_messages: parsed.n_messages,
        stage,
    };
    let outcome = model.exchange(&call).await;
    answer::outcome(api, &call, outcome)
}

fn named_stage(headers: &http::HeaderMap) -> Result<Option<Stage>, Refusal> {
    headers
        .get(STAGE_HEADER)
        .map(|value| {
            let name = value
                .to_str()
                .map_err(|_| bad_request(format!("`{STAGE_HEADER}` is not plain text")))?;
            name.parse::<Stage>()
                .map_err(|e| bad_request(e.to_string()))
        })
        .transpose()
}

async fn configure(model: &SimulatedModel, body: Incoming) -> Result<Answer, Refusal> {
    let body = read(body).await?;
    let json: Value = serde_json::from_slice(&body)
        .map_err(|e| bad_request(format!("the settings are no JSON: {e}")))?;
    let settings = model
        .settings()
        .with_json(&json)
        .map_err(|e| bad_request(e.to_string()))?;
    let shown = settings.to_json();
    model.configure(settings);
    Ok(ok(&shown))
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(Refusal::Error(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {BODY_MAX} bytes"),
        )),
        Err(_) => Err(Refusal::Gone),
    }
}
