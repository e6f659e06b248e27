//! The flags of `skillopt sim serve`: one for each setting of the simulated model.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use skillopt_sim::SETTINGS;
use skillopt_sim::server::DEFAULT_LISTEN;

/// The address, and what of the settings is not as usual.
#[derive(Clone, Debug)]
pub(crate) struct ServeArgs {
    pub(crate) listen: String,
    pub(crate) settings: Vec<(&'static str, String)>,
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
