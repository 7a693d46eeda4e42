//! A small seeded generator (SplitMix64), so that a run is told by its seed alone.

/// The generator's state.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % (bound.max(1) as u64)) as usize
    }

    /// True once in `times` on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
