//! Fetch sessions (KIP-227): a client names its partitions once and afterwards only what has changed; it is answered
//! only what has changed. So a fetch costs what moves, not what there is. One session a connection; it goes with it.

use std::collections::{HashMap, VecDeque};

use broker::{Broker, CallId, Cx};
use model::LogId;

use super::{FetchRequest, FetchedPartition, FetchedTopic, Found, Plan, PlanPartition, PlanTopic};
use super::{fetch_partition, plan_topic, respond};
use crate::api::asker::log_of;
use crate::api::{Asker, READ, Waiting};
use crate::call::ReplyTo;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, Uuid};

/// Partitions (and topics) that a session remembers; who reads more asks for all of them each time.
const ENTRIES_MAX: usize = 200_000;

/// A topic as the client names it: by name, or by id with an empty name.
type TopicKey = (String, Uuid);

/// One session.
pub(crate) struct FetchSession {
    id: i32,
    /// The next request's epoch.
    epoch: i32,
    /// What the broker tells of movements by.
    call: CallId,
    topics: Vec<TopicKey>,
    /// Of the topics.
    name_bytes: usize,
    topic_at: HashMap<TopicKey, u32>,
    entries: Vec<Entry>,
    entry_at: HashMap<(u32, i32), u32>,
    /// Places in `entries` that nobody has.
    free: Vec<u32>,
    /// Of permissions, when the entries were allowed.
    access_version: u64,
    /// Entries to be looked at, those longest without an answer first, and some that are gone. All others have nothing
    /// new.
    active: VecDeque<u32>,
}

struct Entry {
    topic: u32,
    partition: PlanPartition,
    /// The watermark and the log's start that the client was told last.
    told: (i64, i64),
    is_active: bool,
    /// The client has forgotten it; its place is free, or will be when its turn among the active ones comes.
    is_gone: bool,
}

/// The watermark and start in an answer.
fn told(fetched: &FetchedPartition) -> (i64, i64) {
    (fetched.high_watermark, fetched.log_start_offset)
}

/// Whether there is, or may be, more to tell of the partition at once.
fn has_more(partition: &PlanPartition, fetched: &FetchedPartition) -> bool {
    fetched.error_code != 0 || fetched.high_watermark > partition.from
}

impl FetchSession {
    /// Adds or changes a partition; it will be looked at.
    fn put(&mut self, broker: &mut Broker, asker: &Asker, topic: u32, partition: PlanPartition) {
        let key = (topic, partition.index);
        let log = partition.log;
        let at = match self.entry_at.get(&key).copied() {
            Some(at) => {
                let entry = &mut self.entries[at as usize];
                let before = std::mem::replace(&mut entry.partition, partition).log;
                if before != log
                    && let Ok(before) = before
                {
                    broker.unfollow(asker.peer.session, self.call, Some(before));
                }
                at
            }
            None => {
                let entry = Entry { topic, partition, told: (-1, -1), is_active: false, is_gone: false };
                let at = self.free.pop().unwrap_or(self.entries.len() as u32);
                match self.entries.get_mut(at as usize) {
                    Some(place) => *place = entry,
                    None => self.entries.push(entry),
                }
                self.entry_at.insert(key, at);
                at
            }
        };
        if let Ok(log) = log {
            broker.follow(asker.peer.session, self.call, log, at);
        }
        self.activate(at);
    }

    fn activate(&mut self, at: u32) {
        if let Some(entry) = self.entries.get_mut(at as usize)
            && !entry.is_gone
            && !std::mem::replace(&mut entry.is_active, true)
        {
            self.active.push_back(at);
        }
    }

    fn forget(&mut self, broker: &mut Broker, asker: &Asker, key: (u32, i32)) {
        let Some(at) = self.entry_at.remove(&key) else { return };
        let Some(entry) = self.entries.get_mut(at as usize) else { return };
        entry.is_gone = true;
        if let Ok(log) = entry.partition.log {
            broker.unfollow(asker.peer.session, self.call, Some(log));
        }
        // The place of an active one is free when its turn comes: to look for it among all of them now would take long.
        if !entry.is_active {
            self.free.push(at);
        }
    }

    fn topic(&mut self, name: &str, id: Uuid) -> u32 {
        let key = (name.to_owned(), id);
        if let Some(at) = self.topic_at.get(&key) {
            return *at;
        }
        let at = self.topics.len() as u32;
        self.name_bytes += name.len();
        self.topics.push(key.clone());
        self.topic_at.insert(key, at);
        at
    }

    /// The next of the active entries.
    fn next_active(&mut self) -> Option<u32> {
        while let Some(at) = self.active.pop_front() {
            match self.entries.get_mut(at as usize) {
                Some(entry) if entry.is_gone => {
                    entry.is_active = false;
                    self.free.push(at);
                }
                _ => return Some(at),
            }
        }
        None
    }

