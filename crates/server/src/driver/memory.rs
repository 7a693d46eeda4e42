//! The memory budget of everything that is on its way: what was received and not consumed, what sessions put together,
//! what waits to be sent, what reading keeps. Beyond half of it those who hold much are not read any more; their peers
//! feel it as a slow network. Who then neither sends nor reads for a while is let go, the longest idle first.
//!
//! It decides; the driver acts. It allocates nothing and knows no socket.

use std::time::Duration;

use model::Mono;

/// A connection that holds no more than this is always read: good clients ask for little at once.
pub const SMALL_BYTES: usize = 256 << 10;

/// Of what is left of the budget, one connection may hold this part; what it holds may double before it is asked again.
const SHARE: usize = 16;

/// What one answer may take of what is left.
const ANSWER_SHARE: usize = 16;

/// No answer need be larger than this.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Nor is it made smaller than this.
const ANSWER_BYTES_MIN: usize = 64 << 10;

/// So long may a connection stand still and hold much while memory is tight.
const STANDSTILL: Duration = Duration::from_secs(8);

/// How often it is looked for those that stand still.
const LOOK: Duration = Duration::from_secs(1);

/// What is held, and what may be.
#[derive(Debug)]
pub struct Memory {
    budget: usize,
    /// What connections hold together.
    connections: usize,
    /// What the core holds.
    core: usize,
    look_at: Option<Mono>,
    /// More than nine tenths were used, and not less than three quarters since.
    low: bool,
}

impl Memory {
    /// Nothing is held yet.
    pub fn new(budget: usize) -> Memory {
        Memory { budget, connections: 0, core: 0, look_at: None, low: false }
    }

    /// A connection that held `before` holds `now`.
    pub fn changed(&mut self, before: usize, now: usize) {
        self.connections = (self.connections + now).saturating_sub(before);
    }

    /// What the core holds now.
    pub fn core_holds(&mut self, bytes: usize) {
        self.core = bytes;
    }

    /// All that is held.
    pub fn used(&self) -> usize {
        self.connections + self.core
    }

    /// What may be held.
    pub fn budget(&self) -> usize {
        self.budget
    }

    fn left(&self) -> usize {
        self.budget.saturating_sub(self.used())
    }

    /// Whether more than half of the budget is used.
    pub fn is_tight(&self) -> bool {
        self.used() > self.budget / 2
    }

    /// Whether who publishes should wait: from nine tenths of the budget on, until a quarter of it is free again.
    pub fn is_low(&mut self) -> bool {
        let (used, tenth) = (self.used(), self.budget / 10);
        self.low = used > tenth * 9 || (self.low && used > self.budget / 4 * 3);
        self.low
    }

    /// Whether more may be read from a connection that holds `own`.
    pub fn may_read(&self, own: usize) -> bool {
        !self.is_tight() || own <= SMALL_BYTES.min(self.budget / 64) || own <= self.left() / SHARE
    }

    /// How large one answer may be.
    pub fn room(&self) -> usize {
        (self.left() / ANSWER_SHARE).clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX)
    }

    /// When it must be looked for those that stand still, if memory is tight.
    pub fn look_at(&mut self, now: Mono) -> Option<Mono> {
        if !self.is_tight() {
            self.look_at = None;
        } else if self.look_at.is_none() {
            self.look_at = Some(now.plus(LOOK));
        }
        self.look_at
    }

    /// Whether it is time to look; the next time is set.
    pub fn must_look(&mut self, now: Mono) -> bool {
        let due = self.look_at(now).is_some_and(|at| at <= now);
        if due {
            self.look_at = Some(now.plus(LOOK));
        }
        due
    }

    /// Whether a connection that holds `own` and last moved at `moved` is to be let go.
    pub fn stands_still(&self, own: usize, moved: Mono, now: Mono) -> bool {
        own > SMALL_BYTES.min(self.budget / 64) && now.since(moved) >= STANDSTILL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn at(seconds: u64) -> Mono {
        Mono::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn the_large_wait_first_and_the_small_never() {
        let mut memory = Memory::new(64 * MIB);
        memory.changed(0, 20 * MIB);
        assert!(memory.may_read(20 * MIB), "there is enough for all");
        memory.changed(0, 20 * MIB);
        assert!(memory.is_tight() && memory.may_read(MIB) && !memory.may_read(2 * MIB));
        memory.changed(0, 30 * MIB);
        assert!(memory.may_read(SMALL_BYTES) && !memory.may_read(SMALL_BYTES + 1));
        memory.changed(70 * MIB, 0);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn the_alarm_stays_until_a_quarter_is_free() {
        let mut memory = Memory::new(100 * MIB);
        memory.changed(0, 90 * MIB);
        assert!(!memory.is_low());
        memory.changed(0, 2 * MIB);
        assert!(memory.is_low());
        memory.changed(16 * MIB, 0);
        assert!(memory.is_low());
        memory.changed(MIB, 0);
        assert!(!memory.is_low());
    }

    #[test]
    fn answers_shrink_with_what_is_left() {
        let mut memory = Memory::new(64 * MIB);
        assert_eq!(memory.room(), 4 * MIB);
        memory.changed(0, 48 * MIB);
        assert_eq!(memory.room(), MIB);
        memory.core_holds(40 * MIB);
        assert_eq!(memory.room(), ANSWER_BYTES_MIN);
    }

    #[test]
    fn who_stands_still_is_looked_for_only_while_memory_is_tight() {
        let mut memory = Memory::new(64 * MIB);
        assert!(!memory.must_look(at(0)) && !memory.must_look(at(100)));
        memory.changed(0, 40 * MIB);
        assert!(!memory.must_look(at(100)), "not at once");
        assert!(memory.must_look(at(101)) && !memory.must_look(at(101)));
        assert!(memory.stands_still(MIB, at(93), at(101)) && !memory.stands_still(MIB, at(94), at(101)));
        assert!(!memory.stands_still(1000, at(0), at(101)), "closing it would free nothing");
    }
}
