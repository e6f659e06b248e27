//! Rates of accounts on a server.

use std::time::Duration;

use ::redis::Value;
use async_trait::async_trait;

use super::board::in_ms;
use super::link::Link;
use super::script::Script;
use super::shape::Shape;
use crate::clock::Timestamp;
use crate::rates::rules::{
    BREAKER_FAILURES, BREAKER_PAUSES, BREAKER_SPAN, CUT, EVIDENCE, PAUSES, RETRY_AFTER_MAX, STEPS,
    THROTTLED_SHARE, WAIT_MAX, WEIGHT,
};
use crate::rates::{Account, Ask, Go, Hold, Limits, Outcome, Rates};
use crate::store::Error;

/// Asks or reports of one call of the script, so that none holds up the server.
const CHUNK: usize = 256;

/// Shares the rates of accounts through a server.
pub struct RedisRates {
    link: Link,
    key: String,
    script: Script,
    rules: String,
}

impl RedisRates {
    /// Makes rates behind `link`.
    #[must_use]
    pub fn new(link: Link) -> Self {
        let rules = format!(
            "weight={WEIGHT} share={THROTTLED_SHARE} evidence={EVIDENCE} cut={CUT} pause={} \
             pausemax={} hint={} failures={BREAKER_FAILURES} span={} open={} openmax={} step={} \
             wait={}",
            in_ms(PAUSES.0),
            in_ms(PAUSES.1),
            in_ms(RETRY_AFTER_MAX),
            in_ms(BREAKER_SPAN),
            in_ms(BREAKER_PAUSES.0),
            in_ms(BREAKER_PAUSES.1),
            in_ms(STEPS),
            in_ms(WAIT_MAX),
        );
        Self {
            key: link.key("rates"),
            link,
            // What it keeps is bounded, and reports must not fail.
            script: Script::new(concat!(
                "#!lua flags=allow-oom\n",
                include_str!("scripts/rates.lua")
            )),
            rules,
        }
    }

    const fn reply(&self) -> Shape<'_> {
        Shape {
            link: &self.link,
            script: "rates.lua",
        }
    }

    async fn run(&self, act: &str, args: &[String]) -> Result<Vec<Value>, Error> {
        let always = std::slice::from_ref(&self.rules);
        let answer = self.link.act(&self.script, &self.key, always, act, args);
        let answer = answer.await?;
        self.reply().list(answer)
    }

    fn go(&self, answer: Value) -> Result<Go, Error> {
        let reply = self.reply();
        let mut parts = reply.list(answer)?.into_iter();
        let first = reply.text(parts.next())?;
        if first == "G" {
            return Ok(Go::Now);
        }
        let at = reply.number(Some(Value::SimpleString(first)))?;
        let wait = reply.number(parts.next())?;
        Ok(Go::NotBefore {
            at: Timestamp::from_ms(at),
            wait: Duration::from_millis(wait),
            why: match reply.text(parts.next())?.as_str() {
                "R" => Hold::Requests,
                "T" => Hold::Tokens,
                "C" => Hold::Concurrency,
                _ => Hold::Paused,
            },
        })
    }

    fn account(&self, answer: Value) -> Result<Account, Error> {
        let reply = self.reply();
        let mut parts = reply.list(answer)?.into_iter();
        Ok(Account {
            name: reply.text(parts.next())?,
            limits: Limits {
                requests_per_minute: reply.optional(parts.next())?,
                tokens_per_minute: reply.optional(parts.next())?,
                concurrency: reply.optional(parts.next())?,
            },
            in_flight: reply.number(parts.next())?,
            allowed: reply.optional(parts.next())?,
            requests: reply.number(parts.next())?,
            tokens: reply.number(parts.next())?,
            throttled: reply.number(parts.next())?,
            failed: reply.number(parts.next())?,
            stuck_for_ms: reply.number(parts.next())?,
            paused_until_ms: reply.number(parts.next())?,
        })
    }
}

#[async_trait]
impl Rates for RedisRates {
    async fn set_limits(&self, account: &str, limits: Limits) -> Result<(), Error> {
        let limit = |limit: Option<u64>| limit.map_or_else(String::new, |n| n.to_string());
        let args = [
            account.to_owned(),
            limit(limits.requests_per_minute),
            limit(limits.tokens_per_minute),
            limit(limits.concurrency),
        ];
        self.run("limits", &args).await?;
        Ok(())
    }

    async fn ask(&self, asked: &[Ask]) -> Result<Vec<Go>, Error> {
        let mut answers = Vec::with_capacity(asked.len());
        for chunk in asked.chunks(CHUNK) {
            let args: Vec<String> = chunk
                .iter()
                .flat_map(|ask| {
                    let life = in_ms(ask.lifetime).to_string();
                    let tokens = ask.tokens.to_string();
                    [ask.account.clone(), ask.call.clone(), tokens, life]
                })
                .collect();
            for answer in self.run("ask", &args).await? {
                answers.push(self.go(answer)?);
            }
        }
        Ok(answers)
    }

    async fn report(&self, done: &[(String, String, Outcome)]) -> Result<(), Error> {
        for chunk in done.chunks(CHUNK) {
            let args: Vec<String> = chunk
                .iter()
                .flat_map(|(account, call, outcome)| {
                    let (letter, number) = match outcome {
                        Outcome::Answered(tokens) => ("A", tokens.to_string()),
                        Outcome::Throttled(Some(wait)) => ("T", in_ms(*wait).to_string()),
                        Outcome::Throttled(None) => ("T", String::new()),
                        Outcome::Failed => ("F", String::new()),
                        Outcome::Nothing => ("N", String::new()),
                    };
                    [account.clone(), call.clone(), letter.to_owned(), number]
                })
                .collect();
            self.run("report", &args).await?;
        }
        Ok(())
    }

    async fn accounts(&self) -> Result<Vec<Account>, Error> {
        let answers = self.run("accounts", &[]).await?;
        answers.into_iter().map(|a| self.account(a)).collect()
    }
}
