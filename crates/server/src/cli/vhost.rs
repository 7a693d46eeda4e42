//! `fourfold vhost`, `permission`, `policy` and `connection`: who may use what, under which rules, and who is there.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::CliError;
use super::admin::{AdminArgs, change, connect, show_all, show_one};
use super::client::encode;

/// In which virtual host.
#[derive(Clone, Debug, Args)]
pub struct InVhost {
    /// The virtual host
    #[arg(long, global = true, value_name = "NAME", default_value = "/")]
    pub vhost: String,
}

/// What is done with virtual hosts.
#[derive(Clone, Debug, Subcommand)]
pub enum VhostVerb {
    /// List all virtual hosts
    List,
    /// Make a virtual host, or change what is said of one; whoever makes it may use it
    Put {
        /// Its name
        name: String,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// The type of queues that are declared without one: classic, quorum or stream
        #[arg(long, value_name = "TYPE")]
        default_queue_type: Option<String>,
    },
    /// Show a virtual host
    Describe {
        /// Its name
        name: String,
    },
    /// Remove a virtual host with all that it has
    Delete {
        /// Its name
        name: String,
    },
}

/// What is done with permissions.
#[derive(Clone, Debug, Subcommand)]
pub enum PermissionVerb {
    /// List all permissions
    List,
    /// Let a user use a virtual host, by patterns over the names of queues and exchanges
    Put {
        // Not a field `user`: that is who logs in, an option of all verbs, and clap would take one for the other.
        /// The user
        #[arg(value_name = "USER")]
        name: String,
        /// What may be made, changed and removed
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        configure: String,
        /// What may be written to
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        write: String,
        /// What may be read from
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        read: String,
    },
    /// Take a user's permission away
    Delete {
        /// The user
        #[arg(value_name = "USER")]
        name: String,
    },
}

/// What is done with policies.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyVerb {
    /// List all policies
    List,
    /// Put a policy; it acts at once on all queues and exchanges that it matches
    Put {
        /// Its name
        name: String,
        /// A regular expression that names must match
        pattern: String,
        /// What it asks for, such as max-length=1000 or dead-letter-exchange=dead
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// What it is for: all, queues, classic_queues, quorum_queues, streams or exchanges
        #[arg(long, value_name = "WHAT", default_value = "all")]
        apply_to: String,
        /// Of several that match one object the highest rules it
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        priority: i64,
    },
    /// Show a policy
    Describe {
        /// Its name
        name: String,
    },
    /// Remove a policy
    Delete {
        /// Its name
        name: String,
    },
}

/// What is done with connections.
#[derive(Clone, Debug, Subcommand)]
pub enum ConnectionVerb {
    /// List all connections
    List,
    /// Show a connection
    Describe {
        /// Its name, as listed
        name: String,
    },
    /// Close a connection; its client is told
    Close {
        /// Its name, as listed
        name: String,
    },
}

/// `fourfold vhost`.
pub fn vhost(at: &AdminArgs, verb: VhostVerb) -> Result<(), CliError> {
    let columns = [("NAME", "name"), ("DESCRIPTION", "description"), ("DEFAULT QUEUE TYPE", "default_queue_type")];
    let path = |name: &str| format!("/api/vhosts/{}", encode(name));
    match verb {
        VhostVerb::List => show_all(at, "/api/vhosts", &columns),
        VhostVerb::Describe { name } => show_one(at, &path(&name)),
        VhostVerb::Put { name, description, default_queue_type } => {
            let mut body = Map::new();
            let given = [("description", description), ("default_queue_type", default_queue_type)];
            body.extend(given.into_iter().filter_map(|(field, text)| Some((field.to_owned(), text?.into()))));
            change(at, ("PUT", &path(&name)), Some(&body.into()), &format!("virtual host '{name}' put"))
        }
        VhostVerb::Delete { name } => {
            change(at, ("DELETE", &path(&name)), None, &format!("virtual host '{name}' deleted"))
        }
    }
}

