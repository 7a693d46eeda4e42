//! Tests of the groups as a pure machine. A test is a table: an event on the left, what comes of it on the right.
//!
//! Events: `join a known p=range,rr st=10 rt=60 i=I id=X m=M t=T` (client `a`; without `id=` as a new member,
//! `again a …` with the id it was told last), `sync a a-1=x b-2=y`, `beat a`, `leave a`, `close a` (its session),
//! `commit a`, `wait 5` (seconds). A member's id is the client's name and a number that counts new members. `gen=` and
//! `id=` say what a client believes instead of what it was told. In what comes of it `+2[a-1]` is a stored group of
//! generation 2, and `a*` an answer that waits until that is stored.

mod offsets;
mod property;
mod rebalances;
mod recovery;
mod statics;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use model::{Mono, Name, Now, Wall};

use super::desk::{Answer, Call, Effects};
use super::groups::Groups;
use super::*;
use crate::{CallId, SessionId};

/// The group of all tables.
const G: &str = "g";

/// What a client was told last.
#[derive(Clone, Default)]
struct Told {
    session: u64,
    member: String,
    generation: i32,
    instance: Option<String>,
}

/// Groups and their clients.
struct Bench {
    groups: Groups,
    now: Now,
    clients: BTreeMap<String, Told>,
    calls: HashMap<u64, String>,
    last_call: u64,
    last_uuid: u64,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn options() -> GroupOptions {
    GroupOptions { initial_rebalance_delay: Duration::ZERO, ..GroupOptions::default() }
}

/// `key=value` among words.
fn word<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn seconds(words: &[&str], key: &str, default: u64) -> Duration {
    Duration::from_secs(word(words, key).map_or(default, |text| text.parse().unwrap()))
}

impl Bench {
    fn new(options: GroupOptions) -> Bench {
        Bench {
            groups: Groups::new(options),
            now: Now { mono: Mono(1_000_000_000), wall: Wall(1_000_000) },
            clients: BTreeMap::new(),
            calls: HashMap::new(),
            last_call: 0,
            last_uuid: 0,
        }
    }

    fn call(&mut self, client: &str) -> Call {
        self.last_call += 1;
        self.calls.insert(self.last_call, client.to_owned());
        let next = self.clients.len() as u64 + 1;
        let told = self.clients.entry(client.to_owned()).or_default();
        if told.session == 0 {
            told.session = next;
        }
        Call { session: SessionId(told.session), call: CallId(self.last_call) }
    }

    fn wait(&mut self, wait: Duration) {
        self.now.mono = self.now.mono.plus(wait);
        self.now.wall.0 += wait.as_millis() as i64;
        self.groups.tick(self.now);
    }

    /// Runs one event and tells what came of it.
    fn run(&mut self, event: &str) -> String {
        let words: Vec<&str> = event.split(' ').collect();
        let client = words.get(1).copied().unwrap_or_default();
        let told = self.clients.get(client).cloned().unwrap_or_default();
        let member = word(&words, "id").map_or(told.member.clone(), str::to_owned);
        let instance = word(&words, "i").map(str::to_owned).or(told.instance.clone());
        let generation = word(&words, "gen").map_or(told.generation, |text| text.parse().unwrap());
        let who = MemberRef { group: G, member: &member, instance: instance.as_deref(), generation };
        let answered = match words[0] {
            "join" | "again" => {
                self.join(client, &words);
                None
            }
            "sync" => {
                let call = self.call(client);
                let pairs = words.iter().skip(2).filter_map(|word| word.split_once('='));
                let pairs = pairs.filter(|(key, _)| !["gen", "id", "i", "p"].contains(key));
                let assignments = pairs.map(|(id, what)| (id.to_owned(), Bytes::from(what.to_owned()))).collect();
                let protocol = word(&words, "p").map(|protocol| ("consumer", protocol));
                self.groups.sync(call, who, protocol, assignments, self.now);
                None
            }
            "beat" => Some(self.groups.heartbeat(who, self.now)),
            "leave" => Some(self.groups.leave(who, self.now)),
            "commit" => Some(self.groups.check_commit(who, self.now).map(|_| ())),
            "close" => {
                self.groups.session_closed(SessionId(told.session), self.now);
                None
            }
            "wait" => {
                self.wait(Duration::from_millis((client.parse::<f64>().unwrap() * 1000.0) as u64));
                None
            }
            other => panic!("no event '{other}'"),
        };
        let mut said: Vec<String> =
            answered.map(|answer| answer.map_or_else(error, |()| "ok".to_owned())).into_iter().collect();
        let effects = self.groups.take_effects();
        self.tell(effects, &mut said);
        said.join("; ")
    }

