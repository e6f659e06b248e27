use std::time::Duration;

use serde_json::{Map, json};
use skillopt_backends::CallError;
use skillopt_core::job::{Profile, Usage};

use super::*;

fn profile(backend: &str) -> Profile {
    Profile::bare("target", backend, "m")
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let endpoint = || "https://h/v1".to_owned();
    let connection = |detail: &str| CallError::Connection {
        endpoint: endpoint(),
        detail: detail.to_owned(),
    };
    let refused = |detail: &str| CallError::Misconfigured {
        endpoint: endpoint(),
        status: 404,
        detail: detail.to_owned(),
    };
    let unauthorized = CallError::Unauthorized {
        endpoint: endpoint(),
        status: 401,
        detail: "no".to_owned(),
    };
    let poor = CallError::Unauthorized {
        endpoint: endpoint(),
        status: 429,
        detail: "insufficient_quota".to_owned(),
    };
    for (error, backend, want) in [
        (poor, "openai_chat", "quota or credit"),
        (unauthorized.clone(), "minimax_chat", "MINIMAX_API_KEY"),
        (unauthorized, "minimax_chat", "another region"),
        (
            connection("dns error: failed to lookup address information"),
            "qwen_chat",
            "no such host",
        ),
        (
            connection("invalid peer certificate: UnknownIssuer"),
            "qwen_chat",
            "SSL_CERT_FILE",
        ),
        (
            connection("certificate not valid yet: verification time 1"),
            "qwen_chat",
            "clock",
        ),
        (
            connection("tcp connect error: Connection refused (os error 111)"),
            "qwen_chat",
            "nothing listens",
        ),
        (connection("unsuccessful tunnel"), "qwen_chat", "NO_PROXY"),
        (
            refused("DeploymentNotFound"),
            "openai_chat",
            "no such deployment",
        ),
        (
            refused("The model `m` does not exist"),
            "openai_chat",
            "does not know the model",
        ),
        (
            refused("unknown parameter: enable_thinking"),
            "qwen_chat",
            "thinking mode",
        ),
    ] {
        let said = of_call(&error, &profile(backend));
        assert!(said.contains(want), "{error}: {said}");
    }
}

/// Addresses hold the words of the tables: `deployments`, `models`, `proxy`.
#[test]
fn an_address_says_nothing_of_what_is_wrong() {
    let azure = "https://h/openai/deployments/m/chat/completions";
    let google = "https://h/v1beta/models/m:generateContent";
    let refused = |endpoint: &str, detail: &str| CallError::Misconfigured {
        endpoint: endpoint.to_owned(),
        status: 400,
        detail: detail.to_owned(),
    };
    let connection = CallError::Connection {
        endpoint: "https://llm-proxy.h/v1".to_owned(),
        detail: "tcp connect error: Connection refused (os error 111)".to_owned(),
    };
    for (error, want) in [
        (refused(azure, "unsupported api-version"), "API version"),
        (
            refused(azure, "the temperature is not supported"),
            "the temperature",
        ),
        (
            refused(google, "thinking_budget is out of range"),
            "thinking mode",
        ),
        (connection, "nothing listens"),
    ] {
        let said = of_call(&error, &profile("openai_chat"));
        assert!(said.contains(want), "{error}: {said}");
    }
    for endpoint in [azure, google] {
        let said = of_call(&refused(endpoint, "no"), &profile("openai_chat"));
        for word in ["deployment", "does not know the model"] {
            assert!(!said.contains(word), "{endpoint}: {said}");
        }
    }
}

fn roles(target: &str, optimizer: &str) -> Roles {
    let facts = json!({"target_backend": target, "optimizer_backend": optimizer});
    Roles::of_facts(facts.as_object().unwrap_or(&Map::new()))
}

/// A run tells of the failed call of one of its jobs.
fn of_a_job(job: &str, error: &CallError) -> String {
    format!("{job}: {error} (3 tries)")
}

