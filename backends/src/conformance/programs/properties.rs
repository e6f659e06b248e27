//! The properties.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use skillopt_core::job::Schema;

use super::{Act, ProgramKit, Said, Script, Started};
use crate::conformance::{DOT, KEY, picture, with_tool};
use crate::{CallError, ChatReply, ChatRequest, Disposition, Outcome};

/// A program that hangs is given up after this.
const SHORT: Duration = Duration::from_millis(500);

/// Asks a program that does this.
async fn ask(
    kit: &ProgramKit,
    act: &Act,
    request: &ChatRequest,
) -> (Result<ChatReply, CallError>, Vec<Started>) {
    let script = kit.script(act);
    let answer = kit.client(&script.program()).chat(request).await;
    let started = script.started();
    assert_eq!(started.len(), 1, "one exchange, no retry: {answer:?}");
    (answer, started)
}

async fn told(kit: &ProgramKit, said: Said) -> Result<ChatReply, CallError> {
    ask(kit, &Act::Says(said), &kit.request()).await.0
}

/// And with the words that the program printed, to the prompt that it was told.
pub async fn an_answer_comes_with_what_it_used(kit: &ProgramKit) {
    let text = "Paris, \"\u{e9}\u{1f600}\"\n";
    let act = Act::Says((kit.says.answer)(text));
    let (answer, started) = ask(kit, &act, &kit.request()).await;
    let reply = answer.expect("an answer");
    assert_eq!(reply.text.trim(), text.trim());
    assert_eq!(reply.usage, kit.says.usage);
    assert_eq!(Outcome::of_reply(&reply), Outcome::Answer);
    let prompt = &started[0].stdin;
    assert!(prompt.contains("capital of France"), "{prompt}");
}

/// Where the program tells.
pub async fn a_cut_answer_is_no_whole_one(kit: &ProgramKit) {
    let Some(truncated) = kit.says.truncated else {
        return;
    };
    let reply = told(kit, truncated("Par")).await.expect("an answer");
    assert_eq!(Outcome::of_reply(&reply), Outcome::Truncated);
    assert_eq!(reply.text, "Par");
}

/// Whether to try again, or to give up, or to stop.
pub async fn each_failure_has_its_disposition(kit: &ProgramKit) {
    for (status, expected) in [
        (429, Disposition::Retry(None)),
        (500, Disposition::Retry(None)),
        (503, Disposition::Retry(None)),
        (529, Disposition::Retry(None)),
        (401, Disposition::StopRun),
        (403, Disposition::StopRun),
        (404, Disposition::StopRun),
    ] {
        let said = (kit.says.failure)(status, "something is wrong");
        let error = told(kit, said).await.expect_err("no answer");
        assert_eq!(error.disposition(), expected, "{status}: {error}");
    }
}

/// Others may fit.
pub async fn a_prompt_that_does_not_fit_is_given_up(kit: &ProgramKit) {
    let said = (kit.says.failure)(400, "Prompt is too long");
    let error = told(kit, said).await.expect_err("no answer");
    assert_eq!(error.disposition(), Disposition::GiveUp, "{error}");
}

/// Nothing, half of an answer, one that a crash follows, and a crash alone.
pub async fn a_broken_answer_is_tried_again(kit: &ProgramKit) {
    let whole = (kit.says.answer)("Paris");
    let mut half = whole.clone();
    half.stdout.truncate(half.stdout.len() / 2);
    let crash = Said {
        stderr: "kaboom".to_owned(),
        code: 3,
        ..Said::default()
    };
    for act in [
        Act::Says(Said::default()),
        Act::Says(half.clone()),
        Act::Dies(half),
        Act::Dies(whole),
        Act::Says(crash),
    ] {
        let (answer, _) = ask(kit, &act, &kit.request()).await;
        let error = answer.expect_err("no answer");
        let seen = error.disposition();
        assert_eq!(seen, Disposition::Retry(None), "{act:?}: {error}");
    }
}

/// Waits until the program and what it started are gone, while what ends them goes on.
async fn gone(script: Script) {
    let wait = move || script.wait_until_gone();
    tokio::task::spawn_blocking(wait).await.expect("it is gone");
}

/// And the limit is named.
pub async fn a_silent_program_is_ended_at_the_deadline(kit: &ProgramKit) {
    let script = kit.script(&Act::Hangs);
    let mut request = kit.request();
    request.timeout = SHORT;
    let answer = kit.client(&script.program()).chat(&request).await;
    let error = answer.expect_err("no answer");
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Retry(None));
    gone(script).await;
}

