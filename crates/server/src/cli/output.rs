//! Tables for people, JSON for programs.

use std::io::{self, Write as _};

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde_json::Value;

use super::CliError;

/// How answers are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Prints `text`. A reader that has gone (`| head`) is no error.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Local(error.to_string())),
        _ => Ok(()),
    }
}

/// Prints an answer as it came.
pub fn print_json(answer: &Value) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(answer).map_err(|why| CliError::Local(why.to_string()))?;
    print(&format!("{text}\n"))
}

/// Prints rows of objects: a column for each `(title, field)`.
pub fn print_rows(rows: &Value, columns: &[(&str, &str)]) -> Result<(), CliError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|(title, _)| *title));
    for row in rows.as_array().into_iter().flatten() {
        table.add_row(columns.iter().map(|(_, field)| cell(&row[*field])));
    }
    print(&format!("{}\n", table.trim_fmt()))
}

/// Names come from users: nothing in them may steer the terminal.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
