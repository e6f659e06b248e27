//! What a method and a path ask for.

use http::Method;

/// The two shapes of chat calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// `chat/completions`.
    Chat,
    /// `messages`.
    Messages,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A call, with the model if the path names it.
    Call(Api, Option<&'a str>),
    /// The list of models.
    Models,
    /// A sign of life.
    Alive,
    /// The counters.
    Stats,
    /// Forget attempts and counters.
    Reset,
    /// Show the settings.
    ShowConfig,
    /// Change settings.
    Configure,
    /// A known path with another method.
    WrongMethod,
    /// Nothing that is offered.
    Unknown,
}

impl<'a> Route<'a> {
    /// Reads a method and a path without its query. Calls are told by the end of the path, so
    /// that any prefix works.
    pub(super) fn of(method: &Method, path: &'a str) -> Self {
        let is_post = method == Method::POST;
        let is_get = method == Method::GET || method == Method::HEAD;
        let path = path.trim_end_matches('/');
        let (allowed, route) = match path {
            "" => (is_get, Self::Alive),
            "/sim/stats" => (is_get, Self::Stats),
            "/sim/reset" => (is_post, Self::Reset),
            "/sim/config" if is_get => (true, Self::ShowConfig),
            "/sim/config" => (is_post, Self::Configure),
            _ if path.ends_with("/chat/completions") => {
                (is_post, Self::Call(Api::Chat, deployment(path)))
            }
            _ if path.ends_with("/messages") => (is_post, Self::Call(Api::Messages, None)),
            _ if path.ends_with("/models") => (is_get, Self::Models),
            _ => (true, Self::Unknown),
        };
        if allowed { route } else { Self::WrongMethod }
    }
}

/// Returns the name in `…/openai/deployments/<name>/…`.
fn deployment(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/openai/deployments/")?;
    rest.split_once('/').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_the_end_of_the_path() {
        let check = |method: Method, path, expected| {
            assert_eq!(Route::of(&method, path), expected, "{method} {path}");
        };
        let chat = |model| Route::Call(Api::Chat, model);
        check(Method::POST, "/v1/chat/completions", chat(None));
        check(Method::POST, "/chat/completions/", chat(None));
        let azure = "/openai/deployments/my-model/chat/completions";
        check(Method::POST, azure, chat(Some("my-model")));
        check(
            Method::POST,
            "/v1/messages",
            Route::Call(Api::Messages, None),
        );
        check(Method::GET, "/v1/messages", Route::WrongMethod);
        check(Method::GET, "/v1/models", Route::Models);
        check(Method::HEAD, "/", Route::Alive);
        check(Method::GET, "/sim/stats", Route::Stats);
        check(Method::GET, "/sim/reset", Route::WrongMethod);
        check(Method::POST, "/sim/reset", Route::Reset);
        check(Method::GET, "/sim/config", Route::ShowConfig);
        check(Method::POST, "/sim/config", Route::Configure);
        check(Method::POST, "/v1/responses", Route::Unknown);
    }
}