/// With all that it started.
pub async fn a_dropped_call_ends_the_program(kit: &ProgramKit) {
    let script = kit.script(&Act::Hangs);
    let client = kit.client(&script.program());
    let request = kit.request();
    {
        let call = client.chat(&request);
        tokio::pin!(call);
        // Runs until the program hangs.
        while !script.has_hung() {
            tokio::select! {
                answer = &mut call => panic!("the program is silent: {answer:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    gone(script).await;
}

/// Nothing can be asked before somebody installs it.
pub async fn a_program_that_is_not_there_is_named(kit: &ProgramKit) {
    let answer = kit.client("/nowhere/at-all").chat(&kit.request()).await;
    let error = answer.expect_err("no answer");
    assert_eq!(error.disposition(), Disposition::StopRun, "{error}");
    let said = error.to_string();
    for word in ["/nowhere/at-all", kit.program] {
        assert!(said.contains(word), "{said}");
    }
}

/// Be it an answer or a failure.
pub async fn no_key_is_in_what_it_says(kit: &ProgramKit) {
    let echo = format!("you said {KEY}");
    let crash = Said {
        stderr: echo.clone(),
        code: 1,
        ..Said::default()
    };
    for said in [
        (kit.says.answer)(&echo),
        (kit.says.failure)(401, &echo),
        (kit.says.failure)(500, &echo),
        crash,
    ] {
        let answer = told(kit, said.clone()).await;
        let seen = format!("{answer:?}");
        assert!(!seen.contains(KEY), "{said:?}: {seen}");
        assert!(seen.contains("[redacted]"), "{said:?}: {seen}");
    }
}

/// Its home is a folder that is gone with the exchange.
pub async fn it_sees_its_login_and_nothing_of_ours(kit: &ProgramKit) {
    let act = Act::Says((kit.says.answer)("Paris"));
    let (_, started) = ask(kit, &act, &kit.request()).await;
    let env = &started[0].env;
    let value = |name: &str| {
        let mut pairs = env.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, v)| v)
    };
    assert_eq!(value(kit.login), Some(KEY), "{env}");
    let home = value("HOME").expect("a home");
    assert!(!std::path::Path::new(home).exists(), "{home}");
    // Cargo sets it for every test.
    assert_eq!(value("CARGO_PKG_NAME"), None, "{env}");
}

/// Or an answer could not be found again.
pub async fn equal_requests_are_equal_prompts(kit: &ProgramKit) {
    let act = Act::Says((kit.says.answer)("Paris"));
    let (_, first) = ask(kit, &act, &kit.request()).await;
    let (_, second) = ask(kit, &act, &kit.request()).await;
    assert_eq!(first[0].stdin, second[0].stdin);
    assert!(!first[0].stdin.is_empty());
}

/// Checks that a program that cannot take a request is not started with it.
async fn refused(kit: &ProgramKit, request: &ChatRequest) {
    let script = kit.script(&Act::Says((kit.says.answer)("Paris")));
    let answer = kit.client(&script.program()).chat(request).await;
    let error = answer.expect_err("no answer");
    assert_eq!(error.disposition(), Disposition::StopRun, "{error}");
    assert!(script.started().is_empty(), "{error}");
}

/// The bytes of the image beside the text.
pub async fn images_are_sent_or_refused(kit: &ProgramKit) {
    let mut request = kit.request();
    request.messages.push(picture());
    if !kit.takes_images {
        return refused(kit, &request).await;
    }
    let act = Act::Says((kit.says.answer)("A dot."));
    let (answer, started) = ask(kit, &act, &request).await;
    answer.expect("an answer");
    let bytes = STANDARD.decode(DOT).expect("base64");
    let has_image = started[0].was_given(DOT.as_bytes()) || started[0].was_given(&bytes);
    assert!(has_image, "{:?}", started[0].args);
    assert!(started[0].was_given(b"What is on it?"));
}

/// The names and schemas go out, the arguments come back.
pub async fn tools_are_offered_and_called_or_refused(kit: &ProgramKit) {
    let request = with_tool(kit.request());
    if !kit.takes_tools {
        return refused(kit, &request).await;
    }
    let arguments = json!({"city": "Paris"});
    let called = json!([{"name": "look_up", "arguments": arguments.to_string()}]);
    let said = |calls: &Value| {
        let envelope = json!({"content": "", "tool_calls": calls});
        Act::Says((kit.says.answer)(&envelope.to_string()))
    };
    let (answer, started) = ask(kit, &said(&called), &request).await;
    let reply = answer.expect("an answer");
    assert_eq!(Outcome::of_reply(&reply), Outcome::ToolCalls);
    let [call] = reply.tool_calls.as_slice() else {
        panic!("one call: {reply:?}");
    };
    assert_eq!(call.name, "look_up");
    assert!(!call.id.is_empty());
    let seen: Value = serde_json::from_str(&call.arguments).expect("an object");
    assert_eq!(seen, arguments);
    for part in ["look_up", "Looks a city up.", "city", "tool_calls"] {
        assert!(started[0].was_given(part.as_bytes()), "{part}");
    }
    // Where one has to be called, an answer without a call is tried again.
    let (answer, _) = ask(kit, &said(&json!([])), &request).await;
    let error = answer.expect_err("no call");
    assert_eq!(error.disposition(), Disposition::Retry(None), "{error}");
}

/// Whether the program binds the answer or the model is only asked to keep to it.
pub async fn a_schema_is_told(kit: &ProgramKit) {
    let mut request = kit.request();
    request.schema = Some(Schema {
        name: "place".to_owned(),
        schema: json!({"type": "object", "properties": {"capital_city": {"type": "string"}},
            "required": ["capital_city"], "additionalProperties": false}),
    });
    let bound = json!({"capital_city": "Paris"});
    let act = Act::Says((kit.says.answer)(&bound.to_string()));
    let (answer, started) = ask(kit, &act, &request).await;
    let reply = answer.expect("an answer");
    let seen: Value = serde_json::from_str(&reply.text).expect("an object");
    assert_eq!(seen, bound);
    for part in ["capital_city", "additionalProperties"] {
        assert!(started[0].was_given(part.as_bytes()), "{part}");
    }
}
