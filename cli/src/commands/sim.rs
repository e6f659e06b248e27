//! `skillopt sim`: the simulated model as a server, and its data.

use std::sync::Arc;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;
use skillopt_runtime::Shutdown;
use skillopt_sim::server::{self, DEFAULT_LISTEN};
use skillopt_sim::{SETTINGS, Settings, SimulatedModel, Sizes, generate};

use crate::args::DataArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::process;

/// The address, and what of the settings is not as usual.
#[derive(Clone, Debug)]
pub(crate) struct ServeArgs {
    listen: String,
    settings: Vec<(&'static str, String)>,
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let listen = Arg::new("listen")
            .long("listen")
            .value_name("HOST:PORT")
            .default_value(DEFAULT_LISTEN)
            .help("Listen on this address; port 0 takes a free one");
        let settings = SETTINGS.iter().map(|setting| {
            let mut arg = Arg::new(setting.name)
                .long(setting.name)
                .value_name("VALUE")
                .overrides_with(setting.name)
                .allow_negative_numbers(true)
                .help(setting.help);
            if !setting.default.is_empty() {
                arg = arg.default_value(setting.default);
            }
            arg
        });
        command.arg(listen).args(settings).after_help(
            "Example:\n  skillopt sim serve --listen 127.0.0.1:8080 --latency fixed:50 --p429 0.05\n\n\
             When it listens it writes one line with its address to standard output.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let settings = SETTINGS
            .iter()
            .filter_map(|setting| Some((setting.name, text(setting.name)?)));
        Ok(Self {
            listen: text("listen").unwrap_or_else(|| DEFAULT_LISTEN.to_owned()),
            settings: settings.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

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

pub(crate) fn data(args: &DataArgs, out: &Out) -> Result<Exit, Failure> {
    let sizes = Sizes {
        train: args.train,
        val: args.val,
        test: args.test,
    };
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
