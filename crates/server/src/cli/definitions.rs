//! `fourfold import` and `fourfold export`: definitions in RabbitMQ's form.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::CliError;
use super::admin::{AdminArgs, connect};
use super::client::encode;
use super::output::{Format, print, print_json, print_rows};

/// What is imported.
#[derive(Clone, Debug, Subcommand)]
pub enum ImportWhat {
    /// Users, virtual hosts, permissions, policies, exchanges, queues and bindings, as RabbitMQ exports them
    Definitions {
        /// The file, as `rabbitmqctl export_definitions` or RabbitMQ's management page write it; - is standard input
        file: PathBuf,
        /// Change nothing: say what would come of it
        #[arg(long)]
        dry_run: bool,
        /// Take everything into this virtual host
        #[arg(long, value_name = "NAME")]
        vhost: Option<String>,
    },
}

/// What is exported.
#[derive(Clone, Debug, Subcommand)]
pub enum ExportWhat {
    /// All that exists but Kafka topics, in the form that RabbitMQ and `fourfold import` take
    Definitions {
        /// The file to write; without one it goes to standard output
        file: Option<PathBuf>,
        /// Only what this virtual host has
        #[arg(long, value_name = "NAME")]
        vhost: Option<String>,
    },
}

/// Outcomes in the order of their columns.
const OUTCOMES: [&str; 7] = ["created", "changed", "there", "differs", "adapted", "ignored", "refused"];

/// `fourfold import`.
pub fn import(at: &AdminArgs, what: ImportWhat) -> Result<(), CliError> {
    let ImportWhat::Definitions { file, dry_run, vhost } = what;
    let definitions: Value = serde_json::from_str(&read(&file)?)
        .map_err(|why| CliError::Usage(format!("{} is no JSON file of definitions: {why}", file.display())))?;
    let tenant = vhost.map(|vhost| format!("&tenant={}", encode(&vhost))).unwrap_or_default();
    let path = format!("/api/v1/definitions?dry-run={dry_run}{tenant}");
    let report = connect(at)?.ask("POST", &path, Some(&definitions))?;
    match at.output {
        Format::Json => print_json(&report)?,
        Format::Table => show(&report, dry_run)?,
    }
    let refused = report["counts"].as_object().into_iter().flatten();
    let refused = refused.filter_map(|(_, counts)| counts["refused"].as_u64()).sum::<u64>();
    match refused {
        0 => Ok(()),
        count => Err(CliError::Refused(format!("{count} objects could not be taken; all others were, or were there"))),
    }
}

fn read(file: &Path) -> Result<String, CliError> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(|why| CliError::Local(why.to_string()))?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(|why| CliError::Usage(format!("cannot read {}: {why}", file.display())))
}

fn show(report: &Value, dry_run: bool) -> Result<(), CliError> {
    let rows = report["counts"].as_object().into_iter().flatten().map(|(section, counts)| {
        let mut row = json!({ "section": section });
        for outcome in OUTCOMES {
            row[outcome] = counts[outcome].as_u64().unwrap_or(0).into();
        }
        row
    });
    let titles = OUTCOMES.map(str::to_uppercase);
    let columns = titles.iter().map(String::as_str).zip(OUTCOMES);
    let columns = [("SECTION", "section")].into_iter().chain(columns).collect::<Vec<_>>();
    print_rows(&Value::from_iter(rows), &columns)?;
    if report["notes"].as_array().is_some_and(|notes| !notes.is_empty()) {
        print("\n")?;
        let columns =
            [("SECTION", "section"), ("VHOST", "vhost"), ("NAME", "name"), ("OUTCOME", "outcome"), ("WHY", "why")];
        print_rows(&report["notes"], &columns)?;
    }
    if dry_run { print("\nnothing was changed: this was a trial\n") } else { Ok(()) }
}

/// `fourfold export`.
pub fn export(at: &AdminArgs, what: ExportWhat) -> Result<(), CliError> {
    let ExportWhat::Definitions { file, vhost } = what;
    let tenant = vhost.map(|vhost| format!("?tenant={}", encode(&vhost))).unwrap_or_default();
    let definitions = connect(at)?.ask("GET", &format!("/api/v1/definitions{tenant}"), None)?;
    let Some(file) = file else { return print_json(&definitions) };
    let text = serde_json::to_string_pretty(&definitions).map_err(|why| CliError::Local(why.to_string()))?;
    std::fs::write(&file, text + "\n").map_err(|why| CliError::Local(format!("{}: {why}", file.display())))?;
    print(&format!("definitions written to {}; they hold hashes of passwords\n", file.display()))
}
