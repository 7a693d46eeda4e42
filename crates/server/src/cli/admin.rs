//! The commands that ask a running server.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::CliError;
use super::client::{Client, encode};
use super::output::{Format, print, print_json, print_rows};
use super::routing::{QueueDeclared, declare_queue};
use super::vhost::InVhost;

/// Where the server is and who asks.
#[derive(Clone, Debug, Args)]
pub struct AdminArgs {
    /// The server's admin API [default: http://127.0.0.1:15672] [env: FOURFOLD_SERVER]
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Whom to trust when that is an https address: a PEM file with its authority [env: FOURFOLD_CA]
    #[arg(long, global = true, value_name = "PATH")]
    ca: Option<PathBuf>,
    /// The user to log in as [default: guest] [env: FOURFOLD_USER]
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<String>,
    /// A file that holds the user's password; without one it is 'guest' [env: FOURFOLD_PASSWORD_FILE]
    #[arg(long, global = true, value_name = "PATH")]
    password_file: Option<PathBuf>,
    /// How to show answers
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
}

/// Which server is to be checked.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    at: AdminArgs,
}

/// What is done with topics.
#[derive(Clone, Debug, Subcommand)]
pub enum TopicVerb {
    /// Make a topic
    Create {
        /// Its name
        name: String,
        /// How many partitions
        #[arg(short, long, default_value_t = 1)]
        partitions: u32,
        /// A setting, such as max.message.bytes=2097152; may be given several times
        #[arg(short, long, value_name = "NAME=VALUE")]
        config: Vec<String>,
    },
    /// List all topics
    List,
    /// Show a topic's partitions and settings
    Describe {
        /// Its name
        name: String,
    },
    /// Change a topic's settings; those not named stay as they are
    Alter {
        /// Its name
        name: String,
        /// Settings, such as max.message.bytes=2097152
        #[arg(value_name = "NAME=VALUE")]
        config: Vec<String>,
        /// A setting that goes back to its default; may be given several times
        #[arg(long, value_name = "NAME")]
        unset: Vec<String>,
    },
    /// Remove a topic with all its messages
    Delete {
        /// Its name
        name: String,
    },
}

/// What is done with groups.
#[derive(Clone, Debug, Subcommand)]
pub enum GroupVerb {
    /// List all groups
    List,
    /// Show a group's members, committed offsets and lag
    Describe {
        /// Its name
        name: String,
    },
}

/// What is done with queues.
#[derive(Clone, Debug, Subcommand)]
pub enum QueueVerb {
    /// Make a queue
    Declare(QueueDeclared),
    /// List all queues
    List,
    /// Show a queue
    Describe {
        /// Its name
        name: String,
    },
    /// Remove a queue with all its messages
    Delete {
        /// Its name
        name: String,
    },
    /// Remove all messages that wait in a queue
    Purge {
        /// Its name
        name: String,
    },
    /// Move dead letters back to the queues where they died
    ///
    /// Each goes back under the exchange and routing key that it had there. Its history (x-death) stays, its own time
    /// to live does not. May be stopped and killed at any time: every message is in one of both queues, once.
    Redrive(Redriven),
}

