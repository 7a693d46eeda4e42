//! `fourfold exchange` and `fourfold binding`; and declaring queues.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::CliError;
use super::admin::{AdminArgs, change, connect, show_all, show_one};
use super::client::encode;
use super::output::print;
use super::vhost::{InVhost, values_of};

/// What is done with exchanges.
#[derive(Clone, Debug, Subcommand)]
pub enum ExchangeVerb {
    /// List the exchanges of a virtual host
    List,
    /// Make an exchange
    Declare {
        /// Its name
        name: String,
        /// Its type: direct, fanout, topic, headers or x-delayed-message
        #[arg(long = "type", value_name = "TYPE", default_value = "direct")]
        kind: String,
        /// Remove it when its last binding has gone
        #[arg(long)]
        auto_delete: bool,
        /// Let clients publish to it only by way of other exchanges
        #[arg(long)]
        internal: bool,
        #[command(flatten)]
        lasting: Lasting,
    },
    /// Show an exchange
    Describe {
        /// Its name
        name: String,
    },
    /// Remove an exchange and its bindings
    Delete {
        /// Its name
        name: String,
    },
}

/// What exchanges and queues are declared with.
#[derive(Clone, Debug, Args)]
pub struct Lasting {
    /// Do not keep it over a restart
    #[arg(long)]
    transient: bool,
    /// An argument, such as alternate-exchange=other or x-max-length=1000; may be given several times
    #[arg(long = "argument", value_name = "KEY=VALUE")]
    arguments: Vec<String>,
}

/// A queue to declare.
#[derive(Clone, Debug, Args)]
pub struct QueueDeclared {
    /// Its name
    pub name: String,
    /// Its type: classic, quorum or stream
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Remove it when its last consumer has gone
    #[arg(long)]
    auto_delete: bool,
    #[command(flatten)]
    lasting: Lasting,
}

/// What is done with bindings.
#[derive(Clone, Debug, Subcommand)]
pub enum BindingVerb {
    /// List the bindings of a virtual host
    List,
    /// Bind a queue to an exchange
    Declare {
        #[command(flatten)]
        ends: Ends,
        /// An argument, such as x-match=all; may be given several times
        #[arg(long = "argument", value_name = "KEY=VALUE")]
        arguments: Vec<String>,
    },
    /// Undo the bindings with this key
    Delete {
        #[command(flatten)]
        ends: Ends,
    },
}

/// What a binding binds.
#[derive(Clone, Debug, Args)]
pub struct Ends {
    /// The exchange that messages come from
    source: String,
    /// The queue that they go to
    destination: String,
    /// The routing key
    #[arg(long, default_value = "")]
    key: String,
    /// The destination is an exchange
    #[arg(long)]
    to_exchange: bool,
}

/// `fourfold exchange`.
pub fn exchange(at: &AdminArgs, of: &InVhost, verb: ExchangeVerb) -> Result<(), CliError> {
    let all = format!("/api/exchanges/{}", encode(&of.vhost));
    let path = |name: &str| format!("{all}/{}", encode(name));
    match verb {
        ExchangeVerb::List => {
            let columns = [
                ("NAME", "name"),
                ("TYPE", "type"),
                ("DURABLE", "durable"),
                ("AUTO DELETE", "auto_delete"),
                ("INTERNAL", "internal"),
                ("POLICY", "policy"),
            ];
            show_all(at, &all, &columns)
        }
        ExchangeVerb::Declare { name, kind, auto_delete, internal, lasting } => {
            let body = json!({
                "type": kind,
                "durable": !lasting.transient,
                "auto_delete": auto_delete,
                "internal": internal,
                "arguments": values_of(&lasting.arguments)?,
            });
            change(at, ("PUT", &path(&name)), Some(&body), &format!("exchange '{name}' declared"))
        }
        ExchangeVerb::Describe { name } => show_one(at, &path(&name)),
        ExchangeVerb::Delete { name } => {
            change(at, ("DELETE", &path(&name)), None, &format!("exchange '{name}' deleted"))
        }
    }
}

/// `fourfold queue declare`.
pub fn declare_queue(at: &AdminArgs, of: &InVhost, asked: &QueueDeclared) -> Result<(), CliError> {
    let mut arguments = values_of(&asked.lasting.arguments)?;
    if let Some(kind) = &asked.kind {
        arguments.insert("x-queue-type".to_owned(), kind.as_str().into());
    }
    let body = json!({
        "durable": !asked.lasting.transient,
        "auto_delete": asked.auto_delete,
        "arguments": arguments,
    });
    let path = format!("/api/queues/{}/{}", encode(&of.vhost), encode(&asked.name));
    change(at, ("PUT", &path), Some(&body), &format!("queue '{}' declared", asked.name))
}

/// `fourfold binding`.
pub fn binding(at: &AdminArgs, of: &InVhost, verb: BindingVerb) -> Result<(), CliError> {
    let between = |ends: &Ends| {
        let kind = if ends.to_exchange { 'e' } else { 'q' };
        let (source, destination) = (encode(&ends.source), encode(&ends.destination));
        format!("/api/bindings/{}/e/{source}/{kind}/{destination}", encode(&of.vhost))
    };
    match verb {
        BindingVerb::List => {
            let columns = [
                ("SOURCE", "source"),
                ("DESTINATION", "destination"),
                ("KIND", "destination_type"),
                ("KEY", "routing_key"),
                ("ARGUMENTS", "arguments"),
            ];
            show_all(at, &format!("/api/bindings/{}", encode(&of.vhost)), &columns)
        }
        BindingVerb::Declare { ends, arguments } => {
            let body = json!({ "routing_key": ends.key, "arguments": values_of(&arguments)? });
            let done = format!("'{}' bound to '{}'", ends.destination, ends.source);
            change(at, ("POST", &between(&ends)), Some(&body), &done)
        }
        BindingVerb::Delete { ends } => {
            let client = connect(at)?;
            let all = client.ask("GET", &between(&ends), None)?;
            let same = |binding: &&Value| binding["routing_key"] == ends.key.as_str();
            let keys = all.as_array().into_iter().flatten().filter(same);
            let keys = keys.filter_map(|binding| binding["properties_key"].as_str()).collect::<Vec<_>>();
            if keys.is_empty() {
                let why = format!("'{}' is not bound to '{}' with key '{}'", ends.destination, ends.source, ends.key);
                return Err(CliError::Refused(format!("{why}: `fourfold binding list` shows what is")));
            }
            for key in &keys {
                client.ask("DELETE", &format!("{}/{}", between(&ends), encode(key)), None)?;
            }
            print(&format!("{} bindings undone\n", keys.len()))
        }
    }
}
