//! A conversation as one text whose messages are parted by rules, for programs that take neither
//! tools nor images.

use crate::contract::{ChatRequest, Message, Role};
use crate::error::CallError;

use super::prompt::images;

/// Between messages.
const RULE: &str = "\n\n---\n\n";

/// Writes conversations down; one of a single message of the user is this message.
pub(crate) struct Plain<'a> {
    pub(crate) request: &'a ChatRequest,
    /// Whether what the system says is in it; else it reaches the model another way.
    pub(crate) with_system: bool,
}

impl Plain<'_> {
    /// Writes it down.
    pub(crate) fn text(&self) -> String {
        let messages = self.request.messages.iter();
        let told = messages.filter(|message| self.with_system || message.role != Role::System);
        let mut parts: Vec<String> = told.filter_map(part).collect();
        if let Some(named) = &self.request.schema {
            let schema = &named.schema;
            parts.push(format!(
                "Answer with one JSON document of this schema, and with nothing else:\n{schema:#}"
            ));
        }
        parts.join(RULE)
    }

    /// Refuses what a program has no way to take, before it starts.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`] for tools and images.
    pub(crate) fn refuse(&self, endpoint: &str, backend: &str) -> Result<(), CallError> {
        let request = self.request;
        let what = if !request.tools.is_empty() || request.tool_choice.is_some() {
            "tools"
        } else if images(&request.messages).next().is_some() {
            "images"
        } else {
            return Ok(());
        };
        Err(CallError::Misconfigured {
            endpoint: endpoint.to_owned(),
            status: 0,
            detail: format!("{backend} takes no {what}; choose another backend for this role"),
        })
    }
}

/// Writes one message; only the user's stands without a name.
fn part(message: &Message) -> Option<String> {
    let text = message.content.as_text();
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    Some(match message.role {
        Role::User => text.to_owned(),
        role => format!("[{}]\n{text}", role.as_str()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::contract::{Content, Image, Part, ToolChoice};

    fn request(messages: Vec<Message>) -> ChatRequest {
        ChatRequest::new("m", messages, 9, Duration::from_secs(9))
    }

    #[track_caller]
    fn check(request: &ChatRequest, with_system: bool, expected: &str) {
        let plain = Plain {
            request,
            with_system,
        };
        assert_eq!(plain.text(), expected);
    }

    #[test]
    fn messages_are_parted_by_rules() {
        let mut parts = Message::text(Role::User, "");
        let text = |text: &str| Part::Text(text.to_owned());
        parts.content = Content::Parts(vec![text("a"), text("b")]);
        let request = request(vec![
            Message::text(Role::System, " S "),
            parts,
            Message::text(Role::Assistant, "prev"),
            Message::text(Role::User, " "),
            Message::text(Role::User, "last"),
        ]);
        let rest = "a\nb\n\n---\n\n[assistant]\nprev\n\n---\n\nlast";
        check(&request, true, &format!("[system]\nS\n\n---\n\n{rest}"));
        check(&request, false, rest);
    }

    #[test]
    fn what_a_program_cannot_take_is_refused() {
        let mut image = Message::text(Role::User, "");
        image.content = Content::Parts(vec![Part::Image(Image {
            url: "data:image/png;base64,AAAA".to_owned(),
            detail: None,
        })]);
        let mut choice = request(Vec::new());
        choice.tool_choice = Some(ToolChoice::Auto);
        for request in [request(vec![image]), choice] {
            let plain = Plain {
                request: &request,
                with_system: true,
            };
            let error = plain.refuse("acme", "acme_chat").unwrap_err();
            assert!(matches!(error, CallError::Misconfigured { .. }), "{error}");
        }
    }
}
