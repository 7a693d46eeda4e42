//! What came of an import, object by object.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What came of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was made.
    Created,
    /// One of its name was there and is now as asked.
    Changed,
    /// It was there, as asked.
    There,
    /// One of its name is there and differs: it stays as it is.
    Differs(String),
    /// It came, but not all of it.
    Adapted(String),
    /// There is nothing here that it could mean.
    Ignored(String),
    /// It could not be taken.
    Refused(String),
}

impl Outcome {
    /// As one word.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Created => "created",
            Outcome::Changed => "changed",
            Outcome::There => "there",
            Outcome::Differs(_) => "differs",
            Outcome::Adapted(_) => "adapted",
            Outcome::Ignored(_) => "ignored",
            Outcome::Refused(_) => "refused",
        }
    }

    fn why(&self) -> Option<&str> {
        match self {
            Outcome::Created | Outcome::Changed | Outcome::There => None,
            Outcome::Differs(why) | Outcome::Adapted(why) | Outcome::Ignored(why) | Outcome::Refused(why) => Some(why),
        }
    }
}

/// One thing worth saying.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Note {
    section: &'static str,
    tenant: Option<String>,
    name: String,
    outcome: Outcome,
}

/// What came of all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// By section and outcome.
    counts: BTreeMap<(&'static str, &'static str), u64>,
    /// Those that did not simply come.
    notes: Vec<Note>,
    /// Nothing was changed.
    dry_run: bool,
}

impl Report {
    /// Nothing has come yet; with `dry_run` nothing will be changed.
    pub(super) fn begin(dry_run: bool) -> Report {
        Report { dry_run, ..Report::default() }
    }

    /// Counts one object, and notes it if there is more to say.
    pub fn add(&mut self, section: &'static str, tenant: Option<&str>, name: &str, outcome: Outcome) {
        *self.counts.entry((section, outcome.word())).or_default() += 1;
        if outcome.why().is_some() {
            self.notes.push(Note { section, tenant: tenant.map(str::to_owned), name: name.to_owned(), outcome });
        }
    }

    /// The reasons of what was refused.
    pub fn refused(&self) -> Vec<String> {
        let refused = |note: &Note| match &note.outcome {
            Outcome::Refused(why) => Some(match &note.tenant {
                Some(tenant) => format!("{why} ({} {tenant}/{})", note.section, note.name),
                None => format!("{why} ({} {})", note.section, note.name),
            }),
            _ => None,
        };
        self.notes.iter().filter_map(refused).collect()
    }

    /// As JSON.
    pub fn show(&self) -> Value {
        let mut counts = serde_json::Map::new();
        for ((section, word), count) in &self.counts {
            let of_section = counts.entry(*section).or_insert_with(|| json!({}));
            if let Some(of_section) = of_section.as_object_mut() {
                of_section.insert((*word).to_owned(), (*count).into());
            }
        }
        let notes = self.notes.iter().map(|note| {
            json!({
                "section": note.section,
                "vhost": note.tenant,
                "name": note.name,
                "outcome": note.outcome.word(),
                "why": note.outcome.why(),
            })
        });
        json!({ "dry_run": self.dry_run, "counts": counts, "notes": notes.collect::<Vec<_>>() })
    }
}
