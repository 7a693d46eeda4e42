//! Long lists, made a part at a time: the thread that makes them is the one that carries messages, so a list of
//! thousands is put together over many turns, a few items in each, while everything else goes on between.
//!
//! What is listed is known by keys from the beginning; an item that has gone when its turn comes is left out.

use std::sync::{Arc, Mutex};

use broker::connection::ConsumerInfo;
use broker::routing::{BindingSpec, ExchangeSpec};
use broker::{Broker, CallId, Lsn, SessionId};
use model::{Name, Now};
use serde_json::{Value, json};

use super::call::{Call, now};
use super::query::{Filter, Page, at, order, pick};
use super::rates::Sampler;
use super::stats::Scale;
use super::{bindings, channels, connections, consumers, exchanges, queue_json, vhosts};
use crate::api::{Answer, Handled};
use crate::http::Response;
use crate::refusal::Refusal;
use crate::work::{Step, Work};

/// Items made in one turn: a millisecond's work.
const ITEMS_A_TURN: usize = 64;

/// Names that are held against a filter in one turn. A pattern may take long for each: see [`Filter`].
const NAMES_A_TURN: usize = 8;

/// What is listed.
#[derive(Clone, Debug)]
pub enum Key {
    /// A queue, by tenant and name.
    Queue(Name, Name),
    /// An exchange.
    Exchange(Box<ExchangeSpec>),
    /// A binding.
    Binding(Box<BindingSpec>),
    /// The binding that every queue has: to the default exchange, by its own name.
    OwnBinding(Name, Name),
    /// A connection.
    Connection(SessionId),
    /// A channel.
    Channel(SessionId, u16),
    /// A consumer.
    Consumer(Box<ConsumerInfo>),
    /// A tenant: what is said of it takes a look at every connection.
    Tenant(String),
    /// Something that was made at once.
    Made(Value),
}

/// How items are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Show {
    /// Without figures.
    pub no_stats: bool,
    /// … but with the messages of queues.
    pub with_totals: bool,
}

/// A list in the making.
pub struct Listing {
    keys: Vec<Key>,
    next: usize,
    /// What names must hold, until all have been looked at, and those that do.
    filter: Filter,
    taken: Vec<Key>,
    sort: Option<(Vec<String>, bool)>,
    sorted: Vec<(Value, usize)>,
    page: Option<Page>,
    total: usize,
    filtered: usize,
    columns: Option<Vec<Vec<String>>>,
    show: Show,
    sampler: Arc<Mutex<Sampler>>,
    /// The items made so far, as text.
    text: Vec<u8>,
    items: usize,
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").field("keys", &self.keys.len()).field("next", &self.next).finish_non_exhaustive()
    }
}

/// Answers a list of `keys`, in their order unless the query asks for another.
pub fn answer(call: &Call<'_>, keys: Vec<Key>) -> Handled {
    let query = &call.query;
    let (page, filter) = (query.page()?, query.filter()?);
    let total = keys.len();
    let show = Show { no_stats: query.is_true("disable_stats"), with_totals: query.is_true("enable_queue_totals") };
    let mut listing = Listing {
        next: 0,
        filter,
        taken: Vec::new(),
        sort: query.sort(),
        sorted: Vec::new(),
        page,
        total,
        filtered: keys.len(),
        columns: query.columns(),
        show,
        sampler: Arc::clone(call.sampler),
        text: Vec::new(),
        items: 0,
        keys,
    };
    if listing.sort.is_none() && matches!(listing.filter, Filter::All) {
        listing.cut()?;
    }
    Ok(Answer::worked(call.call, listing))
}

/// Answers one item, or that there is none.
pub fn one(call: &Call<'_>, item: Option<Value>) -> Handled {
    let item = item.ok_or_else(super::call::missing)?;
    match call.query.columns() {
        Some(columns) => now(&pick(&item, &columns)),
        None => now(&item),
    }
}

fn name_of(broker: &Broker, key: &Key) -> Option<String> {
    Some(match key {
        Key::Queue(_, name) | Key::OwnBinding(_, name) => name.to_string(),
        Key::Exchange(spec) => spec.name.to_string(),
        Key::Binding(spec) => spec.to().to_string(),
        Key::Connection(session) => broker.connection(*session)?.info.name(),
        Key::Channel(session, number) => format!("{} ({number})", broker.connection(*session)?.info.name()),
        Key::Consumer(consumer) => consumer.label.tag.clone(),
        Key::Tenant(name) => name.clone(),
        Key::Made(value) => value.get("name")?.as_str()?.to_owned(),
    })
}

impl Work for Listing {
    /// Makes the next items. 400 when the page asked for is beyond the end, which is only known here.
    fn step(&mut self, broker: &mut Broker, _who: (SessionId, CallId), now: Now) -> Result<Step, Refusal> {
        let done = self.go_on(broker, now)?;
        Ok(done.map_or(Step::NextTurn, |response| Step::Done(response, Lsn::default())))
    }

    fn memory_bytes(&self) -> usize {
        let keys = (self.keys.capacity() + self.taken.capacity()) * size_of::<Key>();
        self.text.capacity() + keys + self.sorted.capacity() * size_of::<(Value, usize)>()
    }
}

