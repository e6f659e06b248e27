//! What is said of providers' accounts while a run goes on: each change for the worse or the better
//! once.

use std::collections::BTreeMap;

use skillopt_queue::rates::Account;

/// How an account is doing, in the words of every view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Throttled,
    Down,
    Well,
}

impl Mood {
    /// Returns how an account is doing; nothing if that cannot be told now: a call is finding out.
    const fn of(account: &Account) -> Option<Self> {
        if account.throttled > 0 {
            Some(Self::Throttled)
        } else if account.failed > 0 && account.paused_until_ms > 0 {
            Some(Self::Down)
        } else if account.stuck_for_ms == 0 {
            Some(Self::Well)
        } else {
            None
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Down => "down",
            Self::Well => "well",
        }
    }
}

/// The accounts that something was said of.
#[derive(Debug, Default)]
pub(crate) struct Providers(BTreeMap<String, Mood>);

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) account: Account,
    /// `throttled`, `down` or `well`.
    pub(crate) state: &'static str,
    pub(crate) words: String,
}

impl Providers {
    /// Takes how accounts are doing that were in trouble lately, and returns what is new.
    pub(crate) fn changes(&mut self, seen: &[Account]) -> Vec<Change> {
        // What is left out has had no trouble for a while.
        self.0
            .retain(|name, _| seen.iter().any(|account| account.name == *name));
        let changed = seen.iter().filter_map(|account| self.change(account));
        changed.collect()
    }

    fn change(&mut self, account: &Account) -> Option<Change> {
        let mood = Mood::of(account)?;
        let before = self.0.insert(account.name.clone(), mood);
        let before = before.unwrap_or(Mood::Well);
        let name = &account.name;
        let words = match (before, mood) {
            (a, b) if a == b => return None,
            // Its circuit was open, and now it answers with 429s.
            (_, Mood::Throttled) => {
                let most = account.allowed.map_or_else(String::new, |most| {
                    format!(", now with at most {most} at a time")
                });
                format!(
                    "`{name}` asks for fewer calls (HTTP 429): all calls to it slow down{most}; \
                     nothing is lost"
                )
            }
            (_, Mood::Down) => format!(
                "`{name}` does not answer: one call at a time finds out when it does again; the run \
                 pauses if that takes too long"
            ),
            (Mood::Down, _) => format!("`{name}` answers again"),
            // That a provider bears more again is no news.
            (_, Mood::Well) => return None,
        };
        Some(Change {
            account: account.clone(),
            state: mood.word(),
            words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(throttled: u64, failed: u64, is_paused: bool, stuck_for_ms: u64) -> Account {
        Account {
            name: "http://m".to_owned(),
            throttled,
            failed,
            paused_until_ms: if is_paused { 9 } else { 0 },
            stuck_for_ms,
            ..Account::default()
        }
    }

    #[test]
    fn each_change_is_told_once() {
        let mut providers = Providers::default();
        for (seen, want) in [
            // A call that failed now and then is no news.
            (vec![account(0, 1, false, 5)], None),
            (vec![account(0, 12, true, 2_000)], Some("down")),
            // A call finds out.
            (vec![account(0, 12, false, 7_000)], None),
            (vec![account(0, 13, true, 7_100)], None),
            (vec![account(0, 13, false, 0)], Some("well")),
            (vec![account(0, 20, true, 900)], Some("down")),
            (vec![account(0, 20, false, 0)], Some("well")),
            (vec![account(1, 20, true, 10)], Some("throttled")),
            (vec![account(1, 20, false, 0)], None),
            (vec![account(2, 20, true, 10)], None),
            (vec![], None),
            (vec![account(1, 0, false, 0)], Some("throttled")),
        ] {
            let changes = providers.changes(&seen);
            let states: Vec<&str> = changes.iter().map(|change| change.state).collect();
            assert_eq!(states, want.into_iter().collect::<Vec<_>>(), "{seen:?}");
            assert!(
                changes
                    .iter()
                    .all(|change| change.words.contains("`http://m`"))
            );
        }
    }
}
