//! Plain HTTP exchanges on loopback: control addresses, and pages for people and machines.

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
    let (status, text) = send(port, method, path, body)?;
    if status != 200 {
        let what = format!("{method} {path}: {status}: {text}");
        return Err(std::io::Error::other(what));
    }
    Ok(serde_json::from_str(&text)?)
}

/// Reads a page of a server on this machine: its status and its text.
///
/// # Errors
/// There is no answer.
pub fn get(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    send(port, "GET", path, "")
}

fn send(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
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
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no HTTP: {answer}")))?;
    Ok((status, text.to_owned()))
}
