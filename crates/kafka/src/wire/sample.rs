//! For tests: messages filled with arbitrary values, repeatable by seed.

use broker::Piece;
use bytes::Bytes;

use super::{Blob, Pieces, RawRecords, Text, Uuid};

/// A small generator of numbers (splitmix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A type of which arbitrary values can be made.
pub(crate) trait Sample {
    fn sample(random: &mut Random) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Sample for $type {
            fn sample(random: &mut Random) -> Self {
                random.next() as $type
            }
        }
    )*};
}
numbers! { i8 i16 i32 i64 }

impl Sample for bool {
    fn sample(random: &mut Random) -> Self {
        random.below(2) == 1
    }
}

impl Sample for Uuid {
    fn sample(random: &mut Random) -> Self {
        let (high, low) = (random.next(), random.next());
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }
}

impl Sample for Text<'_> {
    fn sample(random: &mut Random) -> Self {
        // Now and then longer than one byte of compact length can say.
        let length = if random.below(8) == 0 { 200 } else { random.below(12) };
        Text::Owned((0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect())
    }
}

impl Sample for Blob<'_> {
    fn sample(random: &mut Random) -> Self {
        let length = random.below(40);
        Blob::Owned((0..length).map(|_| random.next() as u8).collect())
    }
}

impl Sample for RawRecords<'_> {
    fn sample(random: &mut Random) -> Self {
        const BYTES: &[u8] = b"whatever a producer may have sent";
        RawRecords(&BYTES[..random.below(BYTES.len() as u64) as usize])
    }
}

impl Sample for Pieces {
    fn sample(random: &mut Random) -> Self {
        let pieces = random.below(3);
        let mut piece = || Piece::Bytes(Bytes::from(vec![random.next() as u8; random.below(9000) as usize + 1]));
        Pieces((0..pieces).map(|_| piece()).collect())
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(random: &mut Random) -> Self {
        (random.below(4) > 0).then(|| T::sample(random))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(random: &mut Random) -> Self {
        let count = random.below(4);
        (0..count).map(|_| T::sample(random)).collect()
    }
}
