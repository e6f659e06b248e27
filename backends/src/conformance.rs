//! What every chat backend that speaks HTTP has to do, as one suite; [`programs`] is the one of those
//! that are vendors' programs.
//!
//! A backend writes a [`Kit`] of a few lines and names it in [`conformance!`](crate::conformance!),
//! which turns each property into a test against a real server on loopback. No property sleeps.

pub mod crowd;
pub mod kits;
mod pieces;
pub mod programs;
mod properties;
pub mod server;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillopt_core::job::Profile;
use skillopt_core::secret::Secret;

pub use self::properties::*;
use self::server::{Reply, Server};
use self::wire::Wire;
use crate::contract::{Content, Image, Part, Tool, ToolChoice};
use crate::declare::{Local, Options};
use crate::{ChatModel, ChatRequest, Http, Message, Role, registry};

/// The key that clients of the suite send.
pub const KEY: &str = "canary-key-0123456789";
/// Longer than any exchange of the suite takes.
pub const LONG: Duration = Duration::from_secs(30);

/// What the suite has to know of a backend.
#[derive(Clone, Copy)]
pub struct Kit {
    /// Its name.
    pub backend: &'static str,
    /// The model that is asked: some choose the interface.
    pub model: &'static str,
    /// The key that holds the address.
    pub address: &'static str,
    /// What its address has after the host.
    pub base: &'static str,
    /// The key that holds the credential.
    pub secret: &'static str,
    /// Further settings.
    pub settings: &'static [(&'static str, &'static str)],
    /// The key that has answers come in pieces.
    pub stream: &'static str,
    /// Whether they are to.
    pub streams: bool,
    /// What its servers say.
    pub wire: Wire,
}

impl Kit {
    /// Makes a client of `server`.
    ///
    /// # Panics
    /// The backend does not take its settings.
    #[must_use]
    pub fn client(&self, server: &Server) -> Arc<dyn ChatModel> {
        self.client_at(&server.url(), &Http::new())
    }

    /// Makes a client of the server at `url`.
    ///
    /// # Panics
    /// The backend does not take its settings.
    #[must_use]
    pub fn client_at(&self, url: &str, http: &Arc<Http>) -> Arc<dyn ChatModel> {
        let address = format!("{url}{}", self.base);
        let get = |name: &str| {
            if name == self.address {
                return Some(Value::from(address.as_str()));
            }
            if name == self.stream && self.streams {
                return Some(Value::from("true"));
            }
            let found = self.settings.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| Value::from(*value))
        };
        let options = Options(&get);
        let mut profile = Profile::bare("target", self.backend, self.model);
        let declared = registry::find(self.backend).expect("a backend of that name");
        (declared.describe)(options, &mut profile);
        let local = Local {
            options,
            secret: &|name| (name == self.secret).then(|| Secret::new(KEY)),
            env: &|_| None,
            http,
        };
        registry::connect(&profile, &local).expect("a client")
    }
}

impl Kit {
    /// The same with answers that come in pieces.
    #[must_use]
    pub const fn streamed(self) -> Self {
        Self {
            streams: true,
            ..self
        }
    }

    /// Returns a success as its servers send it.
    #[must_use]
    pub fn reply(&self, body: &Value) -> Reply {
        if self.streams {
            Reply::events((self.wire.pieces)(body))
        } else {
            Reply::json(200, body)
        }
    }

    /// Returns a plain request.
    #[must_use]
    pub fn request(&self) -> ChatRequest {
        ChatRequest::new(self.model, question(), 64, LONG)
    }
}

/// A picture of one dot, in base64.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Asks what is on it.
fn picture() -> Message {
    Message {
        content: Content::Parts(vec![
            Part::Text("What is on it?".to_owned()),
            Part::Image(Image {
                url: format!("data:image/png;base64,{DOT}"),
                detail: None,
            }),
        ]),
        ..Message::text(Role::User, "")
    }
}

/// Has one tool called.
fn with_tool(mut request: ChatRequest) -> ChatRequest {
    request.tools = vec![Tool::Function {
        name: "look_up".to_owned(),
        description: "Looks a city up.".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}},
            "required": ["city"]}),
    }];
    request.tool_choice = Some(ToolChoice::Required);
    request
}

/// Returns what the suite asks.
fn question() -> Vec<Message> {
    vec![
        Message::text(Role::System, "Answer briefly."),
        Message::text(Role::User, "What is the capital of France?"),
    ]
}

/// Turns each property of the suite into a test of a [`Kit`].
#[macro_export]
macro_rules! conformance {
    ($name:ident, $kit:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "a kit may stand in place")]
            use super::*;

            $crate::conformance!(@each $kit;
                an_answer_comes_with_what_it_used a_cut_answer_is_no_whole_one
                a_withheld_answer_is_given_up_and_counted an_answer_without_a_word_is_empty
                tools_are_offered_and_called images_are_sent each_failure_has_its_disposition
                a_prompt_that_does_not_fit_is_given_up
                a_gateway_that_takes_no_long_bodies_stops_the_run a_broken_answer_is_tried_again
                an_error_in_the_midst_of_an_answer_is_none
                a_silent_server_is_left_at_the_deadline a_dropped_call_leaves_the_server
                no_key_is_in_what_a_failure_says no_key_is_in_an_answer_that_echoes_it
                a_redirect_is_not_followed
                equal_requests_are_equal_bytes
            );
        }
    };
    (@each $kit:expr; $($property:ident)*) => {
        $(
            #[tokio::test]
            async fn $property() {
                $crate::conformance::$property(&$kit).await;
            }
        )*
    };
}
