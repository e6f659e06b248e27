//! What a command needs of the process: a runtime with signals, the time, how it was called.

use std::task::Poll;

use skillopt_config::is_secret_name;
use skillopt_runtime::{Shutdown, clock};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// Threads for calls that block for a moment, as of files.
const SHORT_CALLS_MAX: usize = 512;

/// Runs `work` on all cores while listening for Ctrl-C; `told` hears of each signal.
///
/// # Errors
/// The runtime cannot be started.
pub(crate) fn block_on<T>(
    shutdown: &Shutdown,
    told: impl Fn(u32) + Send + Sync + 'static,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    block_on_with(0, shutdown, told, work)
}

/// As [`block_on`], for work that keeps so many threads busy for long, beside those for short calls.
///
/// # Errors
/// The runtime cannot be started.
pub(crate) fn block_on_with<T>(
    busy: usize,
    shutdown: &Shutdown,
    told: impl Fn(u32) + Send + Sync + 'static,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(busy.saturating_add(SHORT_CALLS_MAX))
        .build()?;
    let mut listening = Box::pin(shutdown.clone().listen(told));
    let answer = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        // The first poll installs the handlers: no signal may come too early.
        let first = std::future::poll_fn(|cx| Poll::Ready(listening.as_mut().poll(cx))).await;
        if first.is_pending() {
            tasks.spawn(listening);
        }
        let answer = work.await;
        tasks.shutdown().await;
        answer
    });
    Ok(answer)
}

/// Returns the time as `YYYYmmdd_HHMMSS`, UTC.
pub(crate) fn stamp() -> String {
    stamp_of(clock::unix_ms() / 1_000)
}

/// Writes a time in milliseconds since 1970 as `YYYY-mm-dd HH:MM:SS UTC`.
pub(crate) fn date(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1_000 % 86_400);
    let (year, month, day) = civil(days);
    let (h, m, s) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
}

fn stamp_of(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let (h, m, s) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}_{h:02}{m:02}{s:02}")
}

/// Turns days since 1970-01-01 into year, month and day. Years begin in March here, so that the
/// leap day comes last and months have a regular pattern of lengths.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Returns the command as it was typed, ready to copy, credentials left out; `extra` is added.
pub(crate) fn same_command(extra: &[String]) -> String {
    let args = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned());
    let args: Vec<String> = args.chain(extra.iter().cloned()).collect();
    let mut words = vec!["skillopt".to_owned()];
    let mut hide_next = false;
    for arg in args {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        let secret = is_secret_name(name);
        let shown = match value {
            _ if hide_next => "***".to_owned(),
            Some(_) if secret => format!("{name}=***"),
            _ => quoted(&arg),
        };
        hide_next = !hide_next && secret && value.is_none() && arg.starts_with("--");
        words.push(shown);
    }
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_threads_leave_room_for_short_calls() {
        let (busy, shutdown) = (SHORT_CALLS_MAX + 1, Shutdown::new());
        let work = async {
            let all = std::sync::Arc::new(std::sync::Barrier::new(busy + 1));
            let mut tasks = JoinSet::new();
            for _ in 0..busy {
                let all = std::sync::Arc::clone(&all);
                tasks.spawn_blocking(move || all.wait());
            }
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            tokio::task::spawn_blocking(move || all.wait())
                .await
                .unwrap();
            while tasks.join_next().await.is_some() {}
        };
        block_on_with(busy, &shutdown, |_| {}, work).unwrap();
    }

    #[test]
    fn dates() {
        for (unix_s, want) in [
            (0, "19700101_000000"),
            (951_782_399, "20000228_235959"),
            (951_782_400, "20000229_000000"),
            (1_709_164_800, "20240229_000000"),
            (1_735_689_599, "20241231_235959"),
            (4_107_542_400, "21000301_000000"),
        ] {
            assert_eq!(stamp_of(unix_s), want);
        }
        assert_eq!(date(951_782_399_999), "2000-02-28 23:59:59 UTC");
    }

    #[test]
    fn words_for_the_shell() {
        for (word, want) in [
            ("a.yaml", "a.yaml"),
            ("", "''"),
            ("it's", r"'it'\''s'"),
            ("a b", "'a b'"),
        ] {
            assert_eq!(quoted(word), want);
        }
    }
}