#[test]
fn a_pause_names_the_keys_of_whoever_was_asked() {
    let error = CallError::Unauthorized {
        endpoint: "https://h/v1".to_owned(),
        status: 401,
        detail: "no".to_owned(),
    };
    let roles = roles("claude_chat", "qwen_chat");
    for (job, want, not) in [
        ("rollout of item `a`", "CLAUDE_API_KEY", "QWEN_CHAT_API_KEY"),
        ("`analyst` call", "QWEN_CHAT_API_KEY", "CLAUDE_API_KEY"),
    ] {
        let said = advice(&of_a_job(job, &error), &roles).unwrap();
        assert!(said.contains(want) && !said.contains(not), "{job}: {said}");
    }
    let said = advice(&of_a_job("rollout of item `a`", &error), &Roles::default()).unwrap();
    assert!(said.starts_with("set the key"), "{said}");
}

#[test]
fn a_pause_says_what_helps_against_each_failure_of_a_call() {
    let (endpoint, detail) = (|| "http://x/v1".to_owned(), || "?".to_owned());
    let limit = Duration::from_secs(1);
    let refused = CallError::Connection {
        endpoint: endpoint(),
        detail: "tcp connect error: Connection refused (os error 111)".to_owned(),
    };
    let unauthorized = CallError::Unauthorized {
        endpoint: "az".to_owned(),
        status: 0,
        detail: "Please run az login".to_owned(),
    };
    for (error, want) in [
        (refused.clone(), "nothing listens there"),
        (refused, "`model.azure_openai_endpoint`"),
        (
            CallError::Connection {
                endpoint: endpoint(),
                detail: detail(),
            },
            "whether the server is up",
        ),
        (
            CallError::SignIn(Box::new(unauthorized.clone())),
            "az login",
        ),
        (
            CallError::SignIn(Box::new(unauthorized)),
            "`model.azure_openai_auth_mode`",
        ),
        (
            CallError::Timeout {
                endpoint: endpoint(),
                limit,
            },
            "env.exec_timeout",
        ),
        (
            CallError::Stalled {
                endpoint: endpoint(),
                limit,
                awaited: "the first byte",
            },
            "SKILLOPT_FIRST_BYTE_SECONDS",
        ),
        (
            CallError::Unfit {
                endpoint: endpoint(),
                detail: detail(),
                usage: Usage::default(),
            },
            "answer mode `free`",
        ),
        (
            CallError::Misconfigured {
                endpoint: endpoint(),
                status: 404,
                detail: detail(),
            },
            "model's name",
        ),
        (
            CallError::Rejected {
                endpoint: endpoint(),
                status: 400,
                detail: detail(),
            },
            "model's name",
        ),
        (
            CallError::Throttled {
                endpoint: endpoint(),
                retry_after: None,
            },
            "fewer slots",
        ),
        (
            CallError::Server {
                endpoint: endpoint(),
                status: 503,
                retry_after: None,
                detail: detail(),
            },
            "wait",
        ),
        (
            CallError::Malformed {
                endpoint: endpoint(),
                detail: detail(),
            },
            "interface of its backend",
        ),
    ] {
        let told = of_a_job("rollout of item `a`", &error);
        let said = advice(&told, &roles("openai_chat", "openai_chat"));
        assert!(
            said.as_ref().is_some_and(|said| said.contains(want)),
            "{error}: {said:?}"
        );
    }
}

#[test]
fn troubles_of_the_machine_have_their_advice_and_others_none() {
    let full = std::io::Error::from_raw_os_error(28).to_string();
    let none = Roles::default();
    assert_eq!(advice(&full, &none).unwrap(), "make room on the disk");
    assert_eq!(advice("something else", &none), None);
    // It is no call's trouble, whatever was the matter inside.
    let machine = CallError::Machine {
        detail: "the agent's sandbox could not start: no connection to init".to_owned(),
    };
    let said = advice(&machine.to_string(), &none).unwrap();
    assert!(said.contains("skillopt doctor"), "{said}");
}
