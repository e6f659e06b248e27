//! A bundle is the run that it was made of.

use serde_json::{Value, json};
use skillopt_coordinator::bundle::{Packed, Suites, UnpackError, What, pack, unpack};
use skillopt_coordinator::evaluate::{Evaluation, Split};
use skillopt_coordinator::prepare::Prepared;
use skillopt_core::Hash;
use skillopt_queue::{MemoryStore, Store as _};

use crate::support::World;

fn same(a: &Prepared, b: &Prepared) {
    assert_eq!(a.common.run, b.common.run);
    assert_eq!(a.facts, b.facts);
    assert_eq!(a.config, b.config);
    assert_eq!(a.blobs, b.blobs);
    assert_eq!(a.title, b.title);
    assert_eq!(a.profiles, b.profiles);
    assert_eq!(a.plan.samples, b.plan.samples);
    assert_eq!(a.plan.generated, b.plan.generated);
    assert_eq!(a.plan.initial, b.plan.initial);
    assert_eq!(a.plan.epoch.steps, b.plan.epoch.steps);
    assert_eq!(a.common.rollout_limits, b.common.rollout_limits);
    assert_eq!(a.common.rollout_lane, b.common.rollout_lane);
}

#[tokio::test]
async fn every_kind_of_run_comes_out_as_it_went_in() {
    let world = World::new();
    let prompts = world.path("prompts");
    std::fs::create_dir(&prompts).unwrap();
    std::fs::write(prompts.join("ranking.md"), "rank them\n").unwrap();
    let skill = world.path("skill");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "# Skill\n").unwrap();
    std::fs::write(skill.join("run.sh"), [0xff, 0, 1]).unwrap();
    let raw = world.path("data").join("train").join("items.json");
    let evaluation = |split| {
        What::Evaluate(Evaluation {
            skill: skill.display().to_string(),
            split,
        })
    };
    for (more, what) in [
        (json!({}), What::Train),
        (
            json!({"skill_init": skill, "prompts_dir": prompts}),
            What::Train,
        ),
        (
            json!({"split_mode": "ratio", "split_dir": "", "data_path": raw, "split_ratio": "2:1:1"}),
            What::Train,
        ),
        (
            json!({"scope": "fresh", "optimizer_timeout": 7.5, "test_env_num": 3}),
            What::Train,
        ),
        (
            json!({
                "model_backend": "openai_compatible", "github_token": "t-secret",
                "openai_compatible_base_url": "http://127.0.0.1:9/v1",
                "openai_compatible_api_key": "sk-secret",
            }),
            What::Train,
        ),
        (json!({}), evaluation(Split::All)),
        (json!({"test_env_num": 2}), evaluation(Split::Test)),
    ] {
        let config = world.config(more.clone());
        let packed = pack(&config, &what).unwrap();
        let text: Vec<u8> = packed.blobs.concat();
        let holds = |secret: &[u8]| text.windows(secret.len()).any(|w| w == secret);
        assert!(!holds(b"sk-secret") && !holds(b"t-secret"), "{more}");
        let store = MemoryStore::new();
        store.put_blobs(packed.blobs.clone()).await.unwrap();
        let read = unpack(&store, packed.root, None, &Suites::default())
            .await
            .unwrap();
        assert_eq!(read.what, what);
        same(&read.prepared, &packed.prepared);
        assert_eq!(read.config.out_root, config.out_root);
    }
}

#[tokio::test]
async fn runs_on_the_same_data_share_a_suite_and_what_is_missing_is_named() {
    let world = World::new();
    let a = pack(&world.config(json!({"seed": 1})), &What::Train).unwrap();
    let b = pack(
        &world.config(json!({"seed": 2, "out_root": "other"})),
        &What::Train,
    )
    .unwrap();
    assert_ne!(a.root, b.root);
    assert_eq!(a.blobs[0], b.blobs[0]);
    let store = MemoryStore::new();
    store.put_blob(a.blobs[2].clone()).await.unwrap();
    let missing = unpack(&store, a.root, None, &Suites::default())
        .await
        .unwrap_err();
    let suite = Hash::of(&a.blobs[0]);
    assert!(matches!(missing, UnpackError::Missing(hash) if hash == suite));
    let nothing = unpack(&store, suite, None, &Suites::default())
        .await
        .unwrap_err();
    assert!(nothing.to_string().contains("is not there"), "{nothing}");
}

