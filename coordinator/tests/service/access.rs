//! Who gets in, and sees what.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use skillopt_coordinator::bundle::{What, pack};
use skillopt_coordinator::service::{Coordinator, Options, ServeError, Tls, admin_token};
use skillopt_proto::v1;
use skillopt_proto::v1::cluster_client::ClusterClient;
use skillopt_proto::v1::runs_client::RunsClient;
use skillopt_queue::board::Expect;
use skillopt_queue::fleet::WorkerRecord;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Code, Request};

use crate::support::{Client, PATIENCE, Shared, World, alone, connect, coordinator, submission};

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

async fn token(client: &mut Client, by: &str, role: &str, tenant: &str, lasts_ms: u64) -> String {
    let wanted = v1::CreateTokenRequest {
        role: role.to_owned(),
        tenant: tenant.to_owned(),
        name: format!("{role} of {tenant}"),
        lasts_ms,
    };
    let made = client.cluster.create_token(with(by, wanted)).await.unwrap();
    made.into_inner().token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_and_tenants_limit_what_a_token_may_do() {
    let (world, shared, server, mut client) = alone(|options| {
        options.runs_max = 0;
        options.admin = Some(admin_token(" the-admin \n"));
    })
    .await;
    let nobody = client.cluster.list_workers(v1::ListWorkersRequest {}).await;
    assert_eq!(nobody.unwrap_err().code(), Code::Unauthenticated);

    let viewer = token(&mut client, "the-admin", "viewer", "a", 0).await;
    let submitter = token(&mut client, "the-admin", "submitter", "a", 0).await;
    let admin = token(&mut client, "the-admin", "admin", "a", 0).await;
    let other = token(&mut client, "the-admin", "submitter", "b", 0).await;

    let packed = pack(&world.config(json!({})), &What::Train).unwrap();
    let request = submission(&packed, &What::Train, "key");
    let refused = client.runs.submit_run(with(&viewer, request.clone())).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let early = client
        .runs
        .submit_run(with(&submitter, request.clone()))
        .await;
    assert_eq!(
        early.unwrap_err().code(),
        Code::FailedPrecondition,
        "no blobs yet"
    );
    use skillopt_queue::Store as _;
    shared.store.put_blobs(packed.blobs.clone()).await.unwrap();
    let run = client
        .runs
        .submit_run(with(&submitter, request))
        .await
        .unwrap();
    let run = run.into_inner().run.unwrap();
    assert_eq!(
        (run.tenant.as_str(), run.owner.as_str()),
        ("a", "submitter of a")
    );

    let get = || v1::GetRunRequest { id: run.id.clone() };
    for (who, sees) in [
        (&viewer, true),
        (&other, false),
        (&"the-admin".to_owned(), true),
    ] {
        let found = client.runs.get_run(with(who, get())).await;
        assert_eq!(found.is_ok(), sees);
        let listed = client
            .runs
            .list_runs(with(who, v1::ListRunsRequest::default()))
            .await;
        assert_eq!(!listed.unwrap().into_inner().runs.is_empty(), sees);
    }
    let cancel = v1::CancelRunRequest { id: run.id.clone() };
    let others = client.runs.cancel_run(with(&other, cancel.clone())).await;
    assert_eq!(others.unwrap_err().code(), Code::NotFound);
    let looks = client.runs.cancel_run(with(&viewer, cancel)).await;
    assert_eq!(looks.unwrap_err().code(), Code::PermissionDenied);

    // An admin of a tenant makes no token of another.
    let wanted = v1::CreateTokenRequest {
        role: "viewer".to_owned(),
        tenant: "b".to_owned(),
        name: "x".to_owned(),
        lasts_ms: 0,
    };
    let beyond = client
        .cluster
        .create_token(with(&admin, wanted.clone()))
        .await;
    assert_eq!(beyond.unwrap_err().code(), Code::PermissionDenied);
    let below = client.cluster.create_token(with(&submitter, wanted)).await;
    assert_eq!(below.unwrap_err().code(), Code::PermissionDenied);

    // A token that is over, one that was taken back, and guesses.
    let short = token(&mut client, "the-admin", "viewer", "a", 1).await;
    let ended = tokio::time::timeout(PATIENCE, async {
        while client.runs.get_run(with(&short, get())).await.is_ok() {}
    });
    ended.await.unwrap();
    let id = viewer.split('_').nth(1).unwrap().to_owned();
    let revoke = v1::RevokeTokenRequest { id };
    client
        .cluster
        .revoke_token(with(&admin, revoke))
        .await
        .unwrap();
    for n in 0..8 {
        let guess = format!("{viewer}{n}");
        let shown = if n == 0 { &viewer } else { &guess };
        let refused = client.runs.get_run(with(shown, get())).await.unwrap_err();
        let wrong_before = n + 1;
        let expected = if wrong_before < 5 {
            Code::Unauthenticated
        } else {
            Code::ResourceExhausted
        };
        assert_eq!(refused.code(), expected, "{n}: {}", refused.message());
    }
    // Whoever has a valid one is let in from the same address all the same.
    client.runs.get_run(with(&submitter, get())).await.unwrap();
    server.drain().await;
}

#[tokio::test]
async fn plain_text_stays_on_this_machine() {
    let (world, shared) = (World::new(), Shared::new());
    let options = Options {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..Options::local("one", world.path("scratch"))
    };
    let refused = Coordinator::bind(options, shared.parts()).await;
    assert!(matches!(refused, Err(ServeError::Plain(_))));
}

/// A root that vouches for others.
fn root(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(root: &CertifiedIssuer<'static, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, root).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_proves_the_server_and_mutual_tls_the_client() {
    let (world, shared) = (World::new(), Shared::new());
    let (ours, theirs) = (root("ours"), root("theirs"));
    let (certificate, key) = signed(&ours);
    let options = Options {
        tls: Some(Tls {
            certificate: certificate.into_bytes(),
            key: key.into_bytes(),
            client_ca: Some(ours.pem().into_bytes()),
        }),
        ..Options::local("one", world.path("scratch"))
    };
    let (server, address) = coordinator(shared.parts(), options).await;
    let call = async |identity: Option<(String, String)>, ca: String| {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca))
            .domain_name("localhost");
        if let Some((certificate, key)) = identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let place = format!("https://{address}");
        let endpoint = Channel::from_shared(place)
            .unwrap()
            .tls_config(tls)
            .unwrap();
        let Ok(channel) = endpoint.connect().await else {
            return false;
        };
        let mut client = RunsClient::new(channel);
        client
            .list_runs(v1::ListRunsRequest::default())
            .await
            .is_ok()
    };
    assert!(call(Some(signed(&ours)), ours.pem()).await);
    assert!(
        !call(None, ours.pem()).await,
        "a client without a certificate"
    );
    assert!(
        !call(Some(signed(&theirs)), ours.pem()).await,
        "one of somebody else"
    );
    assert!(
        !call(Some(signed(&ours)), theirs.pem()).await,
        "a server nobody vouches for"
    );
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_health_or_the_schema_needs_no_token() {
    let (world, shared) = (World::new(), Shared::new());
    let options = Options {
        http: Some("127.0.0.1:0".parse().unwrap()),
        admin: Some(admin_token("x")),
        ..Options::local("one", world.path("scratch"))
    };
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut cluster = ClusterClient::new(connect(address).await);
    let refused = cluster.overview(with("x", v1::OverviewRequest {})).await;
    let overview = refused.unwrap().into_inner().overview_json;
    assert!(overview.contains("\"waiting\":0"), "{overview}");
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_had_a_token_is_open_to_nobody_when_the_last_one_is_gone() {
    let (_world, _shared, server, mut client) = alone(|options| {
        options.runs_max = 0;
    })
    .await;
    let look = || v1::ListWorkersRequest {};
    client.cluster.list_workers(look()).await.unwrap();
    let wanted = v1::CreateTokenRequest {
        role: "admin".to_owned(),
        name: "first".to_owned(),
        ..Default::default()
    };
    let made = client.cluster.create_token(wanted).await.unwrap();
    let made = made.into_inner();
    let revoke = v1::RevokeTokenRequest { id: made.id };
    let revoked = client.cluster.revoke_token(with(&made.token, revoke)).await;
    revoked.unwrap();
    let nobody = client.cluster.list_workers(look()).await.unwrap_err();
    assert_eq!(nobody.code(), Code::Unauthenticated);
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_concerns_all_tenants_is_not_for_one() {
    let (_world, shared, server, mut client) = alone(|options| {
        options.runs_max = 0;
        options.admin = Some(admin_token("root"));
    })
    .await;
    let admin = token(&mut client, "root", "admin", "a", 0).await;
    let record = json!({
        "version": 1, "id": "w-1", "state": "well", "cause": "", "program": "1",
        "started_ms": 1, "seen_ms": 1, "slots": {}, "busy": {}, "lanes": [],
        "jobs_done": 0, "jobs_failed": 0, "jobs": ["item-of-b"],
    });
    let record: WorkerRecord = serde_json::from_value(record).unwrap();
    let bytes = serde_json::to_vec(&record).unwrap();
    let board = &shared.board;
    let path = WorkerRecord::path("w-1");
    let put = board.put(&path, bytes.into(), Expect::Any, None).await;
    put.unwrap();
    let key = skillopt_core::Hash::of(b"a job").to_string();
    for (who, is_global) in [(&*admin, false), ("root", true)] {
        let asked = with(who, v1::ListWorkersRequest {});
        let workers = client.cluster.list_workers(asked).await.unwrap();
        let worker = workers.into_inner().workers.remove(0);
        assert_eq!(!worker.jobs.is_empty(), is_global);
        let asked = with(who, v1::OverviewRequest {});
        let seen = client.cluster.overview(asked).await.unwrap();
        let seen = seen.into_inner().overview_json;
        assert_eq!(seen.contains("item-of-b"), is_global, "{seen}");
        let asked = with(who, v1::WhyRequest { id: key.clone() });
        let why = client.cluster.why(asked).await;
        assert_eq!(why.is_ok(), is_global, "{why:?}");
        let asked = v1::DrainWorkerRequest {
            id: "w-1".to_owned(),
        };
        let drained = client.cluster.drain_worker(with(who, asked)).await;
        assert_eq!(drained.is_ok(), is_global, "{drained:?}");
    }
    server.drain().await;
}

/// Submits a run of a tenant's, and returns its id.
async fn submit(
    client: &mut Client,
    shared: &Shared,
    world: &World,
    who: &str,
    key: &str,
) -> String {
    use skillopt_queue::Store as _;
    let packed = pack(&world.config(json!({})), &What::Train).unwrap();
    shared.store.put_blobs(packed.blobs.clone()).await.unwrap();
    let asked = with(who, submission(&packed, &What::Train, key));
    let made = client.runs.submit_run(asked).await.unwrap();
    made.into_inner().run.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_show_a_tenant_its_own_however_many_others_have() {
    let (world, shared, server, mut client) = alone(|options| {
        options.runs_max = 0;
        options.admin = Some(admin_token("root"));
    })
    .await;
    let a = token(&mut client, "root", "admin", "a", 0).await;
    let b = token(&mut client, "root", "admin", "b", 0).await;
    let mut own = Vec::new();
    for key in ["1", "2", "3"] {
        own.push(submit(&mut client, &shared, &world, &a, key).await);
        for n in 0..4 {
            submit(&mut client, &shared, &world, &b, &format!("{key}/{n}")).await;
        }
    }
    own.sort_unstable();

    // Runs, page by page, also those of one state.
    for state in ["", "queued"] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let asked = v1::ListRunsRequest {
                after: after.clone(),
                page_size: 2,
                state: state.to_owned(),
                ..Default::default()
            };
            let page = client.runs.list_runs(with(&a, asked)).await.unwrap();
            let page = page.into_inner();
            seen.extend(page.runs.into_iter().map(|run| run.id));
            if page.next.is_empty() {
                break;
            }
            after = page.next;
        }
        seen.sort_unstable();
        assert_eq!(seen, own, "{state}");
    }
    let none = v1::ListRunsRequest {
        state: "failed".to_owned(),
        ..Default::default()
    };
    let none = client.runs.list_runs(with(&a, none)).await.unwrap();
    assert!(none.into_inner().runs.is_empty());

    // Use by run and by tenant, and the glance.
    let usage = async |client: &mut Client, by: &str, id: &str| {
        let (by, id) = (by.to_owned(), id.to_owned());
        let asked = with(&a, v1::UsageRequest { by, id });
        let rows = client.cluster.usage(asked).await?.into_inner().rows;
        let mut ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        ids.sort_unstable();
        Ok::<_, tonic::Status>(ids)
    };
    assert_eq!(usage(&mut client, "run", "").await.unwrap(), own);
    assert_eq!(usage(&mut client, "", &own[0]).await.unwrap(), own[..1]);
    assert_eq!(usage(&mut client, "tenant", "").await.unwrap(), ["a"]);
    let denied = usage(&mut client, "tenant", "b").await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(usage(&mut client, "sweep", "").await.unwrap().is_empty());
    let seen = client.cluster.overview(with(&a, v1::OverviewRequest {}));
    let seen = seen.await.unwrap().into_inner().overview_json;
    let shown = |id: &String| seen.contains(id.as_str());
    assert!(own.iter().all(shown), "{seen}");
    assert_eq!(seen.matches("\"a run\"").count(), own.len(), "{seen}");

    // All runs have the same name: a name that several have says nothing.
    let named = v1::GetRunRequest {
        id: "a run".to_owned(),
    };
    let several = client.runs.get_run(with(&a, named)).await.unwrap_err();
    assert_eq!(several.code(), Code::InvalidArgument, "{several:?}");
    assert!(own.iter().any(|id| several.message().contains(id)));

    // Tokens.
    let tokens = async |client: &mut Client, who: &str| {
        let listed = client
            .cluster
            .list_tokens(with(who, v1::ListTokensRequest {}));
        let listed = listed.await.unwrap().into_inner().tokens;
        listed
            .into_iter()
            .map(|token| token.tenant)
            .collect::<Vec<_>>()
    };
    assert_eq!(tokens(&mut client, &a).await, ["a"]);
    assert_eq!(tokens(&mut client, "root").await.len(), 2);

    // A tenant's admin does not set its caps.
    let caps = |tenant: &str| v1::SetCapsRequest {
        tenant: tenant.to_owned(),
        cap_requests: Some(5),
        ..Default::default()
    };
    let refused = client.cluster.set_caps(with(&a, caps("a"))).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let set = client.cluster.set_caps(with("root", caps("a"))).await;
    let row = set.unwrap().into_inner().tenant.unwrap();
    assert_eq!((row.id.as_str(), row.cap_requests), ("a", Some(5)));
    for wrong in ["", "a/b"] {
        let set = client.cluster.set_caps(with("root", caps(wrong))).await;
        assert_eq!(set.unwrap_err().code(), Code::InvalidArgument);
    }
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_may_ask_why_its_own_job_waits() {
    let (world, shared, server, mut client) = alone(|options| {
        options.admin = Some(admin_token("root"));
    })
    .await;
    let a = token(&mut client, "root", "submitter", "a", 0).await;
    let b = token(&mut client, "root", "viewer", "b", 0).await;
    submit(&mut client, &shared, &world, &a, "key").await;
    // Nobody works, so that its jobs wait in the queue.
    let Some(key) = tokio::time::timeout(PATIENCE, async {
        loop {
            let letters = shared.queue.stats().await.unwrap();
            if letters.queued > 0 {
                let lane = skillopt_core::capability::rollouts(
                    "simulated",
                    "searchqa",
                    skillopt_benchmarks::registry::find("searchqa")
                        .unwrap()
                        .version(),
                );
                let want = skillopt_queue::Want {
                    worker: "test".into(),
                    lanes: vec![skillopt_queue::Lane::new(&lane)],
                    max: 1,
                    ttl: std::time::Duration::from_secs(60),
                };
                let token = tokio_util::sync::CancellationToken::new();
                let leased = shared.queue.lease(want, &token).await.unwrap();
                return leased.first().map(|leased| leased.ticket.key.to_string());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap() else {
        panic!("no job");
    };
    for id in [&*key, &key[..12]] {
        for (who, sees) in [(&*a, true), (&*b, false), ("root", true)] {
            let asked = with(who, v1::WhyRequest { id: id.to_owned() });
            let why = client.cluster.why(asked).await;
            assert_eq!(why.is_ok(), sees, "{who}: {why:?}");
        }
    }
    server.drain().await;
}
