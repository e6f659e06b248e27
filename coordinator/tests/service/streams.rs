//! Nothing is too large.

use serde_json::{Value, json};
use skillopt_coordinator::bundle::{What, pack};
use skillopt_coordinator::service::Options;
use skillopt_proto::v1;

use crate::support::{Client, Shared, World, coordinator, worker};

/// Text that does not shrink, always the same.
fn noise(bytes: usize, mut seed: u64) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut letter = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(letters[(seed >> 58) as usize])
    };
    (0..bytes).map(|_| letter()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_megabytes_go_in_and_twenty_come_out() {
    let (world, shared) = (World::new(), Shared::new());
    // A context is cut, a question is not.
    for (part, field, bytes) in [
        ("train", "context", 22 << 20),
        ("val", "question", 20 << 20),
    ] {
        let path = world.path("data").join(part).join("items.json");
        let mut items: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        items[0][field] = noise(bytes, bytes as u64).into();
        std::fs::write(&path, items.to_string()).unwrap();
    }
    let (worker, _) = worker(&shared, &[]);
    let options = Options::local("one", world.path("scratch"));
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut client = Client::of(address).await;
    let skill = world.path("skill.md");
    std::fs::write(&skill, "# Skill\n").unwrap();
    let what = What::Evaluate(skillopt_coordinator::evaluate::Evaluation {
        skill: skill.display().to_string(),
        split: skillopt_coordinator::evaluate::Split::Val,
    });
    let config = world.config(json!({}));
    let packed = pack(&config, &what).unwrap();
    let size: usize = packed.blobs.iter().map(bytes::Bytes::len).sum();
    assert!(size >= 30 << 20, "{size}");
    let hashes: Vec<Vec<u8>> = packed
        .blobs
        .iter()
        .map(|blob| skillopt_core::Hash::of(blob).as_bytes().to_vec())
        .collect();
    let asked = v1::MissingRequest { hashes };
    let missing = client
        .content
        .missing(asked.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(missing.hashes.len(), 3);
    let run = client.submit(&config, &what, "key").await;
    let missing = client.content.missing(asked).await.unwrap().into_inner();
    assert!(missing.hashes.is_empty());
    client.until(&run.id, |run| run.state == "evaluated").await;
    let files = client.download(&run.id, false).await;
    let largest = files.values().map(Vec::len).max().unwrap();
    assert!(largest >= 20 << 20, "{largest}");
    server.drain().await;
    worker.drain().await;
}
