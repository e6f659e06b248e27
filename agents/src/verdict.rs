//! What a run means: an answer, the agent's own failure, or nothing that can be judged.
//!
//! Only the first two are scored. Whatever the provider, the worker or the machine did wrong is an
//! error, and never a score.

use std::time::Duration;

use skillopt_backends::CallError;
use skillopt_core::job::Usage;
use skillopt_sandbox::Ending;

use crate::account::{Account, Outcome};
use crate::relay::{Record, Trouble, fault};

/// What a run means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The agent answered; the text may be empty where a file is the answer.
    Answered(String),
    /// The agent failed by itself: out of time, turns, room or words.
    Failed(String),
    /// Nothing can be said of the agent.
    NotJudged(CallError),
}

/// Whoever had to wait for more than this part of its time was not out of time by itself.
const HELD_UP_PART: u32 = 10;
/// Whoever ran out of time while the provider was silent for more than this part of it, before an answer
/// or in its midst, was let down by the provider.
const SILENT_PART: u32 = 2;

/// Judges a run. `endpoint` names the provider in errors; a program that `is_direct` has no relay, so
/// that the record says nothing of what it asked.
#[must_use]
pub fn judge(
    ending: &Ending,
    account: &Account,
    record: &Record,
    (endpoint, is_direct): (&str, bool),
    wall: Duration,
) -> Verdict {
    if let Ending::Lost(why) = ending {
        return Verdict::NotJudged(lost(why));
    }
    // A conversation that no longer fits is the agent's own doing, though the provider says so.
    let is_own = matches!(
        account.outcome,
        Outcome::ContextOverflow | Outcome::MaxOutputTokens | Outcome::MaxTurns
    );
    // Whoever was let down by the provider is not judged, whatever else became of it.
    if let Some(trouble) = &record.trouble
        && !is_own
    {
        return let_down(trouble, record, endpoint);
    }
    // What the task itself was not allowed is its own end, whatever the CLI made of it.
    let cap = record.refused.iter().find(|refusal| refusal.is_cap());
    if let Some(cap) = cap {
        return Verdict::Failed(cap.to_string());
    }
    // Whom no model has told what to do did not fail by itself.
    let failed = |words: String| match !is_direct && is_mute(record) {
        true => Verdict::NotJudged(unexplained(Outcome::NoModelCall, &words, record, endpoint)),
        false => Verdict::Failed(words),
    };
    match ending {
        Ending::Lost(why) => return Verdict::NotJudged(lost(why)),
        Ending::Limit(limit) => return failed(format!("it used more {limit} than it may")),
        Ending::TimedOut if record.held_up > wall / HELD_UP_PART => {
            return Verdict::NotJudged(CallError::Connection {
                endpoint: endpoint.to_owned(),
                detail: format!(
                    "the agent was not done within {} s, {} of which its requests waited for their \
                     turn",
                    wall.as_secs(),
                    record.held_up.as_secs()
                ),
            });
        }
        Ending::TimedOut if is_silent(record, wall) => {
            return Verdict::NotJudged(CallError::Timeout {
                endpoint: endpoint.to_owned(),
                limit: wall,
            });
        }
        Ending::TimedOut => {
            return failed(format!("it was not done within {} s", wall.as_secs()));
        }
        Ending::Exited(_) | Ending::Signalled(_) => {}
    }
    let text = account.final_text.clone().unwrap_or_default();
    let words = account.errors.first().cloned().unwrap_or_default();
    match account.outcome {
        Outcome::Success => Verdict::Answered(text),
        // The relay counts for itself: if tokens came, the answer is whole.
        Outcome::SuspectNoUsage if record.tokens.total() > 0 => Verdict::Answered(text),
        Outcome::MaxTurns => Verdict::Failed("it used all its turns".to_owned()),
        Outcome::MaxOutputTokens => {
            Verdict::Failed("its answer was longer than allowed".to_owned())
        }
        Outcome::ContextOverflow => {
            Verdict::Failed("the conversation no longer fitted into the model".to_owned())
        }
        Outcome::BudgetExceeded => Verdict::Failed("it used all the money of its task".to_owned()),
        Outcome::Filtered => Verdict::NotJudged(CallError::Filtered {
            endpoint: endpoint.to_owned(),
            detail: words,
            usage: usage(record),
        }),
        outcome => Verdict::NotJudged(unexplained(outcome, &words, record, endpoint)),
    }
}

/// Whether the provider let an agent wait that ran out of time: for much of it, or for its first answer
/// to begin.
fn is_silent(record: &Record, wall: Duration) -> bool {
    let waits_for_first = !record.unanswered.is_zero() && !has_answered(record);
    waits_for_first || record.unanswered.max(record.stalled) > wall / SILENT_PART
}

/// Whether nothing was asked through the relay: then it was not the agent that failed, for no model
/// has told the program what to do.
fn is_mute(record: &Record) -> bool {
    let asked = record.requests + record.refusals + record.failures;
    let waited = record.held_up + record.unanswered + record.stalled;
    asked == 0 && waited.is_zero() && record.exchanges.is_empty()
}

