//! The command line. `serve`, `config` and `debug` work here; all else asks a running server through its admin API.
//!
//! Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 3 the server cannot be reached.

mod admin;
mod client;
mod debug;
mod definitions;
mod flags;
mod output;
mod routing;
mod secure;
mod vhost;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{self, ConfigError, Sources};
use crate::serve::{ServeError, serve};
use admin::{AdminArgs, CheckArgs, GroupVerb, QueueVerb, TopicVerb, UserVerb};
use client::ClientError;
use debug::DebugVerb;
use definitions::{ExportWhat, ImportWhat};
use flags::ServeFlags;
use routing::{BindingVerb, ExchangeVerb};
use vhost::{ConnectionVerb, InVhost, PermissionVerb, PolicyVerb, VhostVerb};

/// How a command ended badly.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server does not run.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The server refused or is not there.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server took not all of it.
    #[error("{0}")]
    Refused(String),
    /// What was asked makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Reading or writing here failed.
    #[error("{0}")]
    Local(String),
}

impl CliError {
    fn code(&self) -> u8 {
        match self {
            CliError::Client(error) => error.code(),
            CliError::Config(_) | CliError::Usage(_) => 2,
            CliError::Serve(_) | CliError::Local(_) | CliError::Refused(_) => 1,
        }
    }
}

/// A message broker that speaks Kafka and AMQP 0-9-1 on one log.
///
/// Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 3 the server cannot be reached.
#[derive(Debug, Parser)]
#[command(name = "fourfold", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server
    Serve(ServeFlags),
    /// Show the options of `serve`, as a configuration file
    Config {
        /// Print every option with its default
        #[arg(long, required = true)]
        defaults: bool,
    },
    /// Create, list, describe, alter and delete topics
    Topic {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        verb: TopicVerb,
    },
    /// List and describe consumer groups, with their lag
    Group {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        verb: GroupVerb,
    },
    /// Declare, list, describe, purge and delete queues
    Queue {
        #[command(flatten)]
        at: AdminArgs,
        #[command(flatten)]
        of: InVhost,
        #[command(subcommand)]
        verb: QueueVerb,
    },
    /// Declare, list, describe and delete exchanges
    Exchange {
        #[command(flatten)]
        at: AdminArgs,
        #[command(flatten)]
        of: InVhost,
        #[command(subcommand)]
        verb: ExchangeVerb,
    },
    /// Declare, list and delete bindings
    Binding {
        #[command(flatten)]
        at: AdminArgs,
        #[command(flatten)]
        of: InVhost,
        #[command(subcommand)]
        verb: BindingVerb,
    },
    /// Put, list, describe and delete virtual hosts
    Vhost {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        verb: VhostVerb,
    },
    /// Put, list and delete what users may do in virtual hosts
    Permission {
        #[command(flatten)]
        at: AdminArgs,
        #[command(flatten)]
        of: InVhost,
        #[command(subcommand)]
        verb: PermissionVerb,
    },
    /// Put, list, describe and delete policies: options for all queues and exchanges whose name matches
    Policy {
        #[command(flatten)]
        at: AdminArgs,
        #[command(flatten)]
        of: InVhost,
        /// Operators' policies, which limit what others ask for
        #[arg(long, global = true)]
        operator: bool,
        #[command(subcommand)]
        verb: PolicyVerb,
    },
    /// List, describe and close connections
    Connection {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        verb: ConnectionVerb,
    },
    /// Take definitions in that RabbitMQ or Fourfold exported, and report what does not map
    Import {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        what: ImportWhat,
    },
    /// Write all definitions to a file
    Export {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        what: ExportWhat,
    },
    /// Add, list and delete users
    User {
        #[command(flatten)]
        at: AdminArgs,
        #[command(subcommand)]
        verb: UserVerb,
    },
    /// Look at the data folder of a stopped server: list, dump, verify, repair
    Debug {
        #[command(subcommand)]
        verb: DebugVerb,
    },
    /// Show what a server holds, and what storing it has cost in bytes written and on disk
    Status(CheckArgs),
    /// Ask a server whether it is well: exit code 0 if so, 1 if not, 3 if it cannot be reached
    Check(CheckArgs),
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fourfold: {error}");
            ExitCode::from(error.code())
        }
    }
}

fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Serve(flags) => {
            let environment: Vec<(String, String)> = std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .filter(|(name, _)| name.starts_with("FOURFOLD_"))
                .collect();
            let named = environment.iter().find(|(name, _)| name == "FOURFOLD_CONFIG").map(|(_, file)| file.into());
            let file = flags.config.or(named);
            let settings = config::load(&Sources { file, environment, flags: flags.values })?;
            serve(&settings)?;
            Ok(())
        }
        Command::Config { .. } => output::print(&config::defaults_text()),
        Command::Debug { verb } => debug::run(verb),
        Command::Topic { at, verb } => admin::topic(&at, verb),
        Command::Group { at, verb } => admin::group(&at, verb),
        Command::Queue { at, of, verb } => admin::queue(&at, &of, verb),
        Command::Exchange { at, of, verb } => routing::exchange(&at, &of, verb),
        Command::Binding { at, of, verb } => routing::binding(&at, &of, verb),
        Command::Vhost { at, verb } => vhost::vhost(&at, verb),
        Command::Permission { at, of, verb } => vhost::permission(&at, &of, verb),
        Command::Policy { at, of, operator, verb } => vhost::policy(&at, &of, operator, verb),
        Command::Connection { at, verb } => vhost::connection(&at, verb),
        Command::Import { at, what } => definitions::import(&at, what),
        Command::Export { at, what } => definitions::export(&at, what),
        Command::User { at, verb } => admin::user(&at, verb),
        Command::Status(args) => admin::status(&args),
        Command::Check(args) => admin::check(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_is_a_flag_of_serve_with_its_default_and_variable() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("serve").unwrap().render_long_help().to_string();
        for option in config::table() {
            assert!(help.contains(&format!("--{} ", option.flag)) || help.contains(&format!("--{}[", option.flag)));
            assert!(help.contains(&option.variable()), "{}", option.key);
        }
    }
}
