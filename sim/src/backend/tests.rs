use super::*;
use crate::settings::Settings;

fn request(timeout_ms: u64) -> ChatRequest {
    let task = "[[sim item=val-00000 fam=K00 gold=calm otter 1]]";
    let messages = vec![
        Message::text(Role::System, "skill"),
        Message::text(Role::User, task),
    ];
    ChatRequest {
        stage: "rollout".to_owned(),
        ..ChatRequest::new(
            "sim-target",
            messages,
            100,
            Duration::from_millis(timeout_ms),
        )
    }
}

fn simulated(pairs: &[&str]) -> Simulated {
    let settings = Settings::from_pairs(pairs.iter().copied()).expect("settings");
    Simulated::new(Arc::new(SimulatedModel::new(settings)))
}

#[tokio::test(start_paused = true)]
async fn answers_carry_text_and_usage_after_their_latency() {
    let simulated = simulated(&["latency=fixed:50"]);
    let start = tokio::time::Instant::now();
    let reply = simulated.chat(&request(1000)).await.expect("an answer");
    assert_eq!(start.elapsed().as_millis() / 10, 5);
    assert!(reply.text.ends_with("<answer>calm otter 1</answer>"));
    let usage = Usage {
        calls: 1,
        // 5 bytes, 48 bytes and a newline.
        prompt_tokens: 14,
        completion_tokens: reply.text.len().div_ceil(4) as u64,
        ..Usage::default()
    };
    assert_eq!(reply.usage, usage);
}

#[tokio::test(start_paused = true)]
async fn faults_have_the_kinds_of_real_backends() {
    let endpoint = || ENDPOINT.to_owned();
    let check = async |pairs: &[&str], expected: &dyn Fn(&CallError) -> bool| {
        let error = simulated(pairs)
            .chat(&request(500))
            .await
            .expect_err("a fault");
        assert!(expected(&error), "{pairs:?}: {error}");
    };
    let throttled = |seconds: Option<u64>| CallError::Throttled {
        endpoint: endpoint(),
        retry_after: seconds.map(Duration::from_secs),
    };
    check(&["p429=1"], &|e| *e == throttled(None)).await;
    check(&["p429=1", "retry-after=7"], &|e| *e == throttled(Some(7))).await;
    check(&["p500=1"], &|e| {
        matches!(e, CallError::Server { status: 500, .. })
    })
    .await;
    check(&["preset=1"], &|e| {
        matches!(e, CallError::Connection { .. })
    })
    .await;
    check(&["phang=1"], &|e| matches!(e, CallError::Timeout { .. })).await;
    check(&["phang=1", "hang-s=0.1"], &|e| {
        matches!(e, CallError::Connection { .. })
    })
    .await;
    check(&["latency=fixed:501"], &|e| {
        matches!(e, CallError::Timeout { .. })
    })
    .await;
    check(&["pmalformed=1"], &|e| {
        matches!(e, CallError::Malformed { .. })
    })
    .await;
    check(&["unauthorized=true"], &|e| {
        matches!(e, CallError::Unauthorized { .. })
    })
    .await;
    check(&["dead=true"], &|e| {
        matches!(e, CallError::Connection { .. })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_is_counted_as_aborted() {
    let simulated = simulated(&["phang=1"]);
    simulated.chat(&request(10)).await.expect_err("a hung call");
    let stats = simulated.model().stats();
    assert_eq!((stats.calls, stats.aborted, stats.in_flight), (1, 1, 0));
}