fn has_answered(record: &Record) -> bool {
    let mut exchanges = record.exchanges.iter();
    exchanges.any(|exchange| exchange.said.finish.is_some())
}

/// What trouble with the provider means. A refusal of a later request, after the provider took
/// earlier ones, is of that request alone: no agent can stop a whole run by what it asks.
fn let_down(trouble: &Trouble, record: &Record, endpoint: &str) -> Verdict {
    match trouble {
        Trouble::Provider { status, words, .. }
            if has_answered(record) && (400..500).contains(status) && !may_pass(*status) =>
        {
            Verdict::Failed(format!(
                "the provider refused a request of the agent: {}",
                fault::shown(words)
            ))
        }
        trouble => Verdict::NotJudged(error(trouble, endpoint)),
    }
}

/// Statuses that say nothing of a single request.
const fn may_pass(status: u16) -> bool {
    matches!(status, 401 | 403 | 408 | 409 | 425 | 429)
}

/// What a CLI that has no relay told of its vendor's trouble: nothing else knows of it.
#[must_use]
pub fn told(outcome: Outcome, words: &str, endpoint: &str) -> CallError {
    let (endpoint, detail) = (endpoint.to_owned(), words.to_owned());
    match outcome {
        Outcome::AuthError => CallError::Unauthorized {
            endpoint,
            status: 401,
            detail,
        },
        Outcome::RateLimited => CallError::Throttled {
            endpoint,
            retry_after: None,
        },
        Outcome::ServerError => CallError::Server {
            endpoint,
            status: 500,
            retry_after: None,
            detail,
        },
        outcome => unexplained(outcome, words, &Record::default(), &endpoint),
    }
}

/// Returns the tokens of a run, as the relay counted them.
#[must_use]
pub fn usage(record: &Record) -> Usage {
    let answered = record
        .exchanges
        .iter()
        // Some providers do not count.
        .filter(|exchange| exchange.tokens.total() > 0 || exchange.said.finish.is_some());
    Usage {
        calls: answered.count() as u64,
        prompt_tokens: record.tokens.input,
        completion_tokens: record.tokens.output,
        cached_tokens: record.tokens.cached,
        reasoning_tokens: record.tokens.reasoning,
        cache_write_tokens: record.tokens.cache_write,
        ..Usage::default()
    }
}

fn lost(why: &str) -> CallError {
    CallError::Machine {
        detail: format!("the agent's sandbox was lost: {why}"),
    }
}

/// Errors of the provider, as a chat backend would tell them.
fn error(trouble: &Trouble, endpoint: &str) -> CallError {
    match trouble {
        Trouble::Gate(why) => CallError::Connection {
            endpoint: endpoint.to_owned(),
            detail: why.clone(),
        },
        Trouble::Provider {
            status,
            words,
            retry_after_ms,
        } => {
            let wait = retry_after_ms.map(Duration::from_millis);
            fault::of_status(endpoint, *status, words, wait)
        }
    }
}

