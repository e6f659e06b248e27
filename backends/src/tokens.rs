//! Tokens that end: kept while they last, fetched by one call at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderValue;
use skillopt_core::secret::Secret;
use skillopt_runtime::clock;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::error::CallError;

/// A token is replaced this long before its end, in milliseconds.
const RENEW_BEFORE_MS: u64 = 300_000;
/// A token that has no more than this left is not sent without trying for a new one first, in
/// milliseconds: it would end on its way.
const USED_UNTIL_MS: u64 = 10_000;
/// How long calls wait for a renewal, from its beginning, while the last token still holds.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a renewal may take that nobody waits for; then the next call begins another one.
const RENEWAL_MAX: Duration = Duration::from_secs(60);
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
    shared: Arc<Shared>,
    /// The renewal that goes on when nobody waits for it, and when it began; it ends with this.
    renewal: Mutex<Option<(Instant, JoinHandle<()>)>>,
}

struct Shared {
    source: Box<dyn Source>,
    /// What is sent now. Apart from the lock of the fetch, so that no call waits for one while
    /// there is a token.
    current: Mutex<Option<Token>>,
    /// Held by whoever fetches, with the last failure and its time.
    fetch: tokio::sync::Mutex<Option<(u64, CallError)>>,
}

impl Tokens {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        let shared = Shared {
            source,
            current: Mutex::default(),
            fetch: tokio::sync::Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            renewal: Mutex::default(),
        }
    }

    /// Returns a token. One that is about to end is replaced first, unless that takes long: then it is
    /// renewed beside the calls that still use it.
    ///
    /// # Errors
    /// There is none and none can be had.
    ///
    /// # Cancel safety
    /// A fetch that is dropped is begun again by the next call.
    pub(crate) async fn get(&self) -> Result<Token, CallError> {
        if let Some(token) = self.shared.lasting(RENEW_BEFORE_MS) {
            return Ok(token);
        }
        if let Some(token) = self.shared.lasting(USED_UNTIL_MS) {
            let wait = self.renew_beside() + PATIENCE;
            // Its failure is for those who come when the last token has ended.
            drop(timeout_at(wait, self.shared.renew(Some(&token))).await);
            return Ok(self.shared.lasting(USED_UNTIL_MS).unwrap_or(token));
        }
        self.shared.renew(self.shared.lasting(0).as_ref()).await?;
        let token = self.shared.lasting(0);
        token.ok_or_else(|| {
            // Rejected between the fetch and here, or it lasts no time at all.
            CallError::SignIn(Box::new(CallError::Malformed {
                endpoint: "the sign-in".to_owned(),
                detail: "it gave a token that cannot be used".to_owned(),
            }))
        })
    }

    /// Begins a renewal unless one is under way; returns when it began.
    fn renew_beside(&self) -> Instant {
        let mut renewal = lock(&self.renewal);
        if let Some((began, task)) = &*renewal
            && !task.is_finished()
        {
            return *began;
        }
        let (shared, now) = (Arc::clone(&self.shared), Instant::now());
        let last = shared.lasting(0);
        let task = tokio::spawn(async move {
            drop(timeout_at(now + RENEWAL_MAX, shared.renew(last.as_ref())).await);
        });
        *renewal = Some((now, task));
        now
    }

    /// Forgets a token that was rejected. Returns whether it was the current one.
    pub(crate) fn reject(&self, secret: &Arc<Secret>) -> bool {
        let mut current = lock(&self.shared.current);
        let is_current = current
            .as_ref()
            .is_some_and(|token| Arc::ptr_eq(&token.secret, secret));
        if is_current {
            *current = None;
        }
        is_current
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if let Some((_, task)) = lock(&self.renewal).take() {
            task.abort();
        }
    }
}

impl Shared {
    /// Returns the token if it lasts longer than so many milliseconds.
    fn lasting(&self, ms: u64) -> Option<Token> {
        let token = lock(&self.current).clone()?;
        (token.ends_ms > clock::unix_ms() + ms).then_some(token)
    }

    /// Fetches a token to replace `last` unless somebody just did; a failure leaves the one that has
    /// not ended yet.
    async fn renew(&self, last: Option<&Token>) -> Result<(), CallError> {
        let mut failure = self.fetch.lock().await;
        // Whoever held the lock may have fetched one, which may last as short as all of its kind.
        let is_new =
            |token: &Token| last.is_none_or(|last| !Arc::ptr_eq(&last.secret, &token.secret));
        if self
            .lasting(USED_UNTIL_MS)
            .is_some_and(|token| is_new(&token))
        {
            return Ok(());
        }
        let shared = failure
            .clone()
            .filter(|(at, _)| clock::unix_ms() < at + FAILURE_SHARED_MS);
        let error = match shared {
            Some((_, error)) => error,
            None => match self.source.fetch().await.and_then(usable) {
                Ok(token) => {
                    *failure = None;
                    *lock(&self.current) = Some(token);
                    return Ok(());
                }
                Err(error) => {
                    let error = CallError::SignIn(Box::new(error));
                    *failure = Some((clock::unix_ms(), error.clone()));
                    error
                }
            },
        };
        // A token that has not ended yet is better than none.
        self.lasting(0).map(|_| ()).ok_or(error)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        for lasts in [3_600, 299] {
            let (tokens, given) = tokens(lasts, u64::MAX);
            run(async {
                let calls = (0..50).map(|_| tokens.get());
                for token in futures_util::future::join_all(calls).await {
                    assert_eq!(token.unwrap().secret.expose(), "t0");
                }
            });
            assert_eq!(given.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn a_token_is_replaced_before_its_end() {
        let (tokens, given) = tokens(299, u64::MAX);
        run(async {
            for i in 0..3 {
                assert_eq!(tokens.get().await.unwrap().secret.expose(), format!("t{i}"));
            }
        });
        assert_eq!(given.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_token_is_fetched_first_if_the_last_one_ends_on_its_way() {
        let (tokens, _) = tokens(9, u64::MAX);
        run(async {
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t0");
            assert_eq!(tokens.get().await.unwrap().secret.expose(), "t1");
        });
    }

    #[test]
    fn a_failed_renewal_leaves_the_token_that_still_holds() {
        for lasts in [299, 9] {
            let (tokens, given) = tokens(lasts, 1);
            run(async {
                while given.load(Ordering::SeqCst) < 2 {
                    assert_eq!(tokens.get().await.unwrap().secret.expose(), "t0");
                    tokio::task::yield_now().await;
                }
                assert_eq!(tokens.get().await.unwrap().secret.expose(), "t0");
            });
        }
    }

    /// Gives one token that is about to end; the next one never comes.
    struct Hanging(AtomicU64);

    #[async_trait]
    impl Source for Hanging {
        async fn fetch(&self) -> Result<Fetched, CallError> {
            if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
                std::future::pending::<()>().await;
            }
            Ok(Fetched {
                token: Secret::new("t0"),
                ends_ms: ends_in(299),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_hangs_holds_nobody_up_for_long_who_has_a_token() {
        let tokens = Tokens::new(Box::new(Hanging(AtomicU64::new(0))));
        let began = Instant::now();
        for _ in 0..50 {
            let token = tokens.get().await.unwrap();
            assert_eq!(token.secret.expose(), "t0");
        }
        assert_eq!(began.elapsed(), PATIENCE, "the first waits, for all");
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