#[tokio::test]
async fn a_bundle_of_a_later_release_is_refused_by_its_version() {
    let store = MemoryStore::new();
    let later = br#"{"version": 9, "shape": "new"}"#.as_slice();
    let root = store.put_blob(later.into()).await.unwrap();
    let refused = unpack(&store, root, None, &Suites::default())
        .await
        .unwrap_err();
    assert!(
        matches!(refused, UnpackError::Newer { found: 9 }),
        "{refused}"
    );
}

#[tokio::test]
async fn another_skill_makes_it_an_evaluation_on_the_test_items() {
    let world = World::new();
    let packed = pack(&world.config(json!({})), &What::Train).unwrap();
    let store = MemoryStore::new();
    store.put_blobs(packed.blobs.clone()).await.unwrap();
    let skill = store.put_blob("# Other\n".into()).await.unwrap();
    let read = unpack(&store, packed.root, Some(skill), &Suites::default())
        .await
        .unwrap();
    assert_eq!(read.what.kind(), "eval");
    assert_eq!(read.prepared.plan.initial.document, "# Other\n");
    assert_ne!(read.prepared.common.run, packed.prepared.common.run);
}

fn read(blob: &[u8]) -> Value {
    match zstd::decode_all(blob) {
        Ok(json) => serde_json::from_slice(&json).unwrap(),
        Err(_) => serde_json::from_slice(blob).unwrap(),
    }
}

/// Puts a bundle with another suite into the store; returns its root.
async fn forged(store: &MemoryStore, packed: &Packed, suite: &Value) -> Hash {
    store.put_blobs(packed.blobs.clone()).await.unwrap();
    let suite = store.put_blob(suite.to_string().into()).await.unwrap();
    let mut root = read(&packed.blobs[2]);
    root["suite"] = serde_json::to_value(suite).unwrap();
    store.put_blob(root.to_string().into()).await.unwrap()
}

#[tokio::test]
async fn a_drawn_file_that_leaves_the_run_folder_is_refused() {
    let world = World::new();
    let raw = world.path("data").join("train").join("items.json");
    let more = json!({
        "split_mode": "ratio", "split_dir": "", "data_path": raw, "split_ratio": "2:1:1",
    });
    let packed = pack(&world.config(more), &What::Train).unwrap();
    let (store, suite) = (MemoryStore::new(), read(&packed.blobs[0]));
    assert!(suite["generated"][0]["is_below"].as_bool().unwrap());
    for path in ["/etc/cron.d/x", "../x", "a/../../x", "", "./x"] {
        let mut bad = suite.clone();
        bad["generated"][0]["path"] = path.into();
        let root = forged(&store, &packed, &bad).await;
        let refused = unpack(&store, root, None, &Suites::default()).await;
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, UnpackError::Damaged(_)),
            "{path}: {refused}"
        );
    }
    let mut many = suite.clone();
    many["generated"] = vec![suite["generated"][0].clone(); 65].into();
    let root = forged(&store, &packed, &many).await;
    let refused = unpack(&store, root, None, &Suites::default()).await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("65 files"), "{refused}");

    let root = forged(&store, &packed, &suite).await;
    let mut good = unpack(&store, root, None, &Suites::default())
        .await
        .unwrap();
    let place = world.path("place");
    good.put_at(&place).unwrap();
    let split = good.prepared.plan.generated.clone().unwrap();
    assert!(!split.files().is_empty());
    assert!(
        split
            .files()
            .iter()
            .all(|(path, _)| path.starts_with(&place))
    );
    // Files that lie elsewhere are not left there.
    good.config.out_root = "elsewhere".to_owned();
    assert!(good.put_at(&world.path("other")).is_err());
}

#[tokio::test]
async fn a_small_blob_that_unpacks_to_a_huge_root_is_refused() {
    let store = MemoryStore::new();
    let text = format!(r#"{{"version": 1, "pad": "{}"}}"#, " ".repeat(17 << 20));
    let small = zstd::encode_all(text.as_bytes(), 3).unwrap();
    assert!(small.len() < 1 << 20);
    let root = store.put_blob(small.into()).await.unwrap();
    let refused = unpack(&store, root, None, &Suites::default()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("more than"), "{refused}");
}
