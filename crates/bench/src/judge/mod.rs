//! Judges: long trials of one promise on the real binary, with small raw clients of both tongues. What a client
//! believes is only what came over the wire: an acknowledgement is written down the moment it is read.

pub(crate) mod amqp;
pub(crate) mod books;
pub(crate) mod faults;
pub(crate) mod full_disk;
pub(crate) mod kafka;
pub(crate) mod kill;
pub(crate) mod pressure;
pub(crate) mod queues;
pub(crate) mod rounds;
pub(crate) mod server;
pub(crate) mod wire;

/// Chances that can be repeated (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    /// Chances that follow from `seed`.
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound.max(1)
    }
}
