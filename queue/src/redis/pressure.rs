//! How near a server is to its limit of memory.

use super::link::{Link, collect};
use crate::store::Error;

/// From this share of its memory on, in percent, a server is near its limit.
const NEAR: u64 = 95;

impl Link {
    /// Says of the fullest node that is near its limit how full it is.
    pub(super) async fn pressure(&self) -> Result<Option<String>, Error> {
        let mut cmd = ::redis::cmd("INFO");
        cmd.arg("memory");
        let mut texts = Vec::new();
        collect(&self.call(&cmd).await?, &mut texts);
        let full = texts.iter().filter_map(|text| fullness(text)).max();
        let near = full.filter(|(percent, ..)| *percent >= NEAR);
        Ok(near.map(|(percent, used, limit)| {
            let mib = |bytes: u64| bytes >> 20;
            format!(
                "{} uses {percent} % of its memory ({} of {} MiB)",
                self.place(),
                mib(used),
                mib(limit)
            )
        }))
    }
}

/// Returns percent, use and limit; `None` without a limit.
fn fullness(info: &str) -> Option<(u64, u64, u64)> {
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line?.strip_prefix(':')?.trim().parse::<u64>().ok()
    };
    let (used, limit) = (number("used_memory")?, number("maxmemory")?);
    (limit > 0).then(|| (used.saturating_mul(100) / limit, used, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_limit_is_never_near_it() {
        let info = |used: u64, limit: u64| {
            format!(
                "# Memory\r\nused_memory:{used}\r\nused_memory_rss:9\r\nmaxmemory:{limit}\r\nmaxmemory_policy:noeviction\r\n"
            )
        };
        assert_eq!(fullness(&info(1_000, 0)), None);
        assert_eq!(fullness(&info(950, 1_000)), Some((95, 950, 1_000)));
        assert_eq!(fullness("redis_version:7.0.0"), None);
    }
}
