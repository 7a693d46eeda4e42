//! `fourfold debug dump`: messages and what is in files, one line each. Whatever came from clients is escaped: nothing
//! in it may steer the terminal.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use model::{FormatTag, Formats, Header, HeaderValue, LogId, Message, Offset};
use storage::inspect::{Item, items};
use storage::{Chunk, Disk, Owner};

use super::super::CliError;
use super::super::output::print;
use super::{inspect, time, unknown};

/// Of a key, value or record so much is shown.
const SHOWN_BYTES: usize = 200;
/// … and of a header's list or table.
const VALUE_CHARS_MAX: usize = 2_000;

/// Prints what `what` names.
pub(super) fn dump(disk: &Arc<dyn Disk>, what: &str, from: u64, count: u64) -> Result<(), CliError> {
    if ["journal/", "packs/", "segments/"].iter().any(|folder| what.starts_with(folder)) && !what.contains("..") {
        disk.lock().map_err(|why| CliError::Local(format!("a server that uses the folder must be stopped: {why}")))?;
        return file(&**disk, what, count);
    }
    let (mut inspection, names) = inspect(disk)?;
    let wanted = [what.to_owned(), format!("queue '{what}'"), format!("log {what}")];
    let known = names.iter().find(|(_, name)| wanted.contains(name)).map(|(log, _)| *log);
    let numbered = what.strip_prefix("log ").and_then(|number| number.parse().ok()).map(LogId);
    let log = known.or(numbered).ok_or_else(|| {
        CliError::Local(format!("{}; a file is named by its folder and number", unknown(&names, what)))
    })?;
    let range = inspection.recovered.logs.iter().find(|(known, _)| *known == log).map(|(_, range)| *range);
    let start = range.map_or(Offset::ZERO, |range| range.start).max(Offset(from));
    let end = range.map_or(Offset::ZERO, |range| range.end);
    if start >= end {
        return print(&format!("{} holds nothing from offset {from} on\n", what));
    }
    let formats = formats();
    let mut left = count;
    let mut failed = None;
    let outcome = inspection.read(log, start, &mut |chunk| {
        if let Err(why) = show(chunk, start, &formats, &mut left) {
            failed = Some(why);
            return false;
        }
        left > 0
    });
    failed.map_or(Ok(()), Err)?;
    outcome.map_err(|why| CliError::Local(why.to_string()))?;
    for damage in inspection.damage() {
        print(&format!("damaged and not shown: {} at {}\n", damage.file, damage.at))?;
    }
    Ok(())
}

fn formats() -> Formats {
    let mut formats = Formats::default();
    let counters = Arc::new(console::counters::Counters::new(std::iter::empty()));
    let tongues = crate::tongues::all(&crate::config::Settings::default(), &counters);
    tongues.iter().filter_map(|tongue| tongue.format()).for_each(|format| formats.add(format));
    formats
}