/// `fourfold permission`.
pub fn permission(at: &AdminArgs, of: &InVhost, verb: PermissionVerb) -> Result<(), CliError> {
    let path = |user: &str| format!("/api/permissions/{}/{}", encode(&of.vhost), encode(user));
    match verb {
        PermissionVerb::List => {
            let columns = [
                ("USER", "user"),
                ("VHOST", "vhost"),
                ("CONFIGURE", "configure"),
                ("WRITE", "write"),
                ("READ", "read"),
            ];
            show_all(at, "/api/permissions", &columns)
        }
        PermissionVerb::Put { name: user, configure, write, read } => {
            let body = json!({ "configure": configure, "write": write, "read": read });
            let done = format!("user '{user}' may use virtual host '{}' so", of.vhost);
            change(at, ("PUT", &path(&user)), Some(&body), &done).map_err(|why| missing_of(at, &of.vhost, &user, why))
        }
        PermissionVerb::Delete { name: user } => {
            let done = format!("user '{user}' has no permission in virtual host '{}' any more", of.vhost);
            change(at, ("DELETE", &path(&user)), None, &done)
        }
    }
}

/// Which of both is not there, and how to make it: RabbitMQ's word for it leaves that open.
fn missing_of(at: &AdminArgs, vhost: &str, user: &str, why: CliError) -> CliError {
    if !why.to_string().contains("vhost_or_user_not_found") {
        return why;
    }
    let is_there = |path: String| connect(at).is_ok_and(|client| client.ask("GET", &path, None).is_ok());
    if !is_there(format!("/api/vhosts/{}", encode(vhost))) {
        return CliError::Refused(format!(
            "there is no virtual host '{vhost}': `fourfold vhost list` shows them, `fourfold vhost put {vhost}` makes \
             one"
        ));
    }
    if !is_there(format!("/api/users/{}", encode(user))) {
        return CliError::Refused(format!(
            "there is no user '{user}': `fourfold user list` shows them, `fourfold user add {user}` makes one"
        ));
    }
    why
}

/// `fourfold policy`.
pub fn policy(at: &AdminArgs, of: &InVhost, operator: bool, verb: PolicyVerb) -> Result<(), CliError> {
    let noun = if operator { "operator-policies" } else { "policies" };
    let all = format!("/api/{noun}");
    let path = |name: &str| format!("{all}/{}/{}", encode(&of.vhost), encode(name));
    match verb {
        PolicyVerb::List => {
            let columns = [
                ("VHOST", "vhost"),
                ("NAME", "name"),
                ("PATTERN", "pattern"),
                ("APPLIES TO", "apply-to"),
                ("PRIORITY", "priority"),
                ("DEFINITION", "definition"),
            ];
            show_all(at, &all, &columns)
        }
        PolicyVerb::Describe { name } => show_one(at, &path(&name)),
        PolicyVerb::Put { name, pattern, settings, apply_to, priority } => {
            let definition = values_of(&settings)?;
            let body =
                json!({ "pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": priority });
            change(at, ("PUT", &path(&name)), Some(&body), &format!("policy '{name}' put"))
        }
        PolicyVerb::Delete { name } => change(at, ("DELETE", &path(&name)), None, &format!("policy '{name}' deleted")),
    }
}

/// Settings by name: numbers, truths and lists as such, all else as text.
pub fn values_of(texts: &[String]) -> Result<Map<String, Value>, CliError> {
    let pair = |text: &String| {
        let wrong = || CliError::Usage(format!("'{text}' is not KEY=VALUE"));
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok((key.to_owned(), value))
    };
    texts.iter().map(pair).collect()
}

/// `fourfold connection`.
pub fn connection(at: &AdminArgs, verb: ConnectionVerb) -> Result<(), CliError> {
    let path = |name: &str| format!("/api/connections/{}", encode(name));
    match verb {
        ConnectionVerb::List => {
            let columns = [
                ("NAME", "name"),
                ("PROTOCOL", "protocol"),
                ("USER", "user"),
                ("VHOST", "vhost"),
                ("CHANNELS", "channels"),
                ("STATE", "state"),
            ];
            show_all(at, "/api/connections", &columns)
        }
        ConnectionVerb::Describe { name } => show_one(at, &path(&name)),
        ConnectionVerb::Close { name } => {
            change(at, ("DELETE", &path(&name)), None, &format!("connection '{name}' closed"))
        }
    }
}
