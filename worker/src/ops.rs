//! The pages that machines look at: `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::shift::Shift;

/// A worker whose threads give no sign of life for so long is better started again.
const SILENCE_MAX: Duration = Duration::from_secs(120);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the pages until `stop` fires; returns at once if there is nowhere to serve them.
pub(crate) async fn serve(shift: &Arc<Shift>, stop: &CancellationToken) {
    let Some(listener) = &shift.worker.ops else {
        return;
    };
    let listener = listener.try_clone().and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    let served = match listener {
        Ok(listener) => {
            let serve = axum::serve(listener, pages(Arc::clone(shift))).into_future();
            stop.run_until_cancelled(serve).await.unwrap_or(Ok(()))
        }
        Err(e) => Err(e),
    };
    if let Err(e) = served {
        shift
            .worker
            .tell(&format!("health pages cannot be served: {e}"));
    }
}

fn pages(shift: Arc<Shift>) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(shift)
}

async fn health(State(shift): State<Arc<Shift>>) -> impl IntoResponse {
    let silence = shift.silence();
    if silence > SILENCE_MAX {
        let text = format!("no sign of life for {} s\n", silence.as_secs());
        (StatusCode::SERVICE_UNAVAILABLE, text)
    } else {
        (StatusCode::OK, "ok\n".to_owned())
    }
}

async fn readiness(State(shift): State<Arc<Shift>>) -> impl IntoResponse {
    match shift.unready() {
        Some(cause) => (StatusCode::SERVICE_UNAVAILABLE, format!("{cause}\n")),
        None => (StatusCode::OK, "ok\n".to_owned()),
    }
}

async fn metrics(State(shift): State<Arc<Shift>>) -> impl IntoResponse {
    let (worker, is_ready) = (&shift.worker, shift.unready().is_none());
    let text = worker.metrics.text(is_ready, worker.blobs.bytes_used());
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text)
}
