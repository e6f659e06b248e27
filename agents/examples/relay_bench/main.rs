//! Measures what a relay costs and prints one JSON object; `cargo xtask bench relay` runs it.
//!
//! The relay has a thread of its own, whose processor time is read; the scripted model and the client
//! have others. As from a sandbox, it is asked through a Unix socket. With the name of a figure as its
//! argument it measures that one alone, for a profile.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use skillopt_agents::relay::{Answer, Caps, Open, Plan, Relay, Tries, WayOut, Wire};
use skillopt_sim::mock::{Mock, Script};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::oneshot;

/// Requests before those that count.
const WARM_UP: usize = 200;
const REQUESTS: usize = 2_000;

type Http = Client<HttpConnector, Full<Bytes>>;

struct Out(Http);

#[async_trait]
impl WayOut for Out {
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        _: Duration,
    ) -> Result<Answer, String> {
        let request = Request::post(to.clone()).body(Full::new(body));
        let mut request = request.map_err(|e| e.to_string())?;
        *request.headers_mut() = headers;
        let answer = self.0.request(request).await.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}

fn http() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut figures = serde_json::Map::new();
    let only = std::env::args().nth(1);
    for (name, cli, provider, is_stream, sent) in [
        ("small", Wire::Messages, Wire::Messages, false, 1),
        ("stream", Wire::Messages, Wire::Messages, true, 1),
        ("translated", Wire::Responses, Wire::Chat, true, 1),
        ("large", Wire::Messages, Wire::Messages, false, 200),
    ] {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let us = measure(cli, provider, &request(cli, is_stream, sent))?;
        figures.insert(format!("{name}_us"), us.into());
    }
    #[expect(clippy::print_stdout, reason = "what the program is for")]
    {
        println!("{}", Value::from(figures));
    }
    Ok(())
}

/// A request of `sent` KiB.
fn request(cli: Wire, is_stream: bool, sent: usize) -> (&'static str, Value) {
    let text = "four words of text. ".repeat(51);
    let turns: Vec<Value> = (0..sent)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": text}))
        .collect();
    match cli {
        Wire::Responses => (
            "/v1/responses",
            json!({"model": "m", "stream": is_stream, "input": turns}),
        ),
        _ => (
            "/v1/messages",
            json!({"model": "m", "stream": is_stream, "max_tokens": 99, "messages": turns}),
        ),
    }
}

/// Returns the relay's processor time for one request, in microseconds.
fn measure(
    cli: Wire,
    provider: Wire,
    (path, body): &(&'static str, Value),
) -> Result<f64, Box<dyn Error>> {
    let (model_at, stop_model) = model()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let (read, reads) = std::sync::mpsc::channel();
    let (ask_time, mut asked) = tokio::sync::mpsc::channel::<()>(2);
    let folder = tempfile::tempdir()?;
    let socket: PathBuf = folder.path().join("relay");
    let at = socket.clone();
    let relay = std::thread::Builder::new().name("relay".to_owned());
    let relay = relay.spawn(move || {
        let done = (|| -> Result<(), Box<dyn Error + Send + Sync>> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let relay = Relay::new(
                    plan(cli, provider, &model_at),
                    None,
                    Arc::new(Out(http())),
                    Arc::new(Open),
                );
                let listener = UnixListener::bind(&at)?;
                tell.send(())?;
                let times = async {
                    while asked.recv().await.is_some() {
                        // Only this thread can read its own time; nobody hears of it too late.
                        let _ = read.send(thread_us());
                    }
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    () = relay.serve_unix(listener) => {}
                    () = times => {}
                    _ = stopped => {}
                }
                relay.close().await;
                Ok(())
            })
        })();
        done.map_err(|e| e.to_string())
    })?;
    told.recv()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let bytes = Bytes::from(body.to_string());
    let mut used = 0.0;
    runtime.block_on(async {
        let mut client = asker(&socket).await?;
        for (requests, is_counted) in [(WARM_UP, false), (REQUESTS, true)] {
            ask_time.send(()).await?;
            let before = reads.recv()?;
            for _ in 0..requests {
                let request = Request::post(*path).header("host", "127.0.0.1:47001");
                let request = request.body(Full::new(bytes.clone()))?;
                client.ready().await?;
                let answer = client.send_request(request).await?;
                let status = answer.status();
                let body = answer.into_body().collect().await?.to_bytes();
                if status != 200 || body.is_empty() {
                    return Err(Box::<dyn Error>::from(format!("{status}: {body:?}")));
                }
            }
            ask_time.send(()).await?;
            if is_counted {
                used = reads.recv()? - before;
            } else {
                reads.recv()?;
            }
        }
        Ok(())
    })?;
    // They may have ended by themselves.
    let _ = stop.send(());
    let _ = stop_model.send(());
    relay.join().map_err(|_| "the relay's thread broke")??;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    Ok(used / REQUESTS as f64)
}

/// Opens the one connection that everything is asked through.
async fn asker(socket: &Path) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error>> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (client, connection) = hyper::client::conn::http1::handshake(stream).await?;
    // It ends with the client, which is dropped first.
    drop(tokio::task::spawn(connection));
    Ok(client)
}

/// Starts the model on a thread of its own; returns its address.
fn model() -> Result<(String, oneshot::Sender<()>), Box<dyn Error>> {
    let script = json!({"default": {
        "text": "word ".repeat(40), "chunk_chars": 10, "usage": {"input": 100, "output": 40},
    }});
    let mock = Mock::new(Script::parse(&script.to_string())?);
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let Ok(listener) = TcpListener::bind("127.0.0.1:0").await else {
                return;
            };
            let Ok(address) = listener.local_addr() else {
                return;
            };
            drop(tell.send(format!("http://{address}/v1")));
            tokio::select! {
                () = mock.serve(listener) => {}
                _ = stopped => {}
            }
        });
    })?;
    Ok((told.recv()?, stop))
}

fn plan(cli: Wire, provider: Wire, address: &str) -> Plan {
    let mut credential = HeaderMap::new();
    credential.insert("x-api-key", HeaderValue::from_static("sk-a-credential"));
    Plan {
        cli,
        provider,
        address: address.to_owned(),
        credential,
        model: "m".to_owned(),
        marker: "a line of the skill".to_owned(),
        caps: Caps::default(),
        tries: Tries::default(),
    }
}

/// Returns the processor time of this thread, in microseconds.
fn thread_us() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: Option<f64> = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.unwrap_or(f64::NAN) / 1e3
}
