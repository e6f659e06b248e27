//! Sends the inputs and submits the run.

use serde_json::json;
use skillopt_coordinator::read_model::is_over;
use skillopt_proto::v1::{ResumeRunRequest, Run, SubmitRunRequest};

use super::order::Order;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::marker::{Marker, new_key};
use crate::output::Out;
use crate::output::words::{amount, harmless};
use crate::remote::{self, Remote, run_json};

/// Bytes of an upload that is worth a word.
const TOLD_BYTES: u64 = 1 << 20;

/// Submits and says how to go on.
///
/// # Errors
/// Nobody answers, or a refusal.
pub(super) fn and_leave(order: &Order, out: &Out) -> Result<Exit, Failure> {
    // Held while the mark is written: two commands must not submit for one folder.
    let _claim = if order.has_folder {
        Some(order.claim()?)
    } else {
        None
    };
    let (run, existed) = remote::talk(&order.address, out, async |remote| {
        submit(order, remote, out).await
    })?;
    if out.json {
        out.object(
            "submitted",
            json!({"run": run_json(&run), "existed": existed}),
        );
        return Ok(Exit::Done);
    }
    out.line(&run.id);
    let verb = if existed {
        "is there already"
    } else {
        "was submitted"
    };
    out.chat(format!("run {} ({}) {verb}", run.id, harmless(&run.name)));
    let dir = if order.has_folder {
        order.config.out_root.as_str()
    } else {
        "DIR"
    };
    out.chat(format!(
        "follow it with `skillopt watch {id}`, fetch its folder with `skillopt export {id} --out {dir}`, \
         end it with `skillopt cancel {id}`",
        id = run.id
    ));
    Ok(Exit::Done)
}

/// Uploads what the cluster lacks and submits the run, or finds the one that was submitted before.
/// Returns it, and whether it was there.
///
/// # Errors
/// Nobody answers, or a refusal. *Cancel safety*: the same call again finds the same run.
pub(super) async fn submit(
    order: &Order,
    remote: &Remote,
    out: &Out,
) -> Result<(Run, bool), Failure> {
    let folder = order.folder();
    let bundle = order.root.to_string();
    let known = Marker::read(&folder).filter(|m| order.has_folder && m.bundle == bundle);
    let known = known.filter(|m| order.how.key.as_ref().is_none_or(|key| *key == m.key));
    let mut marker = known.unwrap_or_else(|| Marker {
        key: order.how.key.clone().unwrap_or_else(new_key),
        bundle,
        run: String::new(),
        coordinator: String::new(),
    });
    let sent = remote::upload(remote, &order.blobs).await?;
    if sent >= TOLD_BYTES {
        out.chat(format!("sent {} bytes", amount(sent)));
    }
    let (mut run, mut existed) = ask(order, remote, &mut marker).await?;
    let is_void = matches!(run.state.as_str(), "cancelled" | "failed");
    if existed && is_void && order.how.key.is_none() {
        out.chat(format!("run {} {}; submitting it anew", run.id, run.state));
        marker.key = new_key();
        (run, existed) = ask(order, remote, &mut marker).await?;
    }
    if existed && run.state == "paused" {
        out.chat(format!("run {} was paused; it goes on", run.id));
        run = resume(order, remote, &run).await?;
    } else if existed && !is_over(&run.state) {
        out.chat(format!("run {} goes on", run.id));
    }
    Ok((run, existed))
}

async fn ask(order: &Order, remote: &Remote, marker: &mut Marker) -> Result<(Run, bool), Failure> {
    // Written before: if this process dies now, the next one submits under the same key.
    remote.places().clone_into(&mut marker.coordinator);
    marker.run.clear();
    keep(order, marker)?;
    let config = &order.config;
    let request = SubmitRunRequest {
        client_key: marker.key.clone(),
        name: order.name.clone(),
        kind: order.kind.to_owned(),
        bundle: order.root.as_bytes().to_vec(),
        weight: order.how.weight,
        priority: Some(order.how.priority),
        cap_requests: config.budget_requests,
        cap_tokens: config.budget_tokens,
        cap_micro_usd: config.budget_usd.map(micro_usd),
    };
    let answer = remote
        .call(async |clients| clients.runs().submit_run(request.clone()).await)
        .await?;
    let run = answer.run.unwrap_or_default();
    marker.run.clone_from(&run.id);
    keep(order, marker)?;
    Ok((run, answer.existed))
}

fn keep(order: &Order, marker: &Marker) -> Result<(), Failure> {
    if order.has_folder {
        marker.write(&order.folder())?;
    }
    Ok(())
}

async fn resume(order: &Order, remote: &Remote, run: &Run) -> Result<Run, Failure> {
    let config = &order.config;
    let request = ResumeRunRequest {
        id: run.id.clone(),
        cap_requests: config.budget_requests,
        cap_tokens: config.budget_tokens,
        cap_micro_usd: config.budget_usd.map(micro_usd),
    };
    let answer = remote
        .call(async |clients| clients.runs().resume_run(request.clone()).await)
        .await?;
    Ok(answer.run.unwrap_or_default())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive and at most 1e9 dollars"
)]
fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}
