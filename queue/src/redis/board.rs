//! A board on a server.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::Value;
use async_trait::async_trait;
use bytes::Bytes;

use super::link::Link;
use super::script::Script;
use super::shape::Shape;
use crate::board::{Board, Error, Expect, Held, Record, check, check_lease};
use crate::clock::Timestamp;
use crate::message::Fence;
use crate::store;

/// Records that are read together.
const PAGE: usize = 256;

/// Keeps records on a server.
pub struct RedisBoard {
    link: Link,
    key: String,
    /// Adds records, refused when the server is out of memory.
    add: Script,
    /// Everything else: who holds what, and how it stands, must be written also then.
    other: Script,
    /// Marks writes, so that one that is repeated after a lost answer is known.
    origin: u64,
    writes: AtomicU64,
}

impl RedisBoard {
    /// Makes a board behind `link`.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self {
            key: link.key("board"),
            link,
            add: Script::new(concat!("#!lua\n", include_str!("scripts/board.lua"))),
            other: Script::new(concat!(
                "#!lua flags=allow-oom\n",
                include_str!("scripts/board.lua")
            )),
            origin: RandomState::new().hash_one(0),
            writes: AtomicU64::new(0),
        }
    }

    const fn reply(&self) -> Shape<'_> {
        Shape {
            link: &self.link,
            script: "board.lua",
        }
    }

    fn mark(&self) -> String {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        format!("{:x}.{number:x}", self.origin)
    }

    async fn run(&self, args: &[&[u8]]) -> Result<std::vec::IntoIter<Value>, store::Error> {
        self.run_as(&self.other, args).await
    }

    async fn run_as(
        &self,
        script: &Script,
        args: &[&[u8]],
    ) -> Result<std::vec::IntoIter<Value>, store::Error> {
        let now = self.link.now_arg().to_string();
        let mut all: Vec<&[u8]> = vec![now.as_bytes()];
        all.extend_from_slice(args);
        let answer = self.link.run(script, &[self.key.as_bytes()], &all).await?;
        Ok(self.reply().list(answer)?.into_iter())
    }

    async fn write(
        &self,
        path: &str,
        value: &Bytes,
        expect: Expect,
        lifetime: Option<Duration>,
        lease: Option<(&str, Fence)>,
    ) -> Result<u64, Error> {
        check(path, value)?;
        let script = match expect {
            Expect::Absent => &self.add,
            Expect::Any | Expect::Version(_) => &self.other,
        };
        let (expect, mark) = (expected(expect), self.mark());
        let life = lifetime.map_or_else(String::new, |life| in_ms(life).to_string());
        let (name, fence) = lease.map_or((String::new(), 0), |(n, f)| (n.to_owned(), f.0));
        let fence = fence.to_string();
        let args: [&[u8]; 8] = [
            b"put",
            path.as_bytes(),
            value,
            expect.as_bytes(),
            life.as_bytes(),
            mark.as_bytes(),
            name.as_bytes(),
            fence.as_bytes(),
        ];
        let mut answer = self.run_as(script, &args).await?;
        let reply = self.reply();
        match reply.text(answer.next())?.as_str() {
            "O" => Ok(reply.number(answer.next())?),
            "N" => Err(Error::NotHolder { name }),
            _ => Err(Error::Conflict {
                path: path.to_owned(),
                found: reply.number(answer.next())?,
            }),
        }
    }
}

fn expected(expect: Expect) -> String {
    match expect {
        Expect::Any => "*".to_owned(),
        Expect::Absent => "0".to_owned(),
        Expect::Version(version) => version.to_string(),
    }
}

/// Milliseconds, rounded up; a life longer than 100,000 years is as good as one for ever.
pub(crate) fn in_ms(wait: Duration) -> u64 {
    const MOST: u64 = 100_000 * 366 * 24 * 3_600_000;
    let ms = wait.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(MOST).min(MOST)
}