impl Listing {
    fn go_on(&mut self, broker: &Broker, now: Now) -> Result<Option<Response>, Refusal> {
        if !matches!(self.filter, Filter::All) {
            self.select(broker)?;
            return Ok(None);
        }
        let until = (self.next + ITEMS_A_TURN).min(self.keys.len());
        if self.sort.is_some() {
            self.rank(broker, now, until)?;
            return Ok(None);
        }
        while self.next < until {
            let made = self.keys.get(self.next).and_then(|key| self.make(broker, key, now));
            self.next += 1;
            let Some(item) = made else { continue };
            let item = match &self.columns {
                Some(columns) => pick(&item, columns),
                None => item,
            };
            self.text.push(if self.items == 0 { b'[' } else { b',' });
            self.items += 1;
            // Writing a value into memory cannot fail.
            let _ = serde_json::to_writer(&mut self.text, &item);
        }
        Ok((self.next >= self.keys.len()).then(|| self.finish()))
    }

    /// Holds the next names against the filter; when all have been, goes on with those that it takes.
    fn select(&mut self, broker: &Broker) -> Result<(), Refusal> {
        let until = (self.next + NAMES_A_TURN).min(self.keys.len());
        for key in self.keys.get(self.next..until).unwrap_or_default() {
            if name_of(broker, key).is_some_and(|name| self.filter.takes(&name)) {
                self.taken.push(key.clone());
            }
        }
        self.next = until;
        if until < self.keys.len() {
            return Ok(());
        }
        (self.filter, self.next) = (Filter::All, 0);
        self.keys = std::mem::take(&mut self.taken);
        self.filtered = self.keys.len();
        if self.sort.is_none() { self.cut() } else { Ok(()) }
    }

    /// Finds what the next items are sorted by; when all are known, puts them into their order.
    fn rank(&mut self, broker: &Broker, now: Now, until: usize) -> Result<(), Refusal> {
        let Some((path, reverse)) = self.sort.take() else { return Ok(()) };
        while self.next < until {
            let item = self.keys.get(self.next).and_then(|key| self.make(broker, key, now));
            if let Some(item) = item {
                self.sorted.push((at(&item, &path).cloned().unwrap_or(Value::Null), self.next));
            }
            self.next += 1;
        }
        if self.next < self.keys.len() {
            self.sort = Some((path, reverse));
            return Ok(());
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.sort_by(|(one, _), (other, _)| if reverse { order(other, one) } else { order(one, other) });
        let keys = std::mem::take(&mut self.keys);
        self.keys = sorted.into_iter().filter_map(|(_, at)| keys.get(at).cloned()).collect();
        self.next = 0;
        self.cut()
    }

    /// Keeps what is on the page.
    fn cut(&mut self) -> Result<(), Refusal> {
        let Some(page) = self.page else { return Ok(()) };
        let (number, items, len) = (page.number, page.items, self.keys.len());
        let from = (number - 1).saturating_mul(items);
        if from >= len && number > 1 {
            let reason = format!("Page out of range, page: {number} page size: {items}, len: {len}");
            return Err(Refusal::new(400, "page_out_of_range", reason));
        }
        self.filtered = len;
        self.keys = std::mem::take(&mut self.keys).into_iter().skip(from).take(items).collect();
        Ok(())
    }

    fn make(&self, broker: &Broker, key: &Key, now: Now) -> Option<Value> {
        let scale = Scale { sampler: &self.sampler, now: now.mono };
        match key {
            Key::Queue(tenant, name) => queue_json::brief(broker, (tenant, name), scale, self.show),
            Key::Exchange(spec) => Some(exchanges::json(broker, spec)),
            Key::Binding(spec) => Some(bindings::json(spec)),
            Key::OwnBinding(tenant, name) => Some(bindings::own_json(tenant, name)),
            Key::Connection(session) => connections::json((broker, broker.connection(*session)?), scale, self.show),
            Key::Channel(session, number) => channels::json(broker.connection(*session)?, *number, (scale, self.show)),
            Key::Consumer(consumer) => Some(consumers::json(broker, consumer)),
            Key::Tenant(name) => Some(vhosts::json(broker, &broker.tenant(name)?, scale)),
            Key::Made(value) => Some(value.clone()),
        }
    }

    fn finish(&mut self) -> Response {
        let mut items = std::mem::take(&mut self.text);
        items.extend_from_slice(if self.items == 0 { b"[]" } else { b"]" });
        let Some(page) = self.page else { return Response::text(200, "application/json", items) };
        let filtered = self.filtered;
        let head = json!({
            "total_count": self.total,
            "item_count": self.items,
            "filtered_count": filtered,
            "page": page.number,
            "page_size": page.items,
            "page_count": filtered.div_ceil(page.items).max(1),
        });
        let mut body = head.to_string().into_bytes();
        body.pop(); // the closing brace
        body.extend_from_slice(b",\"items\":");
        body.extend_from_slice(&items);
        body.push(b'}');
        Response::text(200, "application/json", body)
    }
}
