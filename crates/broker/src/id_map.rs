//! Maps by ids that we give ourselves: small numbers in order, which nobody can choose to collide. One multiplication
//! spreads them, where the standard hash would cost more than the look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by an id of ours.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes one number.
#[derive(Clone, Copy, Default)]
pub struct IdHasher(u64);

/// 2⁶⁴ divided by the golden ratio: neighbours end far apart, in the high bits too, which the table also uses.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use model::LogId;

    use super::*;

    #[test]
    fn ids_in_order_spread_over_the_table() {
        let build = BuildHasherDefault::<IdHasher>::default();
        let low: HashSet<u64> = (0..1024).map(|id| build.hash_one(LogId(id)) & 1023).collect();
        let high: HashSet<u64> = (0..1024).map(|id| build.hash_one(LogId(id)) >> 57).collect();
        assert!(low.len() > 500 && high.len() == 128, "{} {}", low.len(), high.len());
    }
}