    /// Bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        let topics = 2 * (self.name_bytes + self.topics.len() * size_of::<TopicKey>());
        let entry = size_of::<Entry>() + size_of::<((u32, i32), u32)>() + 2 * size_of::<u32>();
        topics + self.entries.len() * entry
    }

    fn is_full(&self) -> bool {
        self.entries.len() > 2 * ENTRIES_MAX || self.entry_at.len() > ENTRIES_MAX || self.topics.len() > ENTRIES_MAX
    }
}

/// Ends the connection's session, if there is one.
pub(super) fn close(asker: &mut Asker, broker: &mut Broker) {
    if let Some(session) = asker.fetch_session.take() {
        broker.unfollow(asker.peer.session, session.call, None);
    }
}

/// Begins a session with what a full fetch asked for and is answered; answers its id, 0 when there is none.
pub(super) fn open(asker: &mut Asker, cx: &mut Cx<'_>, plan: &mut Plan, answers: &[FetchedTopic<'_>]) -> i32 {
    close(asker, cx.broker);
    let count: usize = plan.topics.iter().map(|topic| topic.partitions.len()).sum();
    if count == 0 || count > ENTRIES_MAX {
        return 0;
    }
    asker.fetch_sessions += 1;
    // Never 0, and not those of the connection before: a client may come back with an old one.
    let id = ((asker.peer.session.0 as i32).wrapping_mul(0x9E37) ^ asker.fetch_sessions) & i32::MAX | 1;
    let mut session = FetchSession {
        id,
        epoch: 1,
        call: asker.calls.next(),
        topics: Vec::new(),
        name_bytes: 0,
        topic_at: HashMap::new(),
        entries: Vec::with_capacity(count),
        entry_at: HashMap::with_capacity(count),
        free: Vec::new(),
        access_version: 0, // none that was: looked at with the first request
        active: VecDeque::new(),
    };
    for (PlanTopic { name, id, partitions }, answered) in std::mem::take(&mut plan.topics).into_iter().zip(answers) {
        let topic = session.topic(&name, id);
        for (partition, fetched) in partitions.into_iter().zip(&answered.partitions) {
            let (key, more) = ((topic, partition.index), has_more(&partition, fetched));
            session.put(cx.broker, asker, topic, partition);
            if let Some(entry) = session.entry_at.get(&key).and_then(|at| session.entries.get_mut(*at as usize)) {
                entry.told = told(fetched);
                entry.is_active = more;
            }
        }
    }
    let entries = &session.entries;
    session.active.retain(|at| entries[*at as usize].is_active);
    asker.fetch_session = Some(Box::new(session));
    id
}

/// Takes a request of a session that is under way: what it changes. An error when it is not the session's next.
pub(super) fn take(asker: &mut Asker, cx: &mut Cx<'_>, request: &FetchRequest<'_>) -> Result<CallId, ErrorCode> {
    let known = asker.fetch_session.as_ref().is_some_and(|session| session.id == request.session_id);
    let Some(mut session) = asker.fetch_session.take().filter(|_| known) else {
        return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    };
    if session.epoch != request.session_epoch {
        asker.fetch_session = Some(session);
        return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    }
    session.epoch = session.epoch.checked_add(1).unwrap_or(1);
    for forgotten in &request.forgotten_topics_data {
        let topic = session.topic(&forgotten.topic, forgotten.topic_id);
        for partition in &forgotten.partitions {
            session.forget(cx.broker, asker, (topic, *partition));
        }
    }
    for changed in &request.topics {
        let PlanTopic { name, id, partitions } = plan_topic(asker, cx, changed);
        let topic = session.topic(&name, id);
        for partition in partitions {
            session.put(cx.broker, asker, topic, partition);
        }
    }
    let (call, is_full) = (session.call, session.is_full());
    asker.fetch_session = Some(session);
    if is_full {
        close(asker, cx.broker);
        return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    }
    Ok(call)
}

/// What a look at the active entries gave.
#[derive(Default)]
struct Looked {
    answers: Vec<(u32, FetchedPartition)>,
    /// Those that have nothing more, answered or not.
    idle: Vec<u32>,
    /// Those that have more, and those that wait for the disk.
    more: Vec<u32>,
}