/// An end that nothing at the relay explains.
fn unexplained(outcome: Outcome, words: &str, record: &Record, endpoint: &str) -> CallError {
    let what = match outcome {
        Outcome::Crashed => "the agent's program ended without saying how",
        Outcome::Killed | Outcome::Interrupted => "the agent's program was killed from outside",
        Outcome::NoModelCall => "the agent's program asked the model nothing",
        _ => "the agent's program failed",
    };
    CallError::Unfit {
        endpoint: endpoint.to_owned(),
        detail: if words.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {words}")
        },
        usage: usage(record),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skillopt_backends::Disposition;
    use skillopt_sandbox::Limit;

    use super::*;
    use crate::relay::{Exchange, Refusal, Said, Tokens};

    fn verdict(ending: &Ending, outcome: Outcome, change: impl FnOnce(&mut Record)) -> Verdict {
        let mut record = Record::default();
        change(&mut record);
        let account = Account {
            final_text: Some("42".to_owned()),
            ..Account::of(outcome)
        };
        judge(
            ending,
            &account,
            &record,
            ("http://h/v1", false),
            Duration::from_secs(9),
        )
    }

    fn trouble(status: u16) -> impl FnOnce(&mut Record) {
        move |record| {
            record.trouble = Some(Trouble::Provider {
                status,
                words: "no".to_owned(),
                retry_after_ms: None,
            });
        }
    }

    #[test]
    fn only_the_agents_own_doing_is_scored() {
        let end = Ending::Exited(0);
        let none = |_: &mut Record| {};
        assert_eq!(
            verdict(&end, Outcome::Success, none),
            Verdict::Answered("42".to_owned())
        );
        for (ending, outcome) in [
            (Ending::TimedOut, Outcome::Success),
            (Ending::Limit(Limit::Memory), Outcome::Success),
            (end.clone(), Outcome::MaxTurns),
            (end.clone(), Outcome::ContextOverflow),
            (end.clone(), Outcome::MaxOutputTokens),
        ] {
            let seen = verdict(&ending, outcome, |record| record.requests = 1);
            assert!(
                matches!(seen, Verdict::Failed(_)),
                "{ending:?} {outcome:?}: {seen:?}"
            );
        }
        for outcome in [
            Outcome::Crashed,
            Outcome::Killed,
            Outcome::NoModelCall,
            Outcome::SuspectNoUsage,
            Outcome::AuthError,
            Outcome::ServerError,
            Outcome::RateLimited,
        ] {
            let seen = verdict(&end, outcome, none);
            assert!(
                matches!(seen, Verdict::NotJudged(_)),
                "{outcome:?}: {seen:?}"
            );
        }
        let seen = verdict(&Ending::Lost("x".to_owned()), Outcome::Success, none);
        assert!(
            matches!(seen, Verdict::NotJudged(CallError::Machine { .. })),
            "{seen:?}"
        );
    }

    #[test]
    fn a_silent_provider_excuses_only_who_waited_for_it() {
        let answered = || Exchange {
            request: Arc::default(),
            status: 200,
            tries: 1,
            said: Said {
                finish: Some("stop".to_owned()),
                ..Said::default()
            },
            tokens: Tokens::default(),
        };
        // Seconds before an answer, and in the midst of one.
        for (ending, (unanswered, stalled), answers, is_judged) in [
            // It never asked.
            (Ending::TimedOut, (0, 0), 0, false),
            (Ending::TimedOut, (0, 0), 1, true),
            (Ending::TimedOut, (1, 0), 0, false),
            (Ending::TimedOut, (1, 0), 1, true),
            (Ending::TimedOut, (8, 0), 1, false),
            (Ending::Exited(0), (8, 0), 1, true),
            // Whoever is being answered is out of time by itself, unless that stops for long.
            (Ending::TimedOut, (0, 1), 0, true),
            (Ending::TimedOut, (0, 4), 1, true),
            (Ending::TimedOut, (0, 5), 0, false),
            (Ending::TimedOut, (0, 5), 1, false),
            (Ending::Exited(0), (0, 8), 1, true),
            // Two silences, neither of which was much.
            (Ending::TimedOut, (4, 4), 1, true),
        ] {
            let seen = verdict(&ending, Outcome::Success, |record| {
                record.unanswered = Duration::from_secs(unanswered);
                record.stalled = Duration::from_secs(stalled);
                record.exchanges.extend((0..answers).map(|_| answered()));
            });
            let was_judged = !matches!(seen, Verdict::NotJudged(_));
            let silence = (unanswered, stalled);
            assert_eq!(was_judged, is_judged, "{ending:?}, {silence:?} s: {seen:?}");
        }
    }

    #[test]
    fn trouble_with_the_provider_has_its_class() {
        for (status, want) in [
            (401, Disposition::StopRun),
            (404, Disposition::StopRun),
            (429, Disposition::Retry(None)),
            (503, Disposition::Retry(None)),
            (0, Disposition::Retry(None)),
        ] {
            let seen = verdict(&Ending::Exited(1), Outcome::ServerError, trouble(status));
            let Verdict::NotJudged(error) = seen else {
                panic!("{status}: {seen:?}");
            };
            assert_eq!(error.disposition(), want, "{status}");
        }
        // Out of time because of the provider is not out of time.
        let seen = verdict(&Ending::TimedOut, Outcome::Killed, trouble(0));
        assert!(matches!(seen, Verdict::NotJudged(_)), "{seen:?}");
    }

    #[test]
    fn time_that_requests_waited_is_not_the_agents() {
        for (held_up, is_judged) in [(0, true), (1, false)] {
            let seen = verdict(&Ending::TimedOut, Outcome::Killed, |record| {
                record.requests = 1;
                record.held_up = Duration::from_secs(held_up);
            });
            assert_eq!(matches!(seen, Verdict::Failed(_)), is_judged, "{seen:?}");
        }
    }

    #[test]
    fn a_program_that_never_asked_its_model_is_not_judged() {
        for ending in [Ending::TimedOut, Ending::Limit(Limit::Memory)] {
            let seen = verdict(&ending, Outcome::Killed, |_| {});
            let Verdict::NotJudged(error) = seen else {
                panic!("{ending:?}: {seen:?}");
            };
            assert_eq!(error.disposition(), Disposition::Retry(None));
            assert!(
                error.to_string().contains("asked the model nothing"),
                "{error}"
            );
            // It was heard, though nothing of it was let out.
            let seen = verdict(&ending, Outcome::Killed, |record| record.refusals = 1);
            assert!(matches!(seen, Verdict::Failed(_)), "{ending:?}: {seen:?}");
            // Without a relay nobody knows.
            let account = Account::of(Outcome::Killed);
            let wall = Duration::from_secs(9);
            let seen = judge(&ending, &account, &Record::default(), ("x", true), wall);
            assert!(matches!(seen, Verdict::Failed(_)), "{ending:?}: {seen:?}");
        }
    }

    #[test]
    fn a_cap_of_the_task_is_the_agents_end() {
        let seen = verdict(&Ending::Exited(1), Outcome::ServerError, |record| {
            record.refused.push(Refusal::Tokens(100));
        });
        assert!(matches!(seen, Verdict::Failed(_)), "{seen:?}");
    }
}
