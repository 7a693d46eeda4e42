//! A queue against a simple model of one: random publishes, gets, acknowledgements, returns, expiries, purges,
//! deletions and restarts (by signal and by power cut), with time moved by the test. Such plays run through a client
//! against this broker and against RabbitMQ in `conformance/amqp/pika/test_model.py`.

use std::collections::BTreeMap;

use crate::rig::*;
use amqp::wire::{props, table};
use model::{Header, HeaderValue};
use proptest::prelude::*;

const QUEUE: &str = "q";
const DEAD: &str = "dead";

/// What the queue is declared with.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// Levels of priority, if any.
    levels: Option<u8>,
    length_max: Option<usize>,
    ttl: Option<u64>,
    /// A quorum queue, with so many returns allowed.
    quorum: Option<u32>,
}

/// One step of a play. Numbers that name a message are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Act {
    Publish { priority: u8, expiration: Option<u64>, persistent: bool },
    Get,
    Ack { which: usize, multiple: bool },
    Nack { which: usize, multiple: bool, requeue: bool },
    Recover,
    Purge,
    Count,
    Pass(u64),
    Delete { rules: Rules },
    Reconnect,
    Kill,
    PowerCut { seed: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Message {
    number: u64,
    level: u8,
    persistent: bool,
    end: Option<i64>,
    deliveries: u32,
}

/// The queue as the simplest program that does what is promised.
#[derive(Default)]
struct Model {
    rules: Rules,
    /// What waits, in the order in which it is handed out.
    waiting: Vec<Message>,
    /// In hand, by tag. `None`: its queue was deleted meanwhile.
    held: BTreeMap<u64, Option<Message>>,
    /// Dead letters, with their reasons, and whether they last.
    dead: Vec<(u64, &'static str, bool)>,
    published: u64,
    tag: u64,
}

impl Model {
    fn publish(&mut self, (priority, expiration, persistent): (u8, Option<u64>, bool), now: i64) -> u64 {
        self.published += 1;
        let lives = [expiration, self.rules.ttl].into_iter().flatten().min();
        self.waiting.push(Message {
            number: self.published,
            level: self.rules.levels.map_or(0, |levels| priority.min(levels)),
            persistent,
            end: lives.map(|ms| now + ms as i64),
            deliveries: 0,
        });
        self.settle(now);
        self.published
    }

    /// What dies of age or of length.
    fn settle(&mut self, now: i64) {
        self.waiting.sort_by_key(|message| (u8::MAX - message.level, message.number));
        while self.waiting.first().and_then(|message| message.end).is_some_and(|end| end <= now) {
            let message = self.waiting.remove(0);
            self.dies(message, "expired");
        }
        while self.rules.length_max.is_some_and(|most| self.waiting.len() > most) {
            let message = self.waiting.remove(0);
            self.dies(message, "maxlen");
        }
    }

    fn dies(&mut self, message: Message, reason: &'static str) {
        self.dead.push((message.number, reason, message.persistent));
    }

    fn get(&mut self) -> Option<(u64, Message)> {
        if self.waiting.is_empty() {
            return None;
        }
        let mut message = self.waiting.remove(0);
        let as_got = message;
        message.deliveries += 1;
        self.tag += 1;
        self.held.insert(self.tag, Some(message));
        Some((self.tag, as_got))
    }

    /// The tag that is meant, if anything is in hand.
    fn tag(&self, which: usize) -> Option<u64> {
        (!self.held.is_empty()).then(|| *self.held.keys().nth(which % self.held.len()).unwrap())
    }

    fn take(&mut self, tag: u64, multiple: bool) -> Vec<Message> {
        let tags = self.held.keys().copied().filter(|&held| held == tag || (multiple && held < tag));
        let tags = tags.collect::<Vec<_>>();
        tags.iter().filter_map(|tag| self.held.remove(tag).unwrap()).collect()
    }

    fn give_back(&mut self, messages: Vec<Message>, now: i64) {
        for message in messages {
            match self.rules.quorum {
                Some(limit) if message.deliveries > limit => self.dies(message, "delivery_limit"),
                _ => self.waiting.push(message),
            }
        }
        self.settle(now);
    }

    fn give_all_back(&mut self, now: i64) {
        let all = std::mem::take(&mut self.held).into_values().flatten().collect();
        self.give_back(all, now);
    }

    fn restart(&mut self, now: i64) {
        // What was in hand comes back with its deliveries counted; nobody returned it.
        self.waiting.extend(std::mem::take(&mut self.held).into_values().flatten());
        let all_last = self.rules.quorum.is_some();
        self.waiting.retain(|message| all_last || message.persistent);
        self.dead.retain(|(.., lasts)| *lasts);
        self.tag = 0;
        self.settle(now);
    }
}

struct Play {
    world: World,
    at: usize,
    model: Model,
}

impl Play {
    fn new(rules: Rules) -> Play {
        let mut play = Play { world: World::new(), at: 0, model: Model::default() };
        play.connect();
        play.world.ask(play.at, &declare(1, "other", DURABLE));
        play.declare(rules);
        play
    }

    fn connect(&mut self) {
        self.at = self.world.client();
        self.world.ask(self.at, &confirm(1));
        self.model.tag = 0;
    }

    fn declare(&mut self, rules: Rules) {
        let int = |name: &str, value: i64| Header { name: name.into(), value: HeaderValue::Int(value) };
        let mut headers =
            vec![text_header("x-dead-letter-exchange", ""), text_header("x-dead-letter-routing-key", DEAD)];
        headers.extend(rules.levels.map(|levels| int("x-max-priority", levels.into())));
        headers.extend(rules.length_max.map(|most| int("x-max-length", most as i64)));
        headers.extend(rules.ttl.map(|ms| int("x-message-ttl", ms as i64)));
        headers.extend(rules.quorum.map(|_| text_header("x-queue-type", "quorum")));
        headers.extend(rules.quorum.map(|limit| int("x-delivery-limit", limit.into())));
        let mut entries = Vec::new();
        table::put(&mut entries, &headers);
        let declared = self.world.one(self.at, &declare_with(1, QUEUE, DURABLE, &entries[4..]));
        assert_eq!(declared.method, (50, 11), "{rules:?}");
        assert_eq!(self.world.one(self.at, &declare(1, DEAD, DURABLE)).method, (50, 11));
        self.model.rules = rules;
    }

    fn now(&self) -> i64 {
        self.world.now.wall.0
    }

    fn publish(&mut self, priority: u8, expiration: Option<u64>, persistent: bool) {
        let now = self.now();
        let number = self.model.publish((priority, expiration, persistent), now);
        let frames = self.world.ask(
            self.at,
            &publish(1, ("", QUEUE), 0, &properties(priority, expiration, persistent), number.to_string().as_bytes()),
        );
        assert_eq!(frames.len(), 1, "{frames:?}");
        assert_eq!(frames[0].method, (60, 80), "confirmed");
    }

    fn get(&mut self) {
        let frames = self.world.ask(self.at, &get(1, QUEUE, false));
        let got = contents(&frames).pop();
        let told = got.map(|got| (got.tag, String::from_utf8(got.body).unwrap(), got.redelivered));
        let expected = self.model.get().map(|(tag, message)| (tag, message.number.to_string(), message.deliveries > 0));
        assert_eq!(told, expected, "tag, body, redelivered");
    }

    fn settle(&mut self, bytes: &[u8]) {
        assert_eq!(self.world.ask(self.at, bytes), []);
    }

    fn count(&mut self, queue: &str) -> usize {
        let frame = self.world.one(self.at, &declare(1, queue, PASSIVE));
        let fields = &frame.fields[1 + queue.len()..];
        u32::from_be_bytes(fields[..4].try_into().unwrap()) as usize
    }

    fn purge(&mut self) {
        let frame = self.world.one(self.at, &purge(1, QUEUE));
        let told = u32::from_be_bytes(frame.fields[..4].try_into().unwrap()) as usize;
        assert_eq!(told, self.model.waiting.len(), "purged");
        self.model.waiting.clear();
    }

    fn delete(&mut self, rules: Rules) {
        let frame = self.world.one(self.at, &delete(1, QUEUE, 0));
        let told = u32::from_be_bytes(frame.fields[..4].try_into().unwrap()) as usize;
        assert_eq!(told, self.model.waiting.len(), "deleted with");
        self.model.waiting.clear();
        self.model.held.values_mut().for_each(|held| *held = None);
        self.declare(rules);
    }

    fn restart(&mut self, disk: storage::SimDisk) {
        let (mono, wall) = (self.world.now.mono, self.world.now.wall);
        self.world = World::on(disk, options());
        self.world.now.mono = mono;
        self.world.now.wall = wall;
        self.pass(0);
        self.connect();
        let now = self.now();
        self.model.restart(now);
    }

    fn pass(&mut self, ms: u64) {
        self.world.pass(ms);
        self.world.broker.tick(self.world.now);
        self.world.run();
    }

    fn step(&mut self, act: Act) {
        let now = self.now();
        self.model.settle(now); // what has become the first
        match act {
            Act::Publish { priority, expiration, persistent } => self.publish(priority, expiration, persistent),
            Act::Get => self.get(),
            Act::Ack { which, multiple } => {
                if let Some(tag) = self.model.tag(which) {
                    self.settle(&ack(1, tag, multiple));
                    self.model.take(tag, multiple);
                }
            }
            Act::Nack { which, multiple, requeue } => self.nack(which, multiple, requeue),
            Act::Recover => {
                assert_eq!(self.world.one(self.at, &recover(1)).method, (60, 111));
                let now = self.now();
                self.model.give_all_back(now);
            }
            Act::Purge => self.purge(),
            Act::Count => assert_eq!(self.count(QUEUE), self.model.waiting.len(), "count"),
            Act::Pass(ms) => {
                self.pass(ms);
                let now = self.now();
                self.model.settle(now);
            }
            Act::Delete { rules } => self.delete(rules),
            Act::Reconnect => {
                self.world.drop_link(self.at);
                let now = self.now();
                self.model.give_all_back(now);
                self.connect();
            }
            Act::Kill => self.restart(self.world.disk.kill()),
            Act::PowerCut { seed } => {
                // Its confirm says that it is synced, and with it all that came before.
                let confirmed = self.world.one(self.at, &publish(1, ("", "other"), 0, PERSISTENT, b"x"));
                assert_eq!(confirmed.method, (60, 80));
                self.restart(self.world.disk.crash(seed));
            }
        }
    }

    fn nack(&mut self, which: usize, multiple: bool, requeue: bool) {
        let Some(tag) = self.model.tag(which) else { return };
        self.settle(&nack(1, tag, u8::from(multiple) | u8::from(requeue) << 1));
        let messages = self.model.take(tag, multiple);
        if requeue {
            let now = self.now();
            self.model.give_back(messages, now);
        } else {
            messages.into_iter().for_each(|message| self.model.dies(message, "rejected"));
        }
    }

    /// The queue read to its end, and its dead letters.
    fn end(mut self) {
        self.step(Act::Reconnect);
        self.step(Act::Get);
        while !self.model.waiting.is_empty() {
            self.step(Act::Get);
        }
        let mut letters = Vec::new();
        while let Some(letter) = contents(&self.world.ask(self.at, &get(1, DEAD, true))).pop() {
            letters.push((String::from_utf8(letter.body).unwrap().parse::<u64>().unwrap(), reason(&letter.props)));
        }
        let expected = self.model.dead.iter().map(|(number, reason, _)| (*number, (*reason).to_owned()));
        let mut expected = expected.collect::<Vec<_>>();
        expected.sort();
        letters.sort();
        assert_eq!(letters, expected, "dead letters");
    }
}

/// Why it died last.
fn reason(properties: &[u8]) -> String {
    let headers = table::read(props::read(properties).unwrap().headers.unwrap()).unwrap();
    let deaths = headers.iter().find(|header| header.name == "x-death").unwrap();
    let HeaderValue::List(deaths) = &deaths.value else { panic!("{deaths:?}") };
    let HeaderValue::Table(death) = &deaths[0] else { panic!("{deaths:?}") };
    death.iter().find(|header| header.name == "reason").unwrap().value.as_text().unwrap()
}

/// Delivery mode, priority and perhaps an expiration.
fn properties(priority: u8, expiration: Option<u64>, persistent: bool) -> Vec<u8> {
    let mut out = vec![0x18 | u8::from(expiration.is_some()), 0, if persistent { 2 } else { 1 }, priority];
    if let Some(ms) = expiration {
        let text = ms.to_string();
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn rules() -> impl Strategy<Value = Rules> {
    let length_max = prop_oneof![3 => Just(None), 1 => Just(Some(4))];
    let ttl = prop_oneof![2 => Just(None), 1 => Just(Some(300))];
    let kind = prop_oneof![
        3 => Just((None, None)),
        2 => Just((Some(3), None)),
        2 => (0u32..4).prop_map(|limit| (None, Some(limit))),
    ];
    (kind, length_max, ttl).prop_map(|((levels, quorum), length_max, ttl)| Rules { levels, length_max, ttl, quorum })
}

fn act() -> impl Strategy<Value = Act> {
    let expiration = prop_oneof![3 => Just(None), 1 => prop::sample::select(vec![Some(100), Some(250), Some(900)])];
    let which = 0usize..16;
    prop_oneof![
        12 => (0u8..6, expiration, any::<bool>())
            .prop_map(|(priority, expiration, persistent)| Act::Publish { priority, expiration, persistent }),
        10 => Just(Act::Get),
        4 => (which.clone(), prop::bool::weighted(0.3)).prop_map(|(which, multiple)| Act::Ack { which, multiple }),
        6 => (which, prop::bool::weighted(0.3), prop::bool::weighted(0.6))
            .prop_map(|(which, multiple, requeue)| Act::Nack { which, multiple, requeue }),
        1 => Just(Act::Recover),
        1 => Just(Act::Purge),
        3 => Just(Act::Count),
        4 => (1u64..400).prop_map(Act::Pass),
        1 => rules().prop_map(|rules| Act::Delete { rules }),
        1 => Just(Act::Reconnect),
        1 => Just(Act::Kill),
        1 => any::<u64>().prop_map(|seed| Act::PowerCut { seed }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_queue_does_what_its_model_does(first in rules(), acts in prop::collection::vec(act(), 1..120)) {
        let mut play = Play::new(first);
        for act in acts {
            play.step(act);
        }
        play.end();
    }
}

/// Found by the plays: what was in hand when a quorum queue was purged was counted as if a restart ended it.
#[test]
fn transient_messages_of_a_quorum_queue_in_hand_at_a_purge_survive_a_kill() {
    let publish = |expiration| Act::Publish { priority: 0, expiration, persistent: false };
    let mut play = Play::new(Rules { quorum: Some(5), ..Rules::default() });
    for act in [publish(Some(100)), publish(None), Act::Get, Act::Get, Act::Purge, Act::Kill, Act::Count] {
        play.step(act);
    }
    play.end();
}