#[async_trait]
impl Board for RedisBoard {
    async fn get(&self, path: &str) -> Result<Option<Record>, Error> {
        let mut answer = self.run(&[b"get", path.as_bytes()]).await?;
        let Some(version) = answer.next() else {
            return Ok(None);
        };
        let reply = self.reply();
        Ok(Some(Record {
            path: path.to_owned(),
            version: reply.number(Some(version))?,
            value: reply.bytes(answer.next())?,
        }))
    }

    async fn put(
        &self,
        path: &str,
        value: Bytes,
        expect: Expect,
        lifetime: Option<Duration>,
    ) -> Result<u64, Error> {
        self.write(path, &value, expect, lifetime, None).await
    }

    async fn put_fenced(
        &self,
        path: &str,
        value: Bytes,
        expect: Expect,
        name: &str,
        fence: Fence,
    ) -> Result<u64, Error> {
        if name.is_empty() {
            let name = name.to_owned();
            return Err(Error::NotHolder { name });
        }
        let lease = Some((name, fence));
        self.write(path, &value, expect, None, lease).await
    }

    async fn delete(&self, path: &str, expect: Expect) -> Result<(), Error> {
        let (expect, mark) = (expected(expect), self.mark());
        let args: [&[u8]; 4] = [
            b"delete",
            path.as_bytes(),
            expect.as_bytes(),
            mark.as_bytes(),
        ];
        let mut answer = self.run(&args).await?;
        let reply = self.reply();
        if reply.text(answer.next())? == "O" {
            return Ok(());
        }
        Err(Error::Conflict {
            path: path.to_owned(),
            found: reply.number(answer.next())?,
        })
    }

    async fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<Record>, Error> {
        let reply = self.reply();
        let mut low = if after >= prefix {
            [b"(", after.as_bytes()].concat()
        } else {
            [b"[", prefix.as_bytes()].concat()
        };
        // No path has this byte, for it is no UTF-8.
        let high = [b"(", prefix.as_bytes(), b"\xff"].concat();
        let mut records: Vec<Record> = Vec::new();
        while records.len() < max {
            let most = (max - records.len()).min(PAGE);
            let most_text = most.to_string();
            let args: [&[u8]; 4] = [b"list", &low, &high, most_text.as_bytes()];
            let mut answer = self.run(&args).await?;
            let before = records.len();
            while let Some(path) = answer.next() {
                records.push(Record {
                    path: reply.text(Some(path))?,
                    version: reply.number(answer.next())?,
                    value: reply.bytes(answer.next())?,
                });
            }
            if records.len() - before < most {
                break;
            }
            if let Some(last) = records.last() {
                low = [b"(", last.path.as_bytes()].concat();
            }
        }
        Ok(records)
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Held>, Error> {
        check_lease(name, holder)?;
        let life = in_ms(ttl).to_string();
        let args: [&[u8]; 4] = [
            b"acquire",
            name.as_bytes(),
            holder.as_bytes(),
            life.as_bytes(),
        ];
        let mut answer = self.run(&args).await?;
        let Some(fence) = answer.next() else {
            return Ok(None);
        };
        let reply = self.reply();
        Ok(Some(Held {
            fence: Fence(reply.number(Some(fence))?),
            expires_at: Timestamp::from_ms(reply.number(answer.next())?),
        }))
    }

    async fn holder(&self, name: &str) -> Result<Option<String>, Error> {
        let mut answer = self.run(&[b"holder", name.as_bytes()]).await?;
        let holder = answer.next();
        let text = holder.map(|holder| self.reply().text(Some(holder)));
        Ok(text.transpose()?)
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), Error> {
        let args: [&[u8]; 3] = [b"release", name.as_bytes(), holder.as_bytes()];
        self.run(&args).await?;
        Ok(())
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        let mut answer = self.run(&[b"now"]).await?;
        let ms = self.reply().number(answer.next())?;
        Ok(Timestamp::from_ms(ms))
    }
}
