//! Tokens that end: kept while they last, fetched by one call at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderValue;
use skillopt_core::secret::Secret;
use skillopt_runtime::clock;

use crate::error::CallError;

/// A token is replaced this long before its end, in milliseconds.
const RENEW_BEFORE_MS: u64 = 300_000;
/// Calls that come this soon after a failed fetch share its failure, in milliseconds: thousands of
/// calls wait for the same token.
const FAILURE_SHARED_MS: u64 = 1_000;

/// A token as it was given.
pub(crate) struct Fetched {
    pub(crate) token: Secret,
    /// When it ends, in milliseconds since 1970.
    pub(crate) ends_ms: u64,
}

/// Where tokens come from.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// Fetches a new token.
    async fn fetch(&self) -> Result<Fetched, CallError>;
}

/// A token in use.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) header: HeaderValue,
    pub(crate) secret: Arc<Secret>,
    ends_ms: u64,
}

/// The tokens of one account.
pub(crate) struct Tokens {
    source: Box<dyn Source>,
    /// What is sent now. Apart from the lock of the fetch, so that no call waits for one while
    /// there is a token.
    current: Mutex<Option<Token>>,
    /// Held by the call that fetches, with the last failure and its time.
    fetch: tokio::sync::Mutex<Option<(u64, CallError)>>,
}

impl Tokens {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        Self {
            source,
            current: Mutex::default(),
            fetch: tokio::sync::Mutex::default(),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Token>> {
        // No section under this lock can panic half-way.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> Option<Token> {
        let token = self.current().clone()?;
        (token.ends_ms > clock::unix_ms() + RENEW_BEFORE_MS).then_some(token)
    }

    /// Returns a token, a new one if the last is about to end.
    ///
    /// # Errors
    /// There is none and none can be had.
    ///
    /// # Cancel safety
    /// A fetch that is dropped is begun again by the next call.
    pub(crate) async fn get(&self) -> Result<Token, CallError> {
        if let Some(token) = self.fresh() {
            return Ok(token);
        }
        let mut failure = self.fetch.lock().await;
        // Whoever held the lock may have fetched one.
        if let Some(token) = self.fresh() {
            return Ok(token);
        }
        let shared = failure
            .clone()
            .filter(|(at, _)| clock::unix_ms() < at + FAILURE_SHARED_MS);
        let error = match shared {
            Some((_, error)) => error,
            None => match self
                .source
                .fetch()
                .await
                .and_then(usable)
                .map_err(|error| CallError::SignIn(Box::new(error)))
            {
                Ok(token) => {
                    *failure = None;
                    *self.current() = Some(token.clone());
                    return Ok(token);
                }
                Err(error) => {
                    *failure = Some((clock::unix_ms(), error.clone()));
                    error
                }
            },
        };
        // A token that has not ended yet is better than none.
        let last = self.current().clone();
        last.filter(|token| token.ends_ms > clock::unix_ms())
            .ok_or(error)
    }

    /// Forgets a token that was rejected. Returns whether it was the current one.
    pub(crate) fn reject(&self, secret: &Arc<Secret>) -> bool {
        let mut current = self.current();
        let is_current = current
            .as_ref()
            .is_some_and(|token| Arc::ptr_eq(&token.secret, secret));
        if is_current {
            *current = None;
        }
        is_current
    }
}

fn usable(fetched: Fetched) -> Result<Token, CallError> {
    Ok(Token {
        header: crate::http::bearer(fetched.token.expose(), "the sign-in")?,
        secret: Arc::new(fetched.token),
        ends_ms: fetched.ends_ms,
    })
}

/// Returns the end of a token that lasts `seconds` from now.
pub(crate) fn ends_in(seconds: u64) -> u64 {
    let lasts = Duration::from_secs(seconds).as_millis();
    clock::unix_ms() + u64::try_from(lasts).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Gives numbered tokens that last so many seconds; fails where it is told to.
    struct Numbered {
        given: Arc<AtomicU64>,
        lasts: u64,
        fails_from: u64,
    }

    #[async_trait]
    impl Source for Numbered {
        async fn fetch(&self) -> Result<Fetched, CallError> {
            let at = self.given.fetch_add(1, Ordering::SeqCst);
            // Others get their turn while a fetch is under way.
            tokio::task::yield_now().await;
            if at >= self.fails_from {
                return Err(CallError::Connection {
                    endpoint: "sign-in".to_owned(),
                    detail: "gone".to_owned(),
                });
            }
            Ok(Fetched {
                token: Secret::new(format!("t{at}")),
                ends_ms: ends_in(self.lasts),
            })
        }
    }

    fn tokens(lasts: u64, fails_from: u64) -> (Tokens, Arc<AtomicU64>) {
        let given = Arc::new(AtomicU64::new(0));
        let source = Numbered {
            given: Arc::clone(&given),
            lasts,
            fails_from,
        };
        (Tokens::new(Box::new(source)), given)
    }

    fn run<F: Future>(future: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn many_calls_share_one_fetch() {
        let (tokens, given) = tokens(3_600, u64::MAX);
        run(async {
            let calls = (0..50).map(|_| tokens.get());
            for token in futures_util::future::join_all(calls).await {
                assert_eq!(token.unwrap().secret.expose(), "t0");
            }
        });
        assert_eq!(given.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_token_is_replaced_before_its_end() {
        let (tokens, given) = tokens(299, u64::MAX);
        run(async {
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t0");
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t1");
        });
        assert_eq!(given.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_failed_renewal_leaves_the_token_that_still_holds() {
        let (tokens, _) = tokens(299, 1);
        run(async {
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t0");
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t0");
        });
    }

    #[test]
    fn calls_share_a_failure() {
        let (tokens, given) = tokens(3_600, 0);
        run(async {
            let calls = (0..50).map(|_| tokens.get());
            for token in futures_util::future::join_all(calls).await {
                assert!(token.is_err());
            }
        });
        assert_eq!(given.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_rejected_token_is_not_used_again() {
        let (tokens, _) = tokens(3_600, u64::MAX);
        run(async {
            let first = tokens.get().await.unwrap();
            assert!(tokens.reject(&first.secret));
            assert!(!tokens.reject(&first.secret));
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t1");
        });
    }
}
