//! One plain HTTP exchange on loopback, for control addresses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends `body` to a server on this machine and reads its JSON answer.
///
/// # Errors
/// There is no answer, it is no 200, or it is not JSON.
pub fn exchange(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, json) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if !head.starts_with("HTTP/1.1 200") {
        return Err(std::io::Error::other(format!("{method} {path}: {answer}")));
    }
    Ok(serde_json::from_str(json)?)
}
