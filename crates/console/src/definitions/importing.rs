//! Definitions on their way in: section by section, in the order in which one needs the other, some objects each turn,
//! so that messages go on between. That all of it is JSON is known before anything is taken.
//!
//! Who closes the connection ends it; what was taken until then stays, and taking the same in again goes on from there.

use std::collections::BTreeMap;

use broker::{Broker, CallId, Lsn, SessionId};
use model::Now;
use serde_json::Value;
use serde_json::value::RawValue;

use super::import::{Import, SECTIONS, Section, SoFar, TITLES};
use super::report::{Outcome, Report};
use crate::http::Response;
use crate::refusal::Refusal;
use crate::work::{Step, Work};

/// Objects taken in one turn: about a millisecond's work.
const OBJECTS_A_TURN: usize = 32;

/// A file: its sections as they stand in it. What is in them is read when its turn comes.
pub type File = BTreeMap<String, Box<RawValue>>;

/// On whose behalf, and into what.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The session that asks.
    pub session: SessionId,
    /// The user who asks: may use the tenants that it makes.
    pub user: String,
    /// Everything goes into this tenant; else each object says where it belongs.
    pub tenant: Option<String>,
    /// Nothing is changed.
    pub dry_run: bool,
}

/// An import under way.
pub struct Importing {
    so_far: SoFar,
    tenant: Option<String>,
    file: File,
    /// The next section, and what is left of the one before.
    next: usize,
    objects: std::vec::IntoIter<Box<RawValue>>,
    /// Bytes of the file.
    bytes: usize,
    /// How the end is told.
    tell: fn(&Report) -> Result<Response, Refusal>,
}

impl std::fmt::Debug for Importing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Importing").field("next", &self.next).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Importing {
    /// Nothing is taken yet.
    ///
    /// # Errors
    /// When no tongue knows how to declare.
    pub fn begin(
        broker: &Broker,
        scope: Scope,
        file: File,
        tell: fn(&Report) -> Result<Response, Refusal>,
    ) -> Result<Importing, Refusal> {
        let words = broker.dialect().ok_or_else(|| Refusal::bad_request("no tongue here knows how to declare"))?;
        let Scope { session, user, tenant, dry_run } = scope;
        let (would_be, report) = (BTreeMap::new(), Report::begin(dry_run));
        let so_far = SoFar { words, session, user, dry_run, lsn: Lsn::default(), would_be, report };
        let bytes = file.values().map(|section| section.get().len()).sum();
        Ok(Importing { so_far, tenant, file, next: 0, objects: Vec::new().into_iter(), bytes, tell })
    }

    /// Opens the next section; false when there is none.
    fn open(&mut self) -> bool {
        let Some(section) = SECTIONS.get(self.next) else { return false };
        self.next += 1;
        let Some(found) = self.file.remove(section.name) else { return true };
        if self.tenant.is_some() && !section.in_tenant {
            let why = "it belongs to no virtual host: import it without naming one".to_owned();
            self.so_far.report.add(section.name, None, "*", Outcome::Ignored(why));
            return true;
        }
        match serde_json::from_str::<Vec<Box<RawValue>>>(found.get()) {
            Ok(objects) => self.objects = objects.into_iter(),
            Err(_) => self.so_far.report.add(section.name, None, "*", Outcome::Refused("it is no list".to_owned())),
        }
        true
    }

    /// All is taken.
    fn finish(&mut self) -> Result<Step, Refusal> {
        for name in self.file.keys().filter(|name| !TITLES.contains(&name.as_str())) {
            let why = "no section of that name is known".to_owned();
            self.so_far.report.add("file", None, name, Outcome::Ignored(why));
        }
        let response = (self.tell)(&self.so_far.report)?;
        Ok(Step::Done(response, self.so_far.lsn))
    }

    /// The section whose objects are taken.
    fn section(&self) -> Option<&'static Section> {
        SECTIONS.get(self.next.checked_sub(1)?)
    }
}

impl Work for Importing {
    fn step(&mut self, broker: &mut Broker, _who: (SessionId, CallId), now: Now) -> Result<Step, Refusal> {
        for _ in 0..OBJECTS_A_TURN {
            let Some((object, section)) = self.objects.next().zip(self.section()) else {
                if self.open() {
                    continue;
                }
                return self.finish();
            };
            let object = serde_json::from_str::<Value>(object.get()).unwrap_or_default();
            let mut import = Import { broker, now, so_far: &mut self.so_far };
            import.one(section, self.tenant.as_deref(), &object);
        }
        Ok(Step::NextTurn)
    }

    fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
