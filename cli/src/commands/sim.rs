//! `skillopt sim`: the simulated model as a server, and its data.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use skillopt_runtime::Shutdown;
use skillopt_sim::mock::{Mock, Script};
use skillopt_sim::server;
use skillopt_sim::{Settings, SimulatedModel, Sizes, generate};

use crate::args::{DataArgs, MockArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::process;
use crate::sim_args::ServeArgs;

pub(crate) fn serve(args: &ServeArgs, out: &Out) -> Result<Exit, Failure> {
    let mut settings = Settings::default();
    for (name, value) in &args.settings {
        settings.set(name, value)?;
    }
    let model = Arc::new(SimulatedModel::new(settings));
    let shutdown = Shutdown::new();
    let stop = shutdown.drain.clone();
    let work = async {
        let listener = server::bind(&args.listen).await?;
        let address = listener.local_addr()?;
        let url = format!("http://{address}/v1");
        if out.json {
            out.object(
                "listening",
                json!({"address": address.to_string(), "base_url": url}),
            );
        } else {
            out.line(format!("listening on {url}"));
        }
        server::serve(listener, model, async move { stop.cancelled().await }).await;
        Ok(Exit::Done)
    };
    process::block_on(&shutdown, |_| {}, work)?
}

pub(crate) fn mock(args: &MockArgs, out: &Out) -> Result<Exit, Failure> {
    let place = args.script.display();
    let text = std::fs::read_to_string(&args.script)
        .map_err(|e| Failure::usage(format!("`{place}` cannot be read: {e}")))?;
    let script = Script::parse(&text).map_err(|e| Failure::usage(format!("`{place}`: {e}")))?;
    let mock = Mock::new(script);
    let shutdown = Shutdown::new();
    let stop = shutdown.drain.clone();
    let work = async {
        let listener = server::bind(&args.listen).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let socket = match &args.socket {
            Some(path) => Some(tokio::net::UnixListener::bind(path).map_err(|e| {
                let path = path.display();
                Failure::usage(format!("cannot listen on `{path}`: {e}"))
            })?),
            None => None,
        };
        if out.json {
            out.object("listening", json!({"base_url": url, "socket": args.socket}));
        } else {
            out.line(format!("listening on {url}"));
        }
        let on_socket = async {
            match socket {
                Some(listener) => mock.serve_unix(listener).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = mock.serve(listener) => {}
            () = on_socket => {}
            () = stop.cancelled() => {}
        }
        if let Some(path) = &args.socket {
            // A socket left behind would keep the next one from listening.
            std::fs::remove_file(path)?;
        }
        Ok(Exit::Done)
    };
    process::block_on(&shutdown, |_| {}, work)?
}

pub(crate) fn data(args: &DataArgs, out: &Out) -> Result<Exit, Failure> {
    let sizes = Sizes {
        train: args.train,
        val: args.val,
        test: args.test,
    };
    if !args.force {
        check_overwritten(&args.dir)?;
    }
    generate(&args.dir, args.seed, sizes)?;
    if out.json {
        out.object(
            "data",
            json!({"dir": args.dir, "train": args.train, "val": args.val, "test": args.test}),
        );
    } else {
        out.line(format!(
            "{} train, {} val and {} test items are in {}",
            args.train,
            args.val,
            args.test,
            args.dir.display()
        ));
    }
    Ok(Exit::Done)
}

/// Refuses to overwrite items that somebody else made. Ours are named `SPLIT-NUMBER`.
fn check_overwritten(dir: &Path) -> Result<(), Failure> {
    for split in ["train", "val", "test"] {
        let path = dir.join(split).join("items.json");
        if !path.exists() {
            continue;
        }
        let items: Option<Vec<Value>> = serde_json::from_slice(&std::fs::read(&path)?).ok();
        let is_ours = |item: &Value| {
            let id = item.get("id").and_then(Value::as_str);
            let number = id.and_then(|id| id.strip_prefix(split)?.strip_prefix('-'));
            number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        };
        if !items.is_some_and(|items| items.iter().all(is_ours)) {
            return Err(Failure::usage(format!(
                "`{}` holds items that are not made up",
                path.display()
            ))
            .hint("choose another folder, or overwrite them with --force"));
        }
    }
    Ok(())
}
