//! A ledger on a server.

use ::redis::Value;
use async_trait::async_trait;

use super::board::in_ms;
use super::link::Link;
use super::script::Script;
use super::shape::Shape;
use crate::ledger::{
    Amount, Balance, Caps, KINDS_MAX, Ledger, REMEMBERED_MAX, Reservation, Reserved, Settlement,
    Tally, Use,
};
use crate::store::Error;

/// Reservations or settlements of one call of the script, so that none holds up the server.
const CHUNK: usize = 256;

/// Keeps purses on a server.
pub struct RedisLedger {
    link: Link,
    key: String,
    script: Script,
}

impl RedisLedger {
    /// Makes a ledger behind `link`.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self {
            key: link.key("ledger"),
            link,
            // What it keeps is bounded, and settling must not fail.
            script: Script::new(concat!(
                "#!lua flags=allow-oom\n",
                include_str!("scripts/ledger.lua")
            )),
        }
    }

    const fn reply(&self) -> Shape<'_> {
        Shape {
            link: &self.link,
            script: "ledger.lua",
        }
    }

    async fn run(&self, act: &str, args: &[String]) -> Result<Vec<Value>, Error> {
        let always = [
            REMEMBERED_MAX.to_string(),
            KINDS_MAX.to_string(),
            Use::other().to_string(),
        ];
        let answer = self.link.act(&self.script, &self.key, &always, act, args);
        let answer = answer.await?;
        self.reply().list(answer)
    }

    fn reserved(&self, answer: Value) -> Result<Reserved, Error> {
        let reply = self.reply();
        let mut parts = reply.list(answer)?.into_iter();
        Ok(match reply.text(parts.next())?.as_str() {
            "H" => Reserved::Held,
            "W" => Reserved::Wait {
                purse: reply.text(parts.next())?,
            },
            _ => Reserved::Refused {
                purse: reply.text(parts.next())?,
                what: match reply.text(parts.next())?.as_str() {
                    "requests" => "requests",
                    "tokens" => "tokens",
                    "dollars" => "dollars",
                    _ => "dollars of a model without a price",
                },
            },
        })
    }

    fn tally(&self, answer: Value) -> Result<Tally, Error> {
        let reply = self.reply();
        let mut parts = reply.list(answer)?.into_iter();
        let mut fields = Vec::new();
        while let Some(name) = parts.next() {
            fields.push((reply.text(Some(name))?, reply.number(parts.next())?));
        }
        Ok(Tally::from_fields(fields))
    }

    fn balance(&self, answer: Value) -> Result<Balance, Error> {
        let reply = self.reply();
        let mut parts = reply.list(answer)?.into_iter();
        let mut amount = || {
            Ok::<_, Error>(Amount {
                requests: reply.number(parts.next())?,
                prompt_tokens: reply.number(parts.next())?,
                completion_tokens: reply.number(parts.next())?,
                micro_usd: reply.number(parts.next())?,
            })
        };
        let (spent, reserved) = (amount()?, amount()?);
        Ok(Balance {
            spent,
            reserved,
            caps: Caps {
                requests: reply.optional(parts.next())?,
                tokens: reply.optional(parts.next())?,
                micro_usd: reply.optional(parts.next())?,
            },
            has_unpriced: reply.text(parts.next())? == "1",
        })
    }
}

fn amounts(args: &mut Vec<String>, amount: &Amount, purses: &[String]) {
    let numbers = [
        amount.requests,
        amount.prompt_tokens,
        amount.completion_tokens,
        amount.micro_usd,
        purses.len() as u64,
    ];
    args.extend(numbers.iter().map(u64::to_string));
    args.extend_from_slice(purses);
}

/// For each use its name, the number of its counters, and these by name.
fn tally(args: &mut Vec<String>, tally: &Tally) {
    args.push(tally.0.len().to_string());
    for (of, counts) in &tally.0 {
        let fields: Vec<(String, u64)> = counts.fields().collect();
        args.extend([of.to_string(), fields.len().to_string()]);
        args.extend(
            fields
                .into_iter()
                .flat_map(|(name, n)| [name, n.to_string()]),
        );
    }
}

fn flag(is_so: bool) -> String {
    u8::from(is_so).to_string()
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn set_caps(&self, purse: &str, caps: Caps) -> Result<(), Error> {
        let cap = |cap: Option<u64>| cap.map_or_else(String::new, |cap| cap.to_string());
        let args = [
            purse.to_owned(),
            cap(caps.requests),
            cap(caps.tokens),
            cap(caps.micro_usd),
        ];
        self.run("caps", &args).await?;
        Ok(())
    }

    async fn reserve(&self, asked: &[Reservation]) -> Result<Vec<Reserved>, Error> {
        let mut answers = Vec::with_capacity(asked.len());
        for chunk in asked.chunks(CHUNK) {
            let mut args = Vec::new();
            for r in chunk {
                let life = in_ms(r.lifetime).to_string();
                args.extend([r.id.clone(), life, flag(r.is_unpriced)]);
                amounts(&mut args, &r.most, &r.purses);
            }
            for answer in self.run("reserve", &args).await? {
                answers.push(self.reserved(answer)?);
            }
        }
        Ok(answers)
    }

    async fn settle(&self, done: &[Settlement]) -> Result<(), Error> {
        for chunk in done.chunks(CHUNK) {
            let mut args = Vec::new();
            for s in chunk {
                args.extend([s.id.clone(), flag(s.is_reserved), flag(s.is_unpriced)]);
                amounts(&mut args, &s.used, &s.purses);
                tally(&mut args, &s.tally);
            }
            self.run("settle", &args).await?;
        }
        Ok(())
    }

    async fn balances(&self, purses: &[String]) -> Result<Vec<Balance>, Error> {
        let answers = self.run("balances", purses).await?;
        answers.into_iter().map(|a| self.balance(a)).collect()
    }

    async fn tallies(&self, purses: &[String]) -> Result<Vec<Tally>, Error> {
        let answers = self.run("tallies", purses).await?;
        answers.into_iter().map(|a| self.tally(a)).collect()
    }
}
