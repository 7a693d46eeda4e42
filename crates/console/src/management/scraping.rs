//! A page for Prometheus in the making: some objects each turn, or one figure of all of them, so that messages go on
//! between.
//!
//! How many objects are shown is bounded: a scrape must not grow without end. For sums all are looked at.

use std::collections::VecDeque;

use broker::{Broker, CallId, Lsn, SessionId};
use model::Now;

use super::prometheus::{Key, Kind, Page};
use crate::http::Response;
use crate::metrics::Objects;
use crate::refusal::Refusal;
use crate::work::{Step, Work};

/// Queues, connections and channels shown one by one, of each kind.
const OBJECTS_MAX: usize = 10_000;

/// Objects read in one turn: about a millisecond's work.
const OBJECTS_A_TURN: usize = 256;

/// What goes before the page, under our own names.
pub enum Ours {
    /// Nothing.
    Nothing,
    /// This.
    Text(String),
    /// Each object.
    Objects(Objects),
}

/// A page under way.
pub struct Scrape {
    page: Page,
    ours: Ours,
    each: bool,
    vhosts: Vec<String>,
    /// Kinds to come.
    kinds: VecDeque<Kind>,
    rows: Rows,
}

/// The figures of one kind.
#[derive(Default)]
struct Rows {
    figures: Vec<(&'static str, &'static str)>,
    /// Objects to be read.
    keys: std::vec::IntoIter<Key>,
    /// Of each object that was read its labels and its figures, one after the other; of sums one row without labels.
    labels: Vec<String>,
    values: Vec<u64>,
    /// The figure that is written next.
    next: usize,
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrape").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl Scrape {
    pub(super) fn begin((page, ours): (Page, Ours), each: bool, kinds: Vec<Kind>, vhosts: Vec<String>) -> Scrape {
        Scrape { page, ours, each, vhosts, kinds: kinds.into(), rows: Rows::default() }
    }

    fn finish(&mut self) -> Step {
        let mut text = match std::mem::replace(&mut self.ours, Ours::Nothing) {
            Ours::Nothing => String::new(),
            Ours::Text(text) => text,
            Ours::Objects(objects) => objects.text(),
        };
        text.push_str(&self.page.text);
        let content_type = "text/plain; version=0.0.4; charset=utf-8";
        Step::Done(Response::text(200, content_type, text.into_bytes()), Lsn::default())
    }
}

impl Rows {
    fn begin(kind: Kind, mut keys: Vec<Key>, each: bool) -> Rows {
        let figures = kind.figures();
        keys.truncate(if each { OBJECTS_MAX } else { usize::MAX });
        let (labels, values) =
            if each { (Vec::new(), Vec::new()) } else { (vec![String::new()], vec![0; figures.len()]) };
        Rows { figures, keys: keys.into_iter(), labels, values, next: 0 }
    }

    /// Reads the next objects; false when there were none.
    fn read(&mut self, broker: &Broker, each: bool) -> bool {
        let mut some = false;
        for key in self.keys.by_ref().take(OBJECTS_A_TURN) {
            some = true;
            let end = self.values.len();
            let Some(labels) = key.read(broker, &mut self.values) else { continue };
            if each {
                self.labels.push(labels);
                continue;
            }
            let (sums, read) = self.values.split_at_mut(end);
            sums.iter_mut().zip(read).for_each(|(sum, value)| *sum += *value);
            self.values.truncate(end);
        }
        some
    }

    /// Writes the next figure of all; false when there was none.
    fn write(&mut self, page: &mut Page) -> bool {
        let Some((name, kind)) = self.figures.get(self.next) else { return false };
        page.metric(name, kind);
        for (labels, values) in self.labels.iter().zip(self.values.chunks(self.figures.len())) {
            page.sample(name, labels, values.get(self.next).copied().unwrap_or_default());
        }
        self.next += 1;
        true
    }
}

impl Work for Scrape {
    fn step(&mut self, broker: &mut Broker, _who: (SessionId, CallId), _now: Now) -> Result<Step, Refusal> {
        if let Ours::Objects(objects) = &mut self.ours
            && objects.go_on(broker)
        {
            return Ok(Step::NextTurn);
        }
        // Of sums a line each: all at once.
        while self.rows.read(broker, self.each) || self.rows.write(&mut self.page) {
            let is_little = self.rows.keys.as_slice().is_empty()
                && self.rows.labels.len() * self.rows.figures.len() <= OBJECTS_A_TURN;
            if !is_little {
                return Ok(Step::NextTurn);
            }
        }
        let Some(kind) = self.kinds.pop_front() else { return Ok(self.finish()) };
        self.rows = Rows::begin(kind, kind.keys(broker, &self.vhosts), self.each);
        Ok(Step::NextTurn)
    }

    fn memory_bytes(&self) -> usize {
        let labels = self.rows.labels.iter().map(String::capacity).sum::<usize>();
        self.page.text.capacity() + labels + self.rows.values.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page::new("rabbitmq_")
    }

    fn rows(labels: &[&str], values: &[u64]) -> Rows {
        let labels = labels.iter().map(|one| (*one).to_owned()).collect();
        let figures = vec![("x_total", "counter"), ("y", "gauge")];
        Rows { figures, keys: Vec::new().into_iter(), labels, values: values.to_vec(), next: 0 }
    }

    #[test]
    fn sums_have_no_labels_and_objects_have_theirs() {
        let mut one = page();
        let mut sums = rows(&[""], &[4, 7]);
        while sums.write(&mut one) {}
        assert_eq!(
            one.text,
            "# TYPE rabbitmq_x_total counter\nrabbitmq_x_total 4\n# TYPE rabbitmq_y gauge\nrabbitmq_y 7\n"
        );
        let mut other = page();
        let mut objects = rows(&["q=\"a\"", "q=\"b\""], &[1, 2, 3, 4]);
        while objects.write(&mut other) {}
        let expected = "# TYPE rabbitmq_x_total counter\nrabbitmq_x_total{q=\"a\"} 1\nrabbitmq_x_total{q=\"b\"} 3\n\
                        # TYPE rabbitmq_y gauge\nrabbitmq_y{q=\"a\"} 2\nrabbitmq_y{q=\"b\"} 4\n";
        assert_eq!(other.text, expected);
    }
}