/// One try of a fetch of session `id`.
pub(super) fn attempt(asker: &mut Asker, cx: &mut Cx<'_>, to: ReplyTo, mut plan: Box<Plan>, id: i32) -> Answer {
    let Some(mut session) = asker.fetch_session.take().filter(|session| session.id == id) else {
        return super::refuse(asker, to, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    };
    let mut marks = Vec::new();
    cx.broker.take_moved(asker.peer.session, session.call, &mut marks);
    for at in marks {
        session.activate(at);
    }
    check_access(asker, cx.broker, &mut session);
    let mut found = Found::default();
    let looked = look(asker, cx, &plan, &mut session, &mut found);
    let has_partitions = !session.entry_at.is_empty();
    if !plan.is_answered(&found, has_partitions) {
        // Nothing of it is answered: all is looked at again.
        for at in looked.more.iter().chain(&looked.idle).rev() {
            session.active.push_front(*at);
        }
        let call = session.call;
        asker.fetch_session = Some(session);
        if plan.wait(cx.now.mono) {
            cx.broker.await_moved(asker.peer.session, call);
        }
        return Answer::Later(call, Waiting::Fetch(plan));
    }
    session.active.extend(&looked.more);
    for at in looked.idle {
        session.entries[at as usize].is_active = false;
    }
    let topics = topics_of(&mut session, looked.answers);
    let answer = respond(asker, to, topics, id);
    asker.fetch_session = Some(session);
    answer
}

/// Permissions have changed: what may not be read any more is refused from now on.
fn check_access(asker: &Asker, broker: &mut Broker, session: &mut FetchSession) {
    let version = broker.access_version();
    if std::mem::replace(&mut session.access_version, version) == version {
        return;
    }
    for at in 0..session.entries.len() as u32 {
        let entry = &session.entries[at as usize];
        let Ok(log) = entry.partition.log else { continue };
        if entry.is_gone {
            continue;
        }
        let (name, id) = &session.topics[entry.topic as usize];
        if find(asker, broker, (name, *id), entry.partition.index) != Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED) {
            continue;
        }
        broker.unfollow(asker.peer.session, session.call, Some(log));
        session.entries[at as usize].partition.log = Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        session.activate(at);
    }
}

/// Looks at the active entries, as far as there is room.
fn look(asker: &Asker, cx: &mut Cx<'_>, plan: &Plan, session: &mut FetchSession, found: &mut Found) -> Looked {
    let mut looked = Looked::default();
    while found.bytes < plan.max_bytes || found.bytes == 0 {
        let Some(at) = session.next_active() else { break };
        resolve(asker, cx, session, at);
        let entry = &session.entries[at as usize];
        let was_pending = std::mem::take(&mut found.pending);
        let fetched = fetch_partition(asker, cx, plan, &entry.partition, found);
        let more = found.pending || has_more(&entry.partition, &fetched);
        found.pending |= was_pending;
        let has_records = fetched.records.as_ref().is_some_and(|records| !records.0.is_empty());
        if has_records || fetched.error_code != 0 || told(&fetched) != entry.told {
            looked.answers.push((at, fetched));
        }
        if more { looked.more.push(at) } else { looked.idle.push(at) }
    }
    looked
}

/// Finds an entry's log if it is not known, or not any more: its topic may have been made, or made anew.
fn resolve(asker: &Asker, cx: &mut Cx<'_>, session: &mut FetchSession, at: u32) {
    let entry = &session.entries[at as usize];
    let is_lost = match entry.partition.log {
        Ok(log) => cx.broker.bounds(log).is_err(),
        Err(code) => code != ErrorCode::UNKNOWN_LEADER_EPOCH,
    };
    if is_lost {
        let (name, id) = &session.topics[entry.topic as usize];
        let log = find(asker, cx.broker, (name, *id), entry.partition.index);
        if let Ok(log) = log {
            cx.broker.follow(asker.peer.session, session.call, log, at);
        }
        session.entries[at as usize].partition.log = log;
    }
}

fn find(asker: &Asker, broker: &Broker, (name, id): (&str, Uuid), partition: i32) -> Result<LogId, ErrorCode> {
    let info = match name.is_empty() {
        true => asker.topic_by_id(broker, id, READ),
        false => asker.topic(broker, name, READ),
    };
    log_of(info?, partition)
}

/// The answers by topic; what they tell is remembered.
fn topics_of(session: &mut FetchSession, mut answers: Vec<(u32, FetchedPartition)>) -> Vec<FetchedTopic<'static>> {
    answers.sort_by_key(|(at, _)| session.entries[*at as usize].topic); // stable: whose turn it is stays first
    let mut topics: Vec<FetchedTopic<'static>> = Vec::new();
    let mut last = None;
    for (at, fetched) in answers {
        let entry = &mut session.entries[at as usize];
        entry.told = told(&fetched);
        if last != Some(entry.topic) {
            last = Some(entry.topic);
            let (name, id) = &session.topics[entry.topic as usize];
            topics.push(FetchedTopic { topic: Text::Owned(name.clone()), topic_id: *id, partitions: Vec::new() });
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(fetched);
        }
    }
    topics
}
