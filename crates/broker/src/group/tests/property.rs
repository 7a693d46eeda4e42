//! Whatever happens in whatever order: every call is answered exactly once unless its session closed, generations never
//! go back, every member of a stable group has exactly one assignment, and nothing is left behind.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    /// The client does what a client does next: joins, syncs, heartbeats.
    Go(u8),
    /// It forgets its id and joins anew.
    Fresh(u8),
    /// It joins again with other metadata.
    Change(u8),
    Leave(u8),
    Close(u8),
    Wait(u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..6u8).prop_map(Act::Go),
        1 => (0..6u8).prop_map(Act::Fresh),
        1 => (0..6u8).prop_map(Act::Change),
        1 => (0..6u8).prop_map(Act::Leave),
        1 => (0..6u8).prop_map(Act::Close),
        3 => (0..9000u16).prop_map(Act::Wait),
    ]
}

/// Where a client stands.
#[derive(Clone, Default, Debug)]
struct Client {
    session: u64,
    member: String,
    generation: i32,
    /// The members it must assign to, if it leads.
    leads: Option<Vec<String>>,
    joined: bool,
    synced: bool,
    waits: bool,
}

struct World {
    groups: Groups,
    now: Now,
    clients: Vec<Client>,
    /// Calls without an answer, by their client.
    open: BTreeMap<Call, usize>,
    last_call: u64,
    last_session: u64,
    generation: i32,
}

impl World {
    fn call(&mut self, client: usize) -> Call {
        self.last_call += 1;
        let call = Call { session: SessionId(self.clients[client].session), call: CallId(self.last_call) };
        self.open.insert(call, client);
        self.clients[client].waits = true;
        call
    }

    fn join(&mut self, client: usize, metadata: String) {
        let call = self.call(client);
        let one = &mut self.clients[client];
        (one.joined, one.synced, one.leads) = (false, false, None);
        let is_static = client == 0;
        let request = JoinRequest {
            group: name(G),
            member: one.member.clone(),
            instance: is_static.then(|| "static".to_owned()),
            client_id: format!("c{client}"),
            client_host: String::new(),
            session_timeout: Duration::from_secs(6 + client as u64),
            rebalance_timeout: Duration::from_secs(7),
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), metadata.into())],
            require_known_member: client % 2 == 1,
        };
        self.groups.join(call, request, &self.last_call.to_string(), self.now);
    }

    fn go(&mut self, client: usize) {
        let one = self.clients[client].clone();
        if one.waits {
            return;
        }
        if !one.joined {
            return self.join(client, String::new());
        }
        let instance = (client == 0).then_some("static");
        let who = MemberRef { group: G, member: &one.member, instance, generation: one.generation };
        if !one.synced {
            let call = self.call(client);
            let members = one.leads.clone().unwrap_or_default();
            let assignments = members.into_iter().map(|member| (member.clone(), Bytes::from(member))).collect();
            self.groups.sync(call, who, None, assignments, self.now);
        } else if let Err(why) = self.groups.heartbeat(who, self.now) {
            self.clients[client].joined = false;
            if why != GroupError::Rebalancing {
                self.clients[client].member.clear();
            }
        }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Go(client) => self.go(usize::from(client)),
            Act::Fresh(client) => {
                self.clients[usize::from(client)].member.clear();
                self.join(usize::from(client), String::new());
            }
            Act::Change(client) => self.join(usize::from(client), self.last_call.to_string()),
            Act::Leave(client) => {
                let one = self.clients[usize::from(client)].clone();
                let who = MemberRef { group: G, member: &one.member, instance: None, generation: -1 };
                let _ = self.groups.leave(who, self.now);
            }
            Act::Close(client) => {
                let one = &mut self.clients[usize::from(client)];
                let closed = SessionId(one.session);
                self.last_session += 1;
                one.session = self.last_session;
                (one.waits, one.joined) = (false, false);
                self.open.retain(|call, _| call.session != closed);
                self.groups.session_closed(closed, self.now);
            }
            Act::Wait(millis) => {
                self.now.mono = self.now.mono.plus(Duration::from_millis(millis.into()));
                self.groups.tick(self.now);
            }
        }
        self.read();
        self.look();
    }

    fn read(&mut self) {
        for reply in self.groups.take_effects().replies {
            let client = self.open.remove(&reply.to).expect("an answer to a call that is open");
            let waits = self.open.values().any(|other| *other == client);
            let one = &mut self.clients[client];
            one.waits = waits;
            match reply.answer {
                Answer::Joined(Ok(joined)) => {
                    assert!(joined.generation >= self.generation, "generations never go back");
                    self.generation = joined.generation;
                    one.member = joined.member;
                    one.generation = joined.generation;
                    one.leads = (joined.leader == one.member)
                        .then(|| joined.members.into_iter().map(|member| member.member).collect());
                    one.joined = true;
                }
                Answer::Joined(Err(GroupError::MemberIdRequired(id))) => one.member = id,
                Answer::Joined(Err(_)) => one.member.clear(),
                Answer::Synced(Ok(synced)) => {
                    one.synced = true;
                    // A static member that came back gets what was assigned to its place under the id before.
                    let own = if client == 0 { "static-" } else { &one.member };
                    let assigned = String::from_utf8_lossy(&synced.assignment);
                    assert!(!one.joined || assigned.is_empty() || assigned.starts_with(own), "{assigned} for {own}");
                }
                Answer::Synced(Err(_)) => one.joined = false,
            }
        }
    }

    /// What must hold at every moment.
    fn look(&mut self) {
        let (waiting, _) = self.groups.loads();
        assert_eq!(waiting, self.open.len(), "exactly the open calls wait");
        self.groups.members_bytes(); // looks whether its account is right
        let info = self.groups.describe(G);
        if info.state == GroupState::Dead {
            self.generation = 0; // without members and offsets it was forgotten
        }
        let ids: BTreeSet<&str> = info.members.iter().map(|member| member.member.as_str()).collect();
        assert_eq!(ids.len(), info.members.len(), "no member twice");
        if info.state == GroupState::Stable {
            assert_eq!(info.protocol, "range");
            for member in info.members.iter().filter(|member| member.instance.is_none()) {
                assert_eq!(member.assignment, member.member.as_bytes(), "each member has its own assignment");
            }
        }
        if info.members.is_empty() {
            assert!(matches!(info.state, GroupState::Empty | GroupState::Dead | GroupState::PreparingRebalance));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_call_stays_without_an_answer(acts in prop::collection::vec(act(), 1..250), delay in 0..3u64) {
        let clients: Vec<Client> = (0..6).map(|session| Client { session, ..Client::default() }).collect();
        let mut world = World {
            groups: Groups::new(GroupOptions { initial_rebalance_delay: Duration::from_secs(delay), ..options() }),
            now: Now { mono: Mono(1), wall: Wall(1) },
            clients,
            open: BTreeMap::new(),
            last_call: 0,
            last_session: 100,
            generation: 0,
        };
        for act in &acts {
            world.act(act);
        }
        // Left alone every call is answered and every member goes.
        for _ in 0..40 {
            world.act(&Act::Wait(9000));
        }
        prop_assert_eq!(world.open.len(), 0);
        prop_assert_eq!(world.groups.describe(G).members.len(), 0);
        prop_assert_eq!(world.groups.loads(), (0, 0));
    }
}
