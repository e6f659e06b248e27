//! Clients as the registry makes them, against servers of the tests: what the golden vectors do
//! not reach.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use skillopt_core::job::Profile;
use skillopt_core::secret::Secret;

use crate::contract::{ChatReply, ChatRequest, Message, Role};
use crate::declare::{Local, Options};
use crate::error::{CallError, Disposition};
use crate::http::Http;
use crate::registry;
use crate::test_servers::{Peer, json_answer};

/// Longer than any exchange of these tests takes.
const LONG: Duration = Duration::from_secs(20);

type Words<'a> = &'a [(&'a str, &'a str)];

/// Asks once, with settings, credentials and an environment.
async fn ask(
    backend: &str,
    settings: Words<'_>,
    secrets: Words<'_>,
    env: Words<'_>,
) -> Result<ChatReply, CallError> {
    ask_within(LONG, backend, settings, secrets, env).await
}

/// The same with a limit of time.
async fn ask_within(
    limit: Duration,
    backend: &str,
    settings: Words<'_>,
    secrets: Words<'_>,
    env: Words<'_>,
) -> Result<ChatReply, CallError> {
    let settings: HashMap<&str, &str> = settings.iter().copied().collect();
    let option = |key: &str| settings.get(key).map(|value| Value::from(*value));
    let find = |words: Words<'_>, name: &str| {
        let found = words.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let mut profile = Profile::bare("target", backend, "m");
    (registry::find(backend).unwrap().describe)(Options(&option), &mut profile);
    let http = Http::new();
    let local = Local {
        options: Options(&option),
        secret: &|key| find(secrets, key).map(Secret::new),
        env: &|name| find(env, name),
        http: &http,
    };
    let client = registry::connect(&profile, &local)?;
    let messages = vec![Message::text(Role::User, "?")];
    let request = ChatRequest::new("m", messages, 9, limit);
    client.chat(&request).await
}

fn run<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// The settings of an application that signs in with a secret of its own.
struct Application {
    endpoint: String,
    authority: String,
}

impl Application {
    fn new(model: &Peer, tokens: &Peer) -> Self {
        Self {
            endpoint: format!("http://{}", model.address),
            authority: format!("http://{}", tokens.address),
        }
    }

    fn settings(&self) -> [(&str, &str); 6] {
        [
            ("azure_openai_endpoint", self.endpoint.as_str()),
            ("azure_openai_auth_mode", "client_credentials"),
            ("azure_openai_tenant_id", "t/1"),
            ("azure_openai_client_id", "app"),
            ("azure_openai_authority", &self.authority),
            ("azure_openai_token_hosts", "127.0.0.1"),
        ]
    }
}

const REPLY: &str = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;

