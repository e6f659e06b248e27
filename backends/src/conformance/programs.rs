//! What every text model that is a vendor's program has to do, as one suite: a script in place of the
//! program says what a property wants it to say.

mod kits;
mod properties;
mod script;

use std::sync::Arc;

use serde_json::Value;
use skillopt_core::job::{Profile, Usage};

pub use self::kits::{ALL, CLAUDE, CODEX, COPILOT, CURSOR, OPENCODE, PI};
pub use self::properties::*;
pub use self::script::{Act, Said, Script, Started};
use super::{KEY, LONG, question};
use crate::declare::{Local, Options};
use crate::{ChatModel, ChatRequest, Http, registry};

/// What the suite has to know of a program that serves as a text model.
#[derive(Clone, Copy)]
pub struct ProgramKit {
    /// The backend.
    pub backend: &'static str,
    /// The role in which it talks.
    pub role: &'static str,
    /// The model that is asked.
    pub model: &'static str,
    /// The key that names the program.
    pub program: &'static str,
    /// Further settings.
    pub settings: &'static [(&'static str, &'static str)],
    /// The variable that holds its login.
    pub login: &'static str,
    /// Whether it hands images to its model; one that does not is not asked with any.
    pub takes_images: bool,
    /// Whether it tells its model of tools; one that does not is not asked with any.
    pub takes_tools: bool,
    /// Its first argument when it is not asked for an answer yet, and what it prints then.
    pub beforehand: Option<(&'static str, &'static str)>,
    /// What it says.
    pub says: Says,
}

/// The words of a program.
#[derive(Clone, Copy)]
pub struct Says {
    /// A whole answer, with [`Says::usage`].
    pub answer: fn(&str) -> Said,
    /// An answer that the token limit cut; nothing if the program does not tell.
    pub truncated: Option<fn(&str) -> Said>,
    /// A failure, with the status and the message of the provider.
    pub failure: fn(u16, &str) -> Said,
    /// What the answers say was used.
    pub usage: Usage,
}

impl ProgramKit {
    /// Makes a client of the program at `path`.
    ///
    /// # Panics
    /// The backend does not take its settings.
    #[must_use]
    pub fn client(&self, path: &str) -> Arc<dyn ChatModel> {
        let get = |name: &str| {
            if name == self.program {
                return Some(Value::from(path));
            }
            let found = self.settings.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| Value::from(*value))
        };
        let options = Options(&get);
        let mut profile = Profile::bare(self.role, self.backend, self.model);
        let declared = registry::find(self.backend).expect("a backend of that name");
        (declared.describe)(options, &mut profile);
        let local = Local {
            options,
            secret: &|_| None,
            env: &|name| match name {
                "PATH" => std::env::var(name).ok(),
                name => (name == self.login).then(|| KEY.to_owned()),
            },
            http: &Http::new(),
        };
        registry::connect(&profile, &local).expect("a client")
    }

    /// Makes a script that stands in for the program.
    #[must_use]
    pub fn script(&self, act: &Act) -> Script {
        Script::new(act, self.beforehand)
    }

    /// Returns a plain request.
    #[must_use]
    pub fn request(&self) -> ChatRequest {
        ChatRequest::new(self.model, question(), 64, LONG)
    }
}

/// Turns each property of the suite into a test of a [`ProgramKit`].
#[macro_export]
macro_rules! conformance_of_a_program {
    ($name:ident, $kit:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "a kit may stand in place")]
            use super::*;

            $crate::conformance_of_a_program!(@each $kit;
                an_answer_comes_with_what_it_used a_cut_answer_is_no_whole_one
                each_failure_has_its_disposition a_prompt_that_does_not_fit_is_given_up
                a_broken_answer_is_tried_again a_silent_program_is_ended_at_the_deadline
                a_dropped_call_ends_the_program a_program_that_is_not_there_is_named
                no_key_is_in_what_it_says it_sees_its_login_and_nothing_of_ours
                equal_requests_are_equal_prompts images_are_sent_or_refused
                tools_are_offered_and_called_or_refused a_schema_is_told
            );
        }
    };
    (@each $kit:expr; $($property:ident)*) => {
        $(
            #[tokio::test]
            async fn $property() {
                $crate::conformance::programs::$property(&$kit).await;
            }
        )*
    };
}
