//! The properties.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{DOT, KEY, Kit, picture, with_tool};
use crate::{CallError, ChatReply, ChatRequest, Disposition, Outcome};

/// Shorter than any server of these properties is silent.
const SHORT: Duration = Duration::from_millis(50);

/// Asks a server that always answers the same.
async fn ask(kit: &Kit, reply: Reply, request: &ChatRequest) -> Result<ChatReply, CallError> {
    let server = Server::start(move |_, _| reply.clone());
    let answer = kit.client(&server).chat(request).await;
    assert_eq!(server.seen().len(), 1, "one exchange, no retry");
    answer
}

async fn told(kit: &Kit, body: &Value) -> Result<ChatReply, CallError> {
    ask(kit, kit.reply(body), &kit.request()).await
}

/// And with the words that the server sent.
pub async fn an_answer_comes_with_what_it_used(kit: &Kit) {
    let text = "Paris, \"\u{e9}\u{1f600}\"\n";
    let reply = told(kit, &(kit.wire.answer)(text))
        .await
        .expect("an answer");
    assert_eq!(reply.text.trim(), text.trim());
    assert_eq!(reply.usage, kit.wire.usage);
    assert_eq!(Outcome::of_reply(&reply), Outcome::Answer);
}

/// The token limit is told.
pub async fn a_cut_answer_is_no_whole_one(kit: &Kit) {
    let reply = told(kit, &(kit.wire.truncated)("Par"))
        .await
        .expect("an answer");
    assert_eq!(Outcome::of_reply(&reply), Outcome::Truncated);
    assert_eq!(reply.text, "Par");
}

/// It was billed all the same.
pub async fn a_withheld_answer_is_given_up_and_counted(kit: &Kit) {
    let error = told(kit, &(kit.wire.filtered)())
        .await
        .expect_err("no answer");
    assert_eq!(error.disposition(), Disposition::GiveUp, "{error}");
    assert_eq!(error.usage(), Some(kit.wire.usage));
}

/// It is not an error of the provider.
pub async fn an_answer_without_a_word_is_empty(kit: &Kit) {
    let reply = told(kit, &(kit.wire.answer)("")).await.expect("an answer");
    assert_eq!(Outcome::of_reply(&reply), Outcome::Empty);
}

/// The names and schemas go out, the arguments come back.
pub async fn tools_are_offered_and_called(kit: &Kit) {
    let arguments = json!({"city": "Paris"});
    let request = with_tool(kit.request());
    let whole = kit.reply(&(kit.wire.tool_call)("look_up", &arguments));
    let server = Server::start(move |_, _| whole.clone());
    let reply = kit.client(&server).chat(&request).await.expect("an answer");
    assert_eq!(Outcome::of_reply(&reply), Outcome::ToolCalls);
    let [call] = reply.tool_calls.as_slice() else {
        panic!("one call: {reply:?}");
    };
    assert_eq!(call.name, "look_up");
    assert!(!call.id.is_empty());
    let seen: Value = serde_json::from_str(&call.arguments).expect("an answer");
    assert_eq!(seen, arguments);
    let sent = server.seen()[0].json().to_string();
    for part in ["look_up", "Looks a city up.", "city"] {
        assert!(sent.contains(part), "{sent}");
    }
}

/// The bytes of the image beside the text.
pub async fn images_are_sent(kit: &Kit) {
    let mut request = kit.request();
    request.messages.push(picture());
    let whole = kit.reply(&(kit.wire.answer)("A dot."));
    let server = Server::start(move |_, _| whole.clone());
    kit.client(&server).chat(&request).await.expect("an answer");
    let sent = server.seen()[0].json().to_string();
    assert!(
        sent.contains(DOT) && sent.contains("What is on it?"),
        "{sent}"
    );
}

/// Whether to try again, and when; or to give up, or to stop.
pub async fn each_failure_has_its_disposition(kit: &Kit) {
    let wait = Duration::from_secs(7);
    for (status, header, expected) in [
        (429, Some("7"), Disposition::Retry(Some(wait))),
        (429, None, Disposition::Retry(None)),
        (500, None, Disposition::Retry(None)),
        (503, Some("7"), Disposition::Retry(Some(wait))),
        (529, None, Disposition::Retry(None)),
        (401, None, Disposition::StopRun),
        (403, None, Disposition::StopRun),
        (404, None, Disposition::StopRun),
    ] {
        let headers = header.map(|value| ("retry-after", value.to_owned()));
        let body = (kit.wire.error)("something is wrong").to_string();
        let reply = Reply::Answer(status, headers.into_iter().collect(), body.into_bytes());
        let error = ask(kit, reply, &kit.request())
            .await
            .expect_err("no answer");
        assert_eq!(error.disposition(), expected, "{status}: {error}");
    }
}

/// Others may fit.
pub async fn a_prompt_that_does_not_fit_is_given_up(kit: &Kit) {
    for (status, message) in kit.wire.too_long {
        let reply = Reply::json(*status, &(kit.wire.error)(message));
        let error = ask(kit, reply, &kit.request())
            .await
            .expect_err("no answer");
        assert_eq!(error.disposition(), Disposition::GiveUp, "{error}");
    }
}

