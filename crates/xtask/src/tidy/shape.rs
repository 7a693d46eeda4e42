//! The shape of files: a head, bounded files, functions and lines; where `unsafe`, `unwrap` and `expect` may stand.

use super::{Findings, Source};

const FILE_LINES_MAX: usize = 1000;
const FILE_LINES_WARN: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 120;
/// A reason has at least so many characters.
const REASON_CHARS_MIN: usize = 12;

/// Crates that read what strangers send: nothing in them may trust, outside tests.
const WIRE_CRATES: &[&str] = &["model", "kafka", "amqp", "console"];

/// Runs every rule on one file.
pub(super) fn check(source: &Source, findings: &mut Findings) {
    size(source, findings);
    functions(source, findings);
    trust(source, findings);
    unsafety(source, findings);
    promises(source, findings);
}

fn size(source: &Source, findings: &mut Findings) {
    let Source { path, scanned, .. } = source;
    if !scanned.lines.first().is_some_and(|line| line.starts_with("//!")) {
        findings.errors.push(format!("{path}:1: no //! head: what the file is, what it is not, who calls it"));
    }
    match scanned.lines.len() {
        count if count > FILE_LINES_MAX => {
            findings.errors.push(format!("{path}: {count} lines, at most {FILE_LINES_MAX} are allowed"));
        }
        count if count > FILE_LINES_WARN => findings.warnings.push(format!("{path}: {count} lines; split it")),
        _ => {}
    }
    for (at, line) in scanned.lines.iter().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            findings.errors.push(format!("{path}:{}: {columns} columns, at most {COLUMNS_MAX}", at + 1));
        }
    }
}

fn functions(source: &Source, findings: &mut Findings) {
    let Source { path, scanned, .. } = source;
    for (at, line) in scanned.code.iter().enumerate() {
        let Some((column, name)) = function_name(line) else {
            continue;
        };
        let Some(end) = scanned.block_end(at, column) else {
            continue;
        };
        let count = end - at + 1;
        if count > FUNCTION_LINES_MAX {
            let text = format!("{path}:{}: fn {name} has {count} lines, at most {FUNCTION_LINES_MAX}", at + 1);
            findings.errors.push(text);
        }
    }
}

/// The name of the function declared on this line, and the column (in characters) behind it.
fn function_name(line: &str) -> Option<(usize, &str)> {
    let at = line.find("fn ")?;
    let standing_alone = at == 0 || line[..at].ends_with([' ', '(']);
    let rest = &line[at + 3..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let is_item = rest[end..].starts_with(['(', '<']) && end > 0;
    (standing_alone && is_item).then(|| (line[..at + 3 + end].chars().count(), &rest[..end]))
}

fn trust(source: &Source, findings: &mut Findings) {
    let Source { path, scanned, of } = source;
    for (at, line) in scanned.code.iter().enumerate().filter(|(at, _)| !scanned.test[*at]) {
        let place = format!("{path}:{}", at + 1);
        if line.contains(".unwrap()") {
            findings.errors.push(format!("{place}: unwrap() outside tests: handle it or give the reason by expect()"));
        }
        let Some(column) = line.find(".expect(") else {
            continue;
        };
        // Texts are blanked in `code`, character by character, so the column holds in `said` too.
        let prefix = line[..column].chars().count() + ".expect(".len();
        let rest: String = scanned.said[at].chars().skip(prefix).collect();
        let next = scanned.said.get(at + 1).map_or("", String::as_str);
        let reason = if rest.trim().is_empty() { next.trim() } else { rest.as_str() };
        if WIRE_CRATES.contains(&of.as_str()) {
            findings.errors.push(format!("{place}: expect() in a crate that reads foreign bytes"));
        } else if reason.starts_with('"') && reason.trim_matches(['"', ')', ';', '?', ',']).len() < REASON_CHARS_MIN {
            findings.errors.push(format!("{place}: expect() without a reason"));
        }
    }
}

fn unsafety(source: &Source, findings: &mut Findings) {
    let Source { path, scanned, .. } = source;
    let allowed = path.starts_with("crates/storage/src/disk") || path.starts_with("crates/model/src/bytes_");
    if allowed {
        return;
    }
    for (at, line) in scanned.code.iter().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.any(|word| word == "unsafe") {
            findings.errors.push(format!("{path}:{}: unsafe outside storage's disk and model's byte readers", at + 1));
        }
    }
}

fn promises(source: &Source, findings: &mut Findings) {
    // Split, so that this file does not complain of itself.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!(")];
    let Source { path, scanned, .. } = source;
    if path.starts_with("crates/xtask/src/tidy/") {
        return;
    }
    for (at, line) in scanned.lines.iter().enumerate() {
        let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) else {
            continue;
        };
        let numbered = line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if !numbered {
            findings.errors.push(format!("{path}:{}: a {mark} without the number of an issue", at + 1));
        }
    }
}