    fn join(&mut self, client: &str, words: &[&str]) {
        let call = self.call(client);
        self.last_uuid += 1;
        let told = self.clients[client].clone();
        let protocols = word(words, "p").unwrap_or("range").split(',').filter(|p| !p.is_empty());
        let metadata = word(words, "m").unwrap_or(client).to_owned();
        let instance = word(words, "i").map(str::to_owned).or(told.instance);
        self.clients.get_mut(client).unwrap().instance.clone_from(&instance);
        let own = if words[0] == "again" { told.member } else { String::new() };
        let request = JoinRequest {
            group: name(word(words, "g").unwrap_or(G)),
            member: word(words, "id").map_or(own, str::to_owned),
            instance,
            client_id: client.to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout: seconds(words, "st", 10),
            rebalance_timeout: seconds(words, "rt", 60),
            protocol_type: word(words, "t").unwrap_or("consumer").to_owned(),
            protocols: protocols.map(|p| (p.to_owned(), Bytes::from(metadata.clone()))).collect(),
            require_known_member: words.contains(&"known"),
        };
        self.groups.join(call, request, &self.last_uuid.to_string(), self.now);
    }

    fn tell(&mut self, effects: Effects, said: &mut Vec<String>) {
        for entry in effects.entries {
            said.push(stored(&entry));
        }
        for reply in effects.replies {
            let client = self.calls.remove(&reply.to.call.0).expect("no call is answered twice");
            let told = self.clients.get_mut(&client).unwrap();
            assert_eq!(told.session, reply.to.session.0);
            let late = if reply.needs_store { "*" } else { "" };
            let text = match reply.answer {
                Answer::Joined(Ok(joined)) => {
                    told.member.clone_from(&joined.member);
                    told.generation = joined.generation;
                    let members: Vec<&str> = joined.members.iter().map(|one| one.member.as_str()).collect();
                    let skip = if joined.skip_assignment { " skip" } else { "" };
                    let role = if members.is_empty() {
                        format!("of {}", joined.leader)
                    } else {
                        format!("leads {}", members.join(","))
                    };
                    format!("joined {} as {} {} {role}{skip}", joined.generation, joined.member, joined.protocol)
                }
                Answer::Joined(Err(why)) => {
                    if let GroupError::MemberIdRequired(id) = &why {
                        told.member.clone_from(id);
                    }
                    error(why)
                }
                Answer::Synced(Ok(synced)) => format!("synced {}", String::from_utf8_lossy(&synced.assignment)),
                Answer::Synced(Err(why)) => format!("sync {}", error(why)),
            };
            said.push(format!("{client}{late} {}", text.trim_end()));
        }
    }
}

fn error(why: GroupError) -> String {
    match why {
        GroupError::MemberIdRequired(id) => format!("MemberIdRequired {id}"),
        why => format!("{why:?}"),
    }
}

/// What a record says, in short.
fn stored(entry: &LedgerEntry) -> String {
    match entry {
        LedgerEntry::Group { snapshot: None, .. } => "-group".to_owned(),
        LedgerEntry::Group { snapshot: Some(one), .. } => {
            let members: Vec<String> = one.members.iter().map(|m| m.info.member.clone()).collect();
            format!("+{}[{}]", one.generation, members.join(","))
        }
        LedgerEntry::Offset { topic, partition, committed, .. } => {
            format!("{}{topic}/{partition}", if committed.is_some() { '+' } else { '-' })
        }
    }
}

/// Runs a table.
fn check(bench: &mut Bench, table: &[(&str, &str)]) {
    for (line, (event, expected)) in table.iter().enumerate() {
        assert_eq!(bench.run(event), *expected, "line {} of the table: {event}", line + 1);
    }
}

/// Runs a table on groups without an initial delay.
fn check_new(table: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::new(options());
    check(&mut bench, table);
    bench
}
