//! The flags of `serve`, made from the table of options.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::config::{Kind, table};

/// What was given on the command line.
#[derive(Clone, Debug, Default)]
pub struct ServeFlags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Values by the option's key.
    pub values: Vec<(String, String)>,
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = ServeFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one::<PathBuf>("config").cloned().or_else(|| self.config.take());
        for option in table() {
            if let Some(value) = matches.get_one::<String>(&option.key) {
                self.values.push((option.key.clone(), value.clone()));
            }
        }
        Ok(())
    }
}

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("PATH")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read options from this TOML file [env: FOURFOLD_CONFIG]");
        table().iter().fold(command.arg(config), |command, option| {
            let default = if option.default.is_empty() { "none" } else { &option.default };
            let help = format!("{} [default: {default}] [env: {}]", option.doc, option.variable());
            let arg = Arg::new(option.key.as_str())
                .long(option.flag.as_str())
                .value_name(option.kind.placeholder())
                .action(ArgAction::Set)
                .overrides_with(option.key.as_str())
                .help(help);
            command.arg(match option.kind {
                Kind::Bool => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                _ => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
