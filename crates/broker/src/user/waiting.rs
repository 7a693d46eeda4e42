//! Passwords that wait for a thread: addresses take turns, and users behind one address do, so that whoever sends many
//! wrong ones delays himself. When all room is taken, whoever has most of it loses what he sent last.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use model::Name;

use crate::{CallId, Job, SessionId};

/// Logins that may wait to be checked.
const WAITING_MAX: usize = 4096;

/// A password that waits for a thread.
pub(super) struct Waiting {
    /// Whose answer it is, and whether it is a login: else it is to be a user's from now on.
    pub(super) session: SessionId,
    pub(super) call: CallId,
    pub(super) is_login: bool,
    pub(super) job: Job,
}

/// Things that wait in lanes; lanes take turns.
struct Lanes<K, T> {
    /// Whose turn it is, then the others. Invariant: the keys of `of`, each once.
    turns: VecDeque<K>,
    of: HashMap<K, T>,
}

impl<K, T> Default for Lanes<K, T> {
    fn default() -> Self {
        Lanes { turns: VecDeque::new(), of: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, T: Default> Lanes<K, T> {
    fn lane(&mut self, key: K) -> &mut T {
        if !self.of.contains_key(&key) {
            self.turns.push_back(key.clone());
        }
        self.of.entry(key).or_default()
    }

    /// Takes from the lane whose turn it is; one in which nothing is left is gone.
    fn take<U>(&mut self, take: impl FnOnce(&mut T) -> (Option<U>, bool)) -> Option<U> {
        let key = self.turns.pop_front()?;
        let (taken, is_empty) = self.of.get_mut(&key).map(take)?;
        if is_empty {
            self.of.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        taken
    }

    /// Drops the lanes that `keep` does not want.
    fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.of.retain(|_, lane| keep(lane));
        self.turns.retain(|key| self.of.contains_key(key));
    }
}

type Users = Lanes<Option<Name>, VecDeque<Waiting>>;

/// All that wait.
#[derive(Default)]
pub(super) struct Queue {
    /// By address (what operators ask for has a lane of its own), then by user; those that nobody knows share one.
    addresses: Lanes<Option<IpAddr>, Users>,
    logins: usize,
}

impl Queue {
    /// Adds a login from `address` as `user`, if there is one of that name; answers one that has to be refused for it.
    pub(super) fn login(&mut self, (address, user): (IpAddr, Option<Name>), waiting: Waiting) -> Option<Waiting> {
        self.addresses.lane(Some(neighbours(address))).lane(user).push_back(waiting);
        self.logins += 1;
        if self.logins > WAITING_MAX { self.push_out() } else { None }
    }

    /// Adds what somebody asks for who is logged in.
    pub(super) fn add(&mut self, waiting: Waiting) {
        self.addresses.lane(None).lane(None).push_back(waiting);
    }

    /// The next.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        let next = self.addresses.take(|users| {
            let next = users.take(|lane| (lane.pop_front(), lane.is_empty()));
            (next, users.of.is_empty())
        })?;
        self.logins -= usize::from(next.is_login);
        Some(next)
    }

    /// A session is gone: nobody waits for its logins.
    pub(super) fn forget(&mut self, session: SessionId) {
        let mut logins = 0;
        self.addresses.retain(|users| {
            users.retain(|lane| {
                lane.retain(|waiting| !waiting.is_login || waiting.session != session);
                logins += lane.iter().filter(|waiting| waiting.is_login).count();
                !lane.is_empty()
            });
            !users.of.is_empty()
        });
        self.logins = logins;
    }

    /// Takes out the latest login of whoever has most of them.
    fn push_out(&mut self) -> Option<Waiting> {
        let count = |users: &Users| users.of.values().map(VecDeque::len).sum::<usize>();
        let addresses = self.addresses.of.iter_mut().filter(|(address, _)| address.is_some());
        let (_, users) = addresses.max_by_key(|(_, users)| count(users))?;
        let lane = users.of.values_mut().max_by_key(|lane| lane.len())?;
        let last = lane.pop_back()?;
        self.logins -= 1;
        users.retain(|lane| !lane.is_empty());
        self.addresses.retain(|users| !users.of.is_empty());
        Some(last)
    }
}

/// What stands for an address: of IPv6 the network, which one customer has to himself.
fn neighbours(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => six
            .to_ipv4_mapped()
            .map_or_else(|| IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX))), IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobDone;

    fn waiting(session: u64) -> Waiting {
        let job = Job::User(Box::new(|| -> JobDone { unreachable!("only ordered here") }));
        Waiting { session: SessionId(session), call: CallId(0), is_login: true, job }
    }

    fn from(address: [u8; 4], user: Option<&str>) -> (IpAddr, Option<Name>) {
        (IpAddr::from(address), user.map(|user| Name::new(user).unwrap()))
    }

    fn order(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.next()).map(|waiting| waiting.session.0).collect()
    }

    #[test]
    fn an_honest_login_waits_for_one_of_each_that_flood_not_for_all() {
        let mut queue = Queue::default();
        for session in 0..1000 {
            assert!(queue.login(from([10, 0, 0, 1], None), waiting(session)).is_none());
            assert!(queue.login(from([10, 0, 0, 2], Some("ann")), waiting(1000 + session)).is_none());
        }
        queue.login(from([10, 0, 0, 3], Some("ann")), waiting(5000));
        queue.login(from([10, 0, 0, 1], Some("bob")), waiting(6000));
        queue.add(Waiting { is_login: false, ..waiting(7000) });
        let order = order(&mut queue);
        let place = |session| order.iter().position(|at| *at == session).unwrap();
        assert!(place(5000) < 4 && place(7000) < 5, "{:?}", &order[..8]);
        assert!(place(6000) < 9, "behind the same address users take turns, too: {:?}", &order[..12]);
        assert_eq!(order.len(), 2003);
        let of_one = order.iter().filter(|session| **session < 1000).copied().collect::<Vec<_>>();
        assert!(of_one.is_sorted(), "in one lane they keep their order");
    }

    #[test]
    fn when_all_room_is_taken_the_flood_is_refused() {
        let mut queue = Queue::default();
        for session in 0..WAITING_MAX as u64 {
            assert!(queue.login(from([10, 0, 0, 1], None), waiting(session)).is_none());
        }
        let out = queue.login(from([10, 0, 0, 2], Some("ann")), waiting(9000)).unwrap();
        assert_eq!(out.session.0, WAITING_MAX as u64 - 1, "the latest of the flood");
        assert_eq!(queue.next().map(|waiting| waiting.session.0), Some(0));
        assert_eq!(queue.next().map(|waiting| waiting.session.0), Some(9000));
        assert!(queue.login(from([10, 0, 0, 1], None), waiting(1)).is_none(), "there is room again");
    }

    #[test]
    fn what_a_lost_session_waited_for_is_forgotten_but_not_what_it_set() {
        let mut queue = Queue::default();
        queue.login(from([10, 0, 0, 1], None), waiting(1));
        queue.login(from([10, 0, 0, 1], None), waiting(2));
        queue.add(Waiting { is_login: false, ..waiting(1) });
        queue.forget(SessionId(1));
        assert_eq!(queue.logins, 1);
        let mut left = order(&mut queue);
        left.sort_unstable();
        assert_eq!((left, queue.addresses.turns.len(), queue.logins), (vec![1, 2], 0, 0));
    }

    #[test]
    fn neighbours_share_a_lane() {
        let same = |one: &str, other: &str| neighbours(one.parse().unwrap()) == neighbours(other.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1") && !same("10.0.0.1", "10.0.0.2"));
    }
}
