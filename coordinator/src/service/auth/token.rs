//! Tokens: made once, shown once, kept as a hash.

use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skillopt_core::Hash;
use skillopt_queue::Board;
use skillopt_queue::board::Expect;

use super::super::error::Error;
use super::super::table::decode;
use super::role::Role;

/// Paths of tokens begin with this.
const TOKENS: &str = "token/";
/// There once was a token: without one nobody gets in any more, also when all have ended.
const CLOSED: &str = "auth/closed";
/// A token's text begins with this, so that scanners for leaked credentials find it.
const PREFIX: &str = "skillopt_";
/// Tokens that are read together.
const PAGE: usize = 200;
/// Bytes of a token's name, and of its secret.
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// 1.
    pub version: u32,
    /// SHA-256 of the whole text.
    pub hash: Hash,
    /// What it may do.
    pub role: Role,
    /// Whose runs it makes and sees; empty: the whole cluster's.
    pub tenant: String,
    /// Shown to people.
    pub name: String,
    /// Milliseconds since 1970 by the board's clock.
    pub created_ms: u64,
    /// 0 for never.
    pub ends_ms: u64,
}

/// A new token, shown this once. It does not print.
pub struct Shown {
    /// The text.
    pub text: String,
    /// Its id, for revoking it.
    pub id: String,
}

/// Makes a token that lasts `lasts_ms`, 0 for ever.
///
/// # Errors
/// The board cannot be reached, or the system gives no random bytes.
pub async fn create(
    board: &dyn Board,
    role: Role,
    tenant: &str,
    name: &str,
    lasts_ms: u64,
) -> Result<Shown, Error> {
    let id = hex(&random(ID_BYTES)?);
    let text = format!("{PREFIX}{id}_{}", hex(&random(SECRET_BYTES)?));
    let now = board.now().await?.as_ms();
    let record = TokenRecord {
        version: 1,
        hash: Hash::of(text.as_bytes()),
        role,
        tenant: tenant.to_owned(),
        name: name.to_owned(),
        created_ms: now,
        ends_ms: if lasts_ms == 0 {
            0
        } else {
            now.saturating_add(lasts_ms)
        },
    };
    let value = serde_json::to_vec(&record).map_err(|e| Error::Internal(e.to_string()))?;
    let lifetime = (lasts_ms > 0).then(|| Duration::from_millis(lasts_ms));
    let path = format!("{TOKENS}{id}");
    // First, so that there is no token without it.
    close(board).await?;
    board
        .put(&path, value.into(), Expect::Absent, lifetime)
        .await?;
    Ok(Shown { text, id })
}

/// Makes a token worthless at once. `tenant` limits whose.
///
/// # Errors
/// There is no such token, or the board cannot be reached.
pub async fn revoke(board: &dyn Board, id: &str, tenant: Option<&str>) -> Result<(), Error> {
    let path = format!("{TOKENS}{id}");
    let unknown = || Error::NotFound(format!("there is no token `{id}`"));
    let record = board.get(&path).await?.ok_or_else(unknown)?;
    let token: TokenRecord = decode(&record)?;
    if tenant.is_some_and(|tenant| tenant != token.tenant) {
        return Err(unknown());
    }
    close(board).await?;
    board.delete(&path, Expect::Any).await?;
    Ok(())
}

/// Returns at most `max` tokens with their ids, the newest first. `tenant` limits whose.
///
/// # Errors
/// The board cannot be reached.
pub async fn list(
    board: &dyn Board,
    tenant: Option<&str>,
    max: usize,
) -> Result<Vec<(String, TokenRecord)>, Error> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = board.list(TOKENS, &after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.path);
        for record in &page {
            let token: TokenRecord = decode(record)?;
            if tenant.is_none_or(|tenant| tenant == token.tenant) {
                let id = record.path.strip_prefix(TOKENS).unwrap_or_default();
                found.push((id.to_owned(), token));
            }
        }
    }
    found.sort_by(|(a, x), (b, y)| (y.created_ms, b).cmp(&(x.created_ms, a)));
    found.truncate(max);
    Ok(found)
}

/// Marks that there was a token, for ever.
async fn close(board: &dyn Board) -> Result<(), Error> {
    let mark = Bytes::from_static(b"{}");
    board.put(CLOSED, mark, Expect::Any, None).await?;
    Ok(())
}

/// Returns whether there is or was any token.
pub(super) async fn was_any(board: &dyn Board) -> Result<bool, Error> {
    if board.get(CLOSED).await?.is_some() {
        return Ok(true);
    }
    let is_any = !board.list(TOKENS, "", 1).await?.is_empty();
    if is_any {
        // An earlier release made it.
        close(board).await?;
    }
    Ok(is_any)
}

/// Returns the record of a token's text, if it is valid at `now_ms`.
pub(super) async fn find(
    board: &dyn Board,
    text: &str,
    now_ms: u64,
) -> Result<Option<TokenRecord>, Error> {
    let id = text
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('_'));
    let Some((id, _)) = id.filter(|(id, _)| id.len() == 2 * ID_BYTES && is_hex(id)) else {
        return Ok(None);
    };
    let Some(record) = board.get(&format!("{TOKENS}{id}")).await? else {
        return Ok(None);
    };
    let token: TokenRecord = decode(&record)?;
    let is_valid = is_same(&Hash::of(text.as_bytes()), &token.hash)
        && (token.ends_ms == 0 || now_ms < token.ends_ms);
    Ok(is_valid.then_some(token))
}

/// Compares in a time that does not depend on where two hashes differ.
pub(super) fn is_same(a: &Hash, b: &Hash) -> bool {
    let pairs = a.as_bytes().iter().zip(b.as_bytes());
    std::hint::black_box(pairs.fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

fn random(n: usize) -> Result<Bytes, Error> {
    let mut bytes = vec![0; n];
    let filled = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    filled.map_err(|e| Error::Internal(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes.into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}
