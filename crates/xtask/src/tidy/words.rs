//! The core speaks one vocabulary: the names of the tongues do not occur in it, comments excepted.

use super::{Findings, Source};

const NEUTRAL_CRATES: &[&str] = &["model", "storage", "cluster", "broker"];
const TONGUES: &[&str] = &["kafka", "amqp", "rabbit", "rocketmq", "metaq"];

/// Looks for the names of tongues in code and texts of the neutral crates.
pub(super) fn check(source: &Source, findings: &mut Findings) {
    if !NEUTRAL_CRATES.contains(&source.of.as_str()) {
        return;
    }
    for (at, line) in source.scanned.said.iter().enumerate() {
        let line = line.to_ascii_lowercase();
        if let Some(word) = TONGUES.iter().find(|word| line.contains(**word)) {
            let Source { path, of, .. } = source;
            findings.errors.push(format!("{path}:{}: the word '{word}' in {of}, which knows no tongue", at + 1));
        }
    }
}
