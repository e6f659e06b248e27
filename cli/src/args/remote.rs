//! Which coordinator a command talks to.

use std::path::PathBuf;

use clap::Args;

/// Where the cluster is, and who asks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct RemoteArgs {
    /// Ask this coordinator, as in `https://host` (port 7420 unless named); of several with commas any one will do
    #[arg(
        long,
        value_name = "URL",
        env = "SKILLOPT_COORDINATOR",
        hide_env_values = true
    )]
    pub(crate) coordinator: Option<String>,
    /// Show this token; better kept in the environment or in a file
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SKILLOPT_TOKEN",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(crate) token: Option<String>,
    /// Show the token in this file
    #[arg(
        long,
        value_name = "FILE",
        env = "SKILLOPT_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the certificates that this PEM file vouches for [default: those that the system trusts]
    #[arg(
        long,
        value_name = "FILE",
        env = "SKILLOPT_CA",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(crate) ca: Option<PathBuf>,
    /// Show this certificate (PEM) to the coordinator
    #[arg(
        long,
        value_name = "FILE",
        env = "SKILLOPT_CLIENT_CERT",
        hide_env_values = true,
        requires = "client_key",
        hide_short_help = true
    )]
    pub(crate) client_cert: Option<PathBuf>,
    /// Read the certificate's private key (PEM) from this file
    #[arg(
        long,
        value_name = "FILE",
        env = "SKILLOPT_CLIENT_KEY",
        hide_env_values = true,
        requires = "client_cert",
        hide_short_help = true
    )]
    pub(crate) client_key: Option<PathBuf>,
    /// Allow plain text (`http://`) to other machines
    #[arg(long, hide_short_help = true)]
    pub(crate) insecure: bool,
}
