//! What went wrong with an object store, in words that help and hold no secret.

use std::error::Error as _;

use object_store::Error as Fault;

use crate::store::Error;

/// Shorter words of a setting are no secret, and may stand in any text.
const SECRET_LEN_MIN: usize = 6;
/// Longest cause that is repeated, in characters.
const CAUSE_MAX: usize = 200;

/// Judges the errors of one place.
pub(super) struct Judge {
    place: String,
    variables: &'static str,
    secrets: Vec<String>,
}

impl Judge {
    /// Judges those of `place`, whose credential stands in `variables`; no text shows one of `secrets`.
    pub(super) fn new<'a>(
        place: &str,
        variables: &'static str,
        secrets: impl Iterator<Item = &'a str>,
    ) -> Self {
        // A credential may be a document, or a signature of several parts.
        let parts = |secret: &str| -> Vec<String> {
            let is_inside = |c: char| c.is_ascii_alphanumeric() || "+/=_-.%".contains(c);
            let words = secret.split(|c| !is_inside(c));
            let words = words.chain(secret.split(['=', '&']));
            let long = words.chain([secret]).filter(|w| w.len() >= SECRET_LEN_MIN);
            long.map(str::to_owned).collect()
        };
        let mut secrets: Vec<String> = secrets.flat_map(parts).collect();
        // The longest first, so that nothing is left of it.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self {
            place: place.to_owned(),
            variables,
            secrets,
        }
    }

    /// Names the place, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Makes an error with this cause.
    pub(super) fn says(&self, detail: &str) -> Error {
        Error::Io {
            place: self.place.clone(),
            detail: detail.to_owned(),
        }
    }

    /// Whether there is nothing under a name, in a bucket that exists.
    pub(super) fn is_absence(&self, error: &Fault) -> bool {
        matches!(error, Fault::NotFound { .. })
            && !code(&error.to_string()).is_some_and(is_about_bucket)
    }

    /// Whether a call did not come through to a server, or its answer not back.
    pub(super) fn is_of_the_way(error: &Fault) -> bool {
        let text = error.to_string();
        let is_told = code(&text).is_some() || text.contains("status code: ");
        matches!(error, Fault::Generic { store, .. } if *store != "LocalFileSystem") && !is_told
    }

    /// Judges a call that failed.
    pub(super) fn error(&self, error: &Fault) -> Error {
        let text = error.to_string();
        let code = code(&text);
        let why = || code.map_or_else(|| self.cause(error), |code| format!("`{code}`"));
        match error {
            Fault::NotFound { .. } => self.says(
                "there is no such bucket or container; make it, or correct the address in \
                 `--objects`",
            ),
            Fault::PermissionDenied { .. } | Fault::Unauthenticated { .. } => self.says(&format!(
                "it refuses the credentials ({}); give others in the environment ({})",
                why(),
                self.variables
            )),
            _ => self.says(&format!(
                "{}; is it up, and are its address and region right?",
                why()
            )),
        }
    }

    /// Judges settings with which nothing can be opened. Only the kind of trouble is repeated: what
    /// follows it may quote a credential.
    pub(super) fn unusable(&self, error: &Fault) -> Error {
        let text = error.to_string();
        let kind = text.split(": ").nth(1).unwrap_or("a setting is wrong");
        self.says(&format!(
            "{}; it is set up from the environment ({})",
            self.scrub(kind),
            self.variables
        ))
    }

    /// Returns what is behind an error. The answer itself is not repeated: it may be a whole page,
    /// and may hold what was signed.
    fn cause(&self, error: &Fault) -> String {
        let text = error.to_string();
        if let Some((_, rest)) = text.split_once("status code: ") {
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            return format!("it answered {number}");
        }
        let mut cause = error.source();
        let mut last = text;
        while let Some(inner) = cause {
            last = inner.to_string();
            cause = inner.source();
        }
        self.scrub(&last)
    }

    fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "…");
        }
        text.chars().take(CAUSE_MAX).collect()
    }
}

/// Returns the code that the providers put into the page of an error.
fn code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = !code.is_empty() && code.len() <= 64;
    (is_word && code.chars().all(|c| c.is_ascii_alphanumeric())).then_some(code)
}

fn is_about_bucket(code: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound"].contains(&code)
}