fn show(chunk: &Chunk, from: Offset, formats: &Formats, left: &mut u64) -> Result<(), CliError> {
    let mut text = String::new();
    let opened = formats.get(chunk.format).map(|format| {
        format.open(&chunk.units, chunk.first, &mut |offset, message| {
            if offset >= from && *left > 0 {
                line(&mut text, offset, &message);
                *left -= 1;
            }
            if *left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    match opened {
        Ok(Ok(())) => {}
        Ok(Err(why)) => {
            let _ = writeln!(text, "{}..={} cannot be opened: {why}", chunk.first, chunk.last);
        }
        Err(_) => {
            let tag = chunk.format.0;
            let _ = writeln!(text, "{}..={} format {tag}: {}", chunk.first, chunk.last, escaped(&chunk.units));
        }
    }
    print(&text)
}

fn line(out: &mut String, offset: Offset, message: &Message) {
    let when = message.created.map_or_else(|| "-".to_owned(), |wall| time(wall).as_str().unwrap_or("-").to_owned());
    let part = |bytes: &Option<Bytes>| bytes.as_ref().map_or_else(|| "-".to_owned(), |bytes| escaped(bytes));
    // Writing to a String cannot fail.
    let _ = write!(out, "{offset} {when} key {} value {}", part(&message.key), part(&message.value));
    for header in &message.headers {
        let _ = write!(out, " {}={}", escaped(header.name.as_bytes()), value_of(&header.value));
    }
    out.push('\n');
}

/// A header's value for people: texts and bytes in quotes, tables and lists in brackets, all of it not too long.
fn value_of(value: &HeaderValue) -> String {
    let shown = match value {
        HeaderValue::Null => "null".to_owned(),
        HeaderValue::Bool(value) => value.to_string(),
        HeaderValue::Int(value) => value.to_string(),
        HeaderValue::Float(value) => value.to_string(),
        HeaderValue::Text(text) => return escaped(text.as_bytes()),
        HeaderValue::Bytes(bytes) => return escaped(bytes),
        HeaderValue::Time(at) => time(*at).as_str().map_or_else(|| at.0.to_string(), str::to_owned),
        HeaderValue::List(values) => {
            format!("[{}]", values.iter().map(value_of).collect::<Vec<_>>().join(", "))
        }
        HeaderValue::Table(headers) => {
            let field = |one: &Header| format!("{}={}", escaped(one.name.as_bytes()), value_of(&one.value));
            format!("{{{}}}", headers.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    };
    match shown.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", shown.get(..at).unwrap_or_default()),
        None => shown,
    }
}

fn file(disk: &dyn Disk, name: &str, count: u64) -> Result<(), CliError> {
    let mut left = count;
    let mut failed = None;
    let outcome = items(disk, name, &mut |item| {
        if left == 0 {
            return false;
        }
        left -= 1;
        failed = print(&said(&item)).err();
        failed.is_none()
    });
    failed.map_or(Ok(()), Err)?;
    outcome.map_err(|why| CliError::Local(why.to_string()))
}

fn said(item: &Item) -> String {
    match item {
        Item::Entry { at, number, synced, bytes, whole } => {
            let note = if *whole { "" } else { ", DAMAGED: its directory fails its check" };
            format!("{at:>10} entry {number}, {bytes} bytes, synced up to {synced}{note}\n")
        }
        Item::Extent { at, targets, last_delta, messages, bytes, time_max, format, units } => {
            let place =
                |(log, first): &(LogId, Offset)| format!("log {log} {first}..={}", first.0 + u64::from(*last_delta));
            let places: Vec<String> = targets.iter().map(place).collect();
            let note = if units.is_some() { "" } else { ", DAMAGED: the units fail their check" };
            let FormatTag(tag) = format;
            let (places, latest) = (places.join(", "), time(*time_max));
            format!(
                "{at:>10}   extent {places}: {messages} messages of format {tag}, {bytes} bytes, to {latest}{note}\n"
            )
        }
        Item::Log(log, what) => format!("{:>10}   log {log} {what}\n", ""),
        Item::State(Owner { kind, id }, what, content) => {
            format!("{:>10}   state {kind}/{id} {what}: {}\n", "", escaped(content))
        }
        Item::Damaged { at } => format!("{at:>10} DAMAGED: no entry or extent can be read here\n"),
    }
}

/// Printable ASCII as it is, everything else as in a Rust byte string; not too long.
fn escaped(bytes: &[u8]) -> String {
    let shown = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let text = shown.escape_ascii().to_string();
    if shown.len() < bytes.len() { format!("\"{text}\"… ({} bytes)", bytes.len()) } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_sent_can_steer_the_terminal() {
        assert_eq!(escaped(b"a\x1b[2J\"\xff"), r#""a\x1b[2J\"\xff""#);
        assert!(escaped(&[b'a'; 1000]).ends_with("… (1000 bytes)"));
    }

    #[test]
    fn headers_are_read_by_people() {
        let text = |text: &str| HeaderValue::Text(text.to_owned());
        let header = |name: &str, value| Header { name: name.to_owned(), value };
        let death = vec![
            header("count", HeaderValue::Int(2)),
            header("time", HeaderValue::Time(model::Wall(0))),
            header("keys", HeaderValue::List(vec![text("a\x1b"), HeaderValue::Null])),
        ];
        let shown = r#"[{"count"=2, "time"=1970-01-01T00:00:00.000Z, "keys"=["a\x1b", null]}]"#;
        assert_eq!(value_of(&HeaderValue::List(vec![HeaderValue::Table(death)])), shown);
        assert_eq!(value_of(&HeaderValue::Bool(true)), "true");
        let long = HeaderValue::List(vec![HeaderValue::Int(1); 10_000]);
        assert!(value_of(&long).ends_with('…') && value_of(&long).len() < 3_000);
    }
}