/// A gateway's page is no word of the provider's, and would be sent to the next request as well.
pub async fn a_gateway_that_takes_no_long_bodies_stops_the_run(kit: &Kit) {
    let page = b"<html><head><title>413 Request Entity Too Large</title></head></html>";
    let reply = Reply::Answer(413, Vec::new(), page.to_vec());
    let error = ask(kit, reply, &kit.request())
        .await
        .expect_err("no answer");
    assert_eq!(error.disposition(), Disposition::StopRun, "{error}");
}

/// A broken connection, half a body, a page in place of an answer.
pub async fn a_broken_answer_is_tried_again(kit: &Kit) {
    let page = "<html>log in here</html>".as_bytes().to_vec();
    let whole = (kit.wire.answer)("Paris");
    let mut events = (kit.wire.pieces)(&whole);
    // A gateway that gave up closes a stream as if it were whole.
    events.truncate(events.len() / 2);
    for reply in [
        Reply::Close,
        kit.reply(&whole).cut(),
        Reply::events(events),
        Reply::Answer(200, Vec::new(), page),
        Reply::Answer(200, Vec::new(), Vec::new()),
        Reply::json(200, &json!({})),
    ] {
        let shown = format!("{reply:?}");
        let error = ask(kit, reply, &kit.request())
            .await
            .expect_err("no answer");
        assert_eq!(
            error.disposition(),
            Disposition::Retry(None),
            "{shown}: {error}"
        );
    }
}

/// However much of it had come.
pub async fn an_error_in_the_midst_of_an_answer_is_none(kit: &Kit) {
    let whole = (kit.wire.pieces)(&(kit.wire.answer)("Paris"));
    let error = (kit.wire.error_event)("the model fell over");
    for kept in 0..=whole.len() / 2 {
        let mut events = whole[..kept].to_vec();
        events.push(format!("data: {error}\n\n"));
        let error = ask(kit, Reply::events(events), &kit.request())
            .await
            .expect_err("no answer");
        assert_eq!(error.disposition(), Disposition::Retry(None), "{error}");
        assert!(error.to_string().contains("fell over"), "{error}");
    }
}

/// Waits until the client has gone, while the tasks that close its connection go on.
async fn gone(server: Server) {
    let wait = move || server.wait_until_gone();
    tokio::task::spawn_blocking(wait).await.expect("an answer");
}

/// And the limit is named.
pub async fn a_silent_server_is_left_at_the_deadline(kit: &Kit) {
    let server = Server::start(|_, _| Reply::Hang);
    let mut request = kit.request();
    request.timeout = SHORT;
    let error = kit
        .client(&server)
        .chat(&request)
        .await
        .expect_err("no answer");
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Retry(None));
    gone(server).await;
}

/// Its connection is closed, and nothing goes on in its name.
pub async fn a_dropped_call_leaves_the_server(kit: &Kit) {
    let server = Server::start(|_, _| Reply::Hang);
    let client = kit.client(&server);
    let request = kit.request();
    {
        let call = client.chat(&request);
        tokio::pin!(call);
        // Runs until the server has the request.
        while server.seen().is_empty() {
            tokio::select! {
                answer = &mut call => panic!("the server is silent: {answer:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    drop(client);
    gone(server).await;
}

/// Whatever the server echoes.
pub async fn no_key_is_in_what_a_failure_says(kit: &Kit) {
    for status in [200, 302, 400, 401, 404, 429, 500] {
        let error = kit.wire.error;
        let server = Server::start(move |seen, _| {
            Reply::json(status, &error(&format!("bad: {}", seen.echo())))
        });
        let error = kit
            .client(&server)
            .chat(&kit.request())
            .await
            .expect_err("no answer");
        assert!(server.seen()[0].echo().contains(KEY), "it was sent");
        let said = format!("{error} {error:?}");
        assert!(!said.contains(KEY), "{status}: {said}");
    }
}

/// Wherever the server puts it.
pub async fn no_key_is_in_an_answer_that_echoes_it(kit: &Kit) {
    for body in [
        (kit.wire.answer)(&format!("you sent {KEY}")),
        (kit.wire.tool_call)(KEY, &json!({"echo": KEY})),
    ] {
        let reply = told(kit, &body).await.expect("an answer");
        let said = format!("{reply:?}");
        assert!(!said.contains(KEY), "{said}");
        assert!(said.contains("[redacted]"), "{said}");
    }
}

/// A key must not reach another address.
pub async fn a_redirect_is_not_followed(kit: &Kit) {
    let body = (kit.wire.answer)("Paris");
    let other = Server::start(move |_, _| Reply::json(200, &body));
    let to = other.url();
    let server =
        Server::start(move |_, _| Reply::Answer(307, vec![("location", to.clone())], Vec::new()));
    let error = kit
        .client(&server)
        .chat(&kit.request())
        .await
        .expect_err("no answer");
    assert_eq!(error.disposition(), Disposition::StopRun, "{error}");
    assert!(other.seen().is_empty());
}

/// Or an answer could not be found again.
pub async fn equal_requests_are_equal_bytes(kit: &Kit) {
    let whole = kit.reply(&(kit.wire.answer)("Paris"));
    let server = Server::start(move |_, _| whole.clone());
    for _ in 0..2 {
        kit.client(&server)
            .chat(&kit.request())
            .await
            .expect("an answer");
    }
    let seen = server.seen();
    assert_eq!(
        (&seen[0].path, &seen[0].body),
        (&seen[1].path, &seen[1].body)
    );
    let system = seen[0].json().to_string();
    assert!(system.contains("capital of France"), "{system}");
}
