//! The clients' side.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use skillopt_backends::conformance::{Kit, crowd};
use skillopt_backends::http::Transport;
use skillopt_backends::{ChatModel, Http};
use skillopt_runtime::limits::{raise_open_files, used};

use super::Outcome;

/// Calls of a measurement of time; those before them open the connections.
const CALLS: u64 = 20_000;
const FIRST_CALLS: u64 = 2_000;
/// Calls under way at once where time is measured.
const WIDTH: usize = 64;
/// Calls under way at once where memory is measured.
const FLIGHT: usize = 4_000;
/// Calls of the soak, and how long one of them may take: only those that hang reach it.
const SOAK: u64 = 100_000;
const SOAK_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn run(what: &str, kit: Kit, url: &str, certificate: &Path) -> Outcome<Value> {
    // Fewer files than calls show as failed calls.
    let _ = raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let transport = Transport {
        ca_file: url.starts_with("https").then(|| certificate.to_path_buf()),
        ..Transport::default()
    };
    let client = kit.client_at(url, &Http::with(transport));
    match what {
        "cpu" => Ok(runtime.block_on(cpu(&kit, &client))),
        "flight" => Ok(runtime.block_on(flight(&kit, &client))),
        "soak" => runtime.block_on(soak(&kit, client)),
        _ => Err("no such measurement".into()),
    }
}

/// Processor time of one call.
async fn cpu(kit: &Kit, client: &Arc<dyn ChatModel>) -> Value {
    let request = kit.request();
    crowd::ask(client, &request, FIRST_CALLS, WIDTH).await;
    let before = used().cpu_s;
    let seen = crowd::ask(client, &request, CALLS, WIDTH).await;
    assert_eq!(seen.into_values().collect::<Vec<_>>(), [CALLS]);
    json!({"us": (used().cpu_s - before) * 1e6 / CALLS as f64})
}

/// Memory of a process with thousands of calls under way.
async fn flight(kit: &Kit, client: &Arc<dyn ChatModel>) -> Value {
    let request = kit.request();
    let seen = crowd::ask(client, &request, FLIGHT as u64, FLIGHT).await;
    let seen: Map<_, _> = words(seen);
    json!({"peak_mib": used().peak_rss_mib, "sockets": crowd::open_files(), "seen": seen})
}

/// Many calls to a server in a bad hour.
async fn soak(kit: &Kit, client: Arc<dyn ChatModel>) -> Outcome<Value> {
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut request = kit.request();
    request.timeout = SOAK_LIMIT;
    let (tasks, files) = (metrics.num_alive_tasks(), crowd::open_files());
    // The same share of each thousand fails, so that halves can be compared.
    let mut seen = crowd::ask(&client, &request, SOAK / 2, WIDTH).await;
    let half_kib = resident_kib()?;
    for (outcome, count) in crowd::ask(&client, &request, SOAK / 2, WIDTH).await {
        *seen.entry(outcome).or_default() += count;
    }
    let whole_kib = resident_kib()?;
    drop(client);
    // What the client leaves ends by itself, soon or never.
    for _ in 0..1_000_000 {
        if metrics.num_alive_tasks() <= tasks && crowd::open_files() <= files {
            break;
        }
        tokio::task::yield_now().await;
    }
    let left = |now: usize, before: usize| now.saturating_sub(before);
    Ok(json!({
        "wrong": i64::from(seen != crowd::expected(SOAK)),
        "accounted": seen.values().sum::<u64>(),
        "seen": words(seen),
        "grown_kib": whole_kib - half_kib,
        "resident_kib": whole_kib,
        "sockets_left": left(crowd::open_files(), files),
        "tasks_left": left(metrics.num_alive_tasks(), tasks),
    }))
}

fn words(seen: std::collections::BTreeMap<skillopt_backends::Outcome, u64>) -> Map<String, Value> {
    let words = seen.into_iter();
    words
        .map(|(outcome, count)| (outcome.as_str().to_owned(), count.into()))
        .collect()
}

fn resident_kib() -> Outcome<i64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number
        .ok_or("the system does not tell the memory")?
        .parse()?)
}