#[test]
fn an_application_signs_in_with_its_secret() {
    run(async {
        let tokens = Peer::json(r#"{"access_token":"t-1","expires_in":3600}"#).await;
        let model = Peer::json(REPLY).await;
        let application = Application::new(&model, &tokens);
        let settings = application.settings();
        let secrets = [("azure_openai_client_secret", "s&1")];
        let reply = ask("openai_chat", &settings, &secrets, &[]).await.unwrap();
        assert_eq!(reply.text, "a");
        let head = &tokens.heads()[0];
        assert!(
            head.starts_with("POST /t%2F1/oauth2/v2.0/token HTTP/1.1\r\n"),
            "{head}"
        );
        assert_eq!(
            tokens.bodies()[0],
            "grant_type=client_credentials&client_id=app&client_secret=s%261\
             &scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default"
        );
        let head = &model.heads()[0];
        assert!(head.contains("authorization: Bearer t-1\r\n"), "{head}");
        // A secret is not sent over an open line, and a missing one is named.
        let mut open = settings;
        open[4].1 = "http://login.example";
        let error = ask("openai_chat", &open, &secrets, &[]).await.unwrap_err();
        assert!(error.to_string().contains("`https`"), "{error}");
        let error = ask("openai_chat", &settings, &[], &[]).await.unwrap_err();
        assert!(error.to_string().contains("AZURE_CLIENT_SECRET"), "{error}");
    });
}

#[test]
fn a_rejected_secret_is_told_without_it() {
    run(async {
        let body = r#"{"error":"invalid_client","error_description":"AADSTS7000215 s-secret"}"#;
        let tokens = Peer::answering(&json_answer(400, body)).await;
        let model = Peer::json(REPLY).await;
        let application = Application::new(&model, &tokens);
        let settings = application.settings();
        let secrets = [("azure_openai_client_secret", "s-secret")];
        let error = ask("openai_chat", &settings, &secrets, &[])
            .await
            .unwrap_err();
        assert!(error.is_unauthorized() && !error.may_be_billed(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("AADSTS7000215") && !text.contains("s-secret"),
            "{text}"
        );
        assert_eq!(model.connections(), 0);
    });
}

#[test]
fn the_limit_of_a_call_holds_for_signing_in_too_and_no_model_was_asked() {
    run(async {
        let tokens = Peer::answering("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n").await;
        let model = Peer::json(REPLY).await;
        let application = Application::new(&model, &tokens);
        let secrets = [("azure_openai_client_secret", "s")];
        let limit = Duration::from_millis(50);
        let settings = application.settings();
        let asked = ask_within(limit, "openai_chat", &settings, &secrets, &[]);
        let error = asked.await.unwrap_err();
        let CallError::SignIn(cause) = &error else {
            panic!("{error:?}");
        };
        assert!(matches!(**cause, CallError::Timeout { .. }), "{error:?}");
        assert_eq!(error.disposition(), Disposition::Retry(None));
        assert!(!error.may_be_billed());
        assert_eq!(model.connections(), 0);
    });
}

#[test]
fn a_virtual_machine_has_an_identity_and_a_withdrawn_token_is_replaced() {
    run(async {
        let first = json_answer(200, r#"{"access_token":"t-1","expires_on":"32472144000"}"#);
        let second = json_answer(200, r#"{"access_token":"t-2","expires_on":"32472144000"}"#);
        let metadata = Peer::scripted(&[&first, &second]).await;
        let withdrawn = json_answer(401, r#"{"error":"t-1 was withdrawn"}"#);
        let model = Peer::scripted(&[&withdrawn, &json_answer(200, REPLY)]).await;
        let endpoint = format!("http://{}", model.address);
        let settings = [
            ("azure_openai_endpoint", endpoint.as_str()),
            ("azure_openai_auth_mode", "managed_identity"),
            ("azure_openai_managed_identity_client_id", "id-1"),
            ("azure_openai_token_hosts", "127.0.0.1"),
        ];
        let host = format!("http://{}", metadata.address);
        let env = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", host.as_str())];
        let reply = ask("openai_chat", &settings, &[], &env).await.unwrap();
        assert_eq!(reply.text, "a");
        let head = &metadata.heads()[0];
        let line = "GET /metadata/identity/oauth2/token?api-version=2018-02-01\
                    &resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=id-1 HTTP/1.1\r\n";
        assert!(head.starts_with(line), "{head}");
        assert!(head.contains("metadata: true\r\n"), "{head}");
        let sent = model.heads();
        assert!(
            sent[0].contains("Bearer t-1") && sent[1].contains("Bearer t-2"),
            "{sent:?}"
        );
    });
}

#[test]
fn answers_come_in_pieces_where_that_is_set() {
    run(async {
        let pieces = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
             data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n\
             data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n\
             data: [DONE]\n\n";
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
             content-length: {}\r\n\r\n{pieces}",
            pieces.len()
        );
        let server = Peer::answering(&answer).await;
        let base = format!("http://{}/v1", server.address);
        for (backend, address, stream, more) in [
            (
                "openai_compatible",
                "openai_compatible_base_url",
                "openai_compatible_stream",
                None,
            ),
            ("qwen_chat", "qwen_chat_base_url", "qwen_chat_stream", None),
            ("minimax_chat", "minimax_base_url", "minimax_stream", None),
            (
                "openai_chat",
                "azure_openai_endpoint",
                "azure_openai_stream",
                Some(("azure_openai_auth_mode", "openai_compatible")),
            ),
        ] {
            let settings: Vec<_> = [(address, base.as_str()), (stream, "true")]
                .into_iter()
                .chain(more)
                .collect();
            let reply = ask(backend, &settings, &[], &[]).await.unwrap();
            assert_eq!(
                (reply.text.as_str(), reply.usage.prompt_tokens),
                ("ab", 3),
                "{backend}"
            );
            let sent: Value = serde_json::from_str(server.bodies().last().unwrap()).unwrap();
            assert_eq!(sent["stream"], true, "{backend}");
            assert_eq!(sent["stream_options"]["include_usage"], true, "{backend}");
            let head = server.heads().pop().unwrap();
            assert!(head.contains("accept: text/event-stream\r\n"), "{head}");
        }
    });
}