/// Dead letters to move.
#[derive(Clone, Debug, Args)]
pub struct Redriven {
    /// The queue that holds them
    name: String,
    /// Move all of them to this queue instead
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Move no more than so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// What is done with users.
#[derive(Clone, Debug, Subcommand)]
pub enum UserVerb {
    /// Add a user, or give one a new password and tags
    Add {
        /// The user's name
        name: String,
        /// A tag, such as administrator; may be given several times
        #[arg(long, value_delimiter = ',')]
        tags: Vec<String>,
        /// Read the password from standard input without asking
        #[arg(long)]
        password_stdin: bool,
    },
    /// List all users
    List,
    /// Remove a user
    Delete {
        /// The user's name
        name: String,
    },
}

/// The server that is asked.
pub fn connect(at: &AdminArgs) -> Result<Client, CliError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let server = at.server.clone().or_else(|| variable("FOURFOLD_SERVER"));
    let user = at.user.clone().or_else(|| variable("FOURFOLD_USER")).unwrap_or_else(|| "guest".to_owned());
    let file = at.password_file.clone().or_else(|| variable("FOURFOLD_PASSWORD_FILE").map(PathBuf::from));
    let password = match file {
        Some(file) => {
            let text = std::fs::read_to_string(&file)
                .map_err(|why| CliError::Usage(format!("cannot read {}: {why}", file.display())))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        None if user == "guest" => "guest".to_owned(),
        None => return Err(CliError::Usage(format!("give the password of '{user}' with --password-file"))),
    };
    let ca = at.ca.clone().or_else(|| variable("FOURFOLD_CA").map(PathBuf::from));
    let server = server.as_deref().unwrap_or("http://127.0.0.1:15672");
    Ok(Client::new(server, ca.as_deref(), &user, &password)?)
}

/// Asks and shows: as it came, or a field of it as rows.
fn show(at: &AdminArgs, path: &str, rows: &str, columns: &[(&str, &str)]) -> Result<(), CliError> {
    let answer = connect(at)?.ask("GET", path, None)?;
    match at.output {
        Format::Json => print_json(&answer),
        Format::Table => print_rows(&answer[rows], columns),
    }
}

/// Asks for a list and shows it.
pub fn show_all(at: &AdminArgs, path: &str, columns: &[(&str, &str)]) -> Result<(), CliError> {
    let answer = connect(at)?.ask("GET", path, None)?;
    match at.output {
        Format::Json => print_json(&answer),
        Format::Table => print_rows(&answer, columns),
    }
}

/// Asks for one thing and shows all that is said of it.
pub fn show_one(at: &AdminArgs, path: &str) -> Result<(), CliError> {
    let answer = connect(at)?.ask("GET", path, None)?;
    if at.output == Format::Json {
        return print_json(&answer);
    }
    let fields = answer.as_object().into_iter().flatten();
    let rows = fields.map(|(name, value)| json!({ "name": name, "value": value }));
    print_rows(&Value::from_iter(rows), &[("WHAT", "name"), ("VALUE", "value")])
}

/// Asks for a change and says what came of it.
pub fn change(at: &AdminArgs, request: (&str, &str), body: Option<&Value>, done: &str) -> Result<(), CliError> {
    let answer = connect(at)?.ask(request.0, request.1, body)?;
    match (at.output, answer["messages"].as_u64()) {
        (Format::Json, _) => print_json(&answer),
        (Format::Table, Some(messages)) => print(&format!("{done} ({messages} messages removed)\n")),
        (Format::Table, None) => print(&format!("{done}\n")),
    }
}

/// `fourfold topic`.
pub fn topic(at: &AdminArgs, verb: TopicVerb) -> Result<(), CliError> {
    match verb {
        TopicVerb::Create { name, partitions, config } => {
            let body = json!({ "name": name, "partitions": partitions, "config": settings_of(&config)? });
            change(at, ("POST", "/api/v1/topics"), Some(&body), &format!("topic '{name}' created"))
        }
        TopicVerb::List => {
            let columns = [("NAME", "name"), ("PARTITIONS", "partitions"), ("INTERNAL", "internal")];
            show(at, "/api/v1/topics", "topics", &columns)
        }
        TopicVerb::Describe { name } => describe_topic(at, &name),
        TopicVerb::Alter { name, config, unset } => {
            let mut settings = settings_of(&config)?;
            settings.extend(unset.into_iter().map(|key| (key, Value::Null)));
            if settings.is_empty() {
                return Err(CliError::Usage("name at least one setting as NAME=VALUE or --unset NAME".to_owned()));
            }
            let path = format!("/api/v1/topics/{}/config", encode(&name));
            change(at, ("PUT", &path), Some(&settings.into()), &format!("topic '{name}' altered"))
        }
        TopicVerb::Delete { name } => {
            let path = format!("/api/v1/topics/{}", encode(&name));
            change(at, ("DELETE", &path), None, &format!("topic '{name}' deleted"))
        }
    }
}

fn settings_of(texts: &[String]) -> Result<serde_json::Map<String, Value>, CliError> {
    let pair = |text: &String| {
        let (key, value) =
            text.split_once('=').ok_or_else(|| CliError::Usage(format!("'{text}' is not NAME=VALUE")))?;
        Ok((key.to_owned(), value.into()))
    };
    texts.iter().map(pair).collect()
}

fn describe_topic(at: &AdminArgs, name: &str) -> Result<(), CliError> {
    let answer = connect(at)?.ask("GET", &format!("/api/v1/topics/{}", encode(name)), None)?;
    if at.output == Format::Json {
        return print_json(&answer);
    }
    let columns = [("PARTITION", "partition"), ("START", "start"), ("END", "end"), ("MESSAGES", "messages")];
    print_rows(&answer["partitions"], &columns)?;
    print("\n")?;
    print_rows(&answer["config"], &[("SETTING", "name"), ("VALUE", "value"), ("DEFAULT", "is_default")])
}

/// `fourfold group`.
pub fn group(at: &AdminArgs, verb: GroupVerb) -> Result<(), CliError> {
    match verb {
        GroupVerb::List => {
            let columns = [("NAME", "name"), ("STATE", "state"), ("TYPE", "protocol_type"), ("MEMBERS", "members")];
            show(at, "/api/v1/groups", "groups", &columns)
        }
        GroupVerb::Describe { name } => describe_group(at, &name),
    }
}

fn describe_group(at: &AdminArgs, name: &str) -> Result<(), CliError> {
    let answer = connect(at)?.ask("GET", &format!("/api/v1/groups/{}", encode(name)), None)?;
    if at.output == Format::Json {
        return print_json(&answer);
    }
    print(&format!("state: {}\n\n", answer["state"].as_str().unwrap_or("-")))?;
    let columns =
        [("TOPIC", "topic"), ("PARTITION", "partition"), ("COMMITTED", "committed"), ("END", "end"), ("LAG", "lag")];
    print_rows(&answer["offsets"], &columns)?;
    print("\n")?;
    let columns = [("MEMBER", "member"), ("INSTANCE", "instance"), ("CLIENT", "client_id"), ("HOST", "client_host")];
    print_rows(&answer["members"], &columns)
}

const QUEUE_COLUMNS: [(&str, &str); 6] = [
    ("NAME", "name"),
    ("READY", "ready"),
    ("UNSETTLED", "unsettled"),
    ("CONSUMERS", "consumers"),
    ("DURABLE", "durable"),
    ("TOPIC", "topic"),
];

/// `fourfold queue`.
pub fn queue(at: &AdminArgs, of: &InVhost, verb: QueueVerb) -> Result<(), CliError> {
    let tenant = format!("?tenant={}", encode(&of.vhost));
    let path = |name: &str| format!("/api/v1/queues/{}{tenant}", encode(name));
    match verb {
        QueueVerb::Declare(asked) => declare_queue(at, of, &asked),
        QueueVerb::List => show(at, &format!("/api/v1/queues{tenant}"), "queues", &QUEUE_COLUMNS),
        QueueVerb::Describe { name } => {
            let answer = connect(at)?.ask("GET", &path(&name), None)?;
            match at.output {
                Format::Json => print_json(&answer),
                Format::Table => print_rows(&json!([answer]), &QUEUE_COLUMNS),
            }
        }
        QueueVerb::Delete { name } => change(at, ("DELETE", &path(&name)), None, &format!("queue '{name}' deleted")),
        QueueVerb::Purge { name } => {
            let path = format!("/api/v1/queues/{}/purge{tenant}", encode(&name));
            change(at, ("POST", &path), None, &format!("queue '{name}' purged"))
        }
        QueueVerb::Redrive(asked) => {
            redrive(at, &format!("/api/v1/queues/{}/redrive{tenant}", encode(&asked.name)), &asked)
        }
    }
}

/// Messages that the server moves before it answers.
const MOVED_AT_ONCE: u64 = 10_000;

/// `fourfold queue redrive`: asks again until there is no more to move.
fn redrive(at: &AdminArgs, path: &str, asked: &Redriven) -> Result<(), CliError> {
    let client = connect(at)?;
    let mut left = asked.limit.unwrap_or(u64::MAX);
    let mut moved = 0;
    let said = loop {
        let body = json!({ "to": asked.to, "limit": left.min(MOVED_AT_ONCE) });
        let said = client.ask("POST", path, Some(&body)).inspect_err(|_| {
            if moved > 0 {
                eprintln!("messages of '{}' moved so far: {moved}", asked.name);
            }
        })?;
        let now = said["moved"].as_u64().unwrap_or_default();
        (moved, left) = (moved + now, left.saturating_sub(now));
        if left == 0 || said["more"] != true {
            break said;
        }
    };
    let (kept, why) = (said["kept"].as_u64().unwrap_or_default(), said["why"].as_str().unwrap_or_default());
    match at.output {
        Format::Json => print_json(&json!({ "moved": moved, "kept": kept, "why": said["why"] })),
        Format::Table if kept == 0 => print(&format!("messages moved from '{}': {moved}\n", asked.name)),
        Format::Table => print(&format!("messages moved from '{}': {moved}; {kept} stay: {why}\n", asked.name)),
    }
}

/// `fourfold user`.
pub fn user(at: &AdminArgs, verb: UserVerb) -> Result<(), CliError> {
    let path = |name: &str| format!("/api/v1/users/{}", encode(name));
    match verb {
        UserVerb::Add { name, tags, password_stdin } => {
            let password = read_password(&name, password_stdin)?;
            let body = json!({ "password": password, "tags": tags });
            change(at, ("PUT", &path(&name)), Some(&body), &format!("user '{name}' added"))
        }
        UserVerb::List => show(at, "/api/v1/users", "users", &[("NAME", "name"), ("TAGS", "tags")]),
        UserVerb::Delete { name } => change(at, ("DELETE", &path(&name)), None, &format!("user '{name}' deleted")),
    }
}

/// One line from standard input. Never a flag: others on the machine can read those.
fn read_password(user: &str, quietly: bool) -> Result<String, CliError> {
    const BYTES_MAX: u64 = 4096;
    let mut text = String::new();
    if !quietly && io::stdin().is_terminal() {
        eprint!("Password of '{user}' (it will be seen as you type): ");
        let _ = io::stderr().flush(); // a prompt that does not show is no reason to give up
        io::stdin().read_line(&mut text).map_err(|why| CliError::Local(why.to_string()))?;
    } else {
        io::stdin().lock().take(BYTES_MAX).read_to_string(&mut text).map_err(|why| CliError::Local(why.to_string()))?;
    }
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        return Err(CliError::Usage("a password must not be empty".to_owned()));
    }
    Ok(password.to_owned())
}

/// `fourfold status`.
pub fn status(args: &CheckArgs) -> Result<(), CliError> {
    let answer = connect(&args.at)?.ask("GET", "/api/v1/overview", None)?;
    if args.at.output == Format::Json {
        return print_json(&answer);
    }
    let storage = answer.get("storage").and_then(Value::as_object).into_iter().flatten();
    let counts = ["version", "topics", "queues", "groups", "users"];
    let counts = counts.into_iter().filter_map(|name| Some((name, answer.get(name)?)));
    let rows = counts.chain(storage.map(|(name, value)| (name.as_str(), value)));
    let rows: Vec<Value> = rows.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    print_rows(&json!(rows), &[("WHAT", "name"), ("VALUE", "value")])
}

/// `fourfold check`.
pub fn check(args: &CheckArgs) -> Result<(), CliError> {
    let answer = connect(&args.at)?.ask("GET", "/api/v1/health", None)?;
    match args.at.output {
        Format::Json => print_json(&answer),
        Format::Table => print("ok\n"),
    }
}
