//! Which partition a keyed message goes to: the rule that producers of the log tongue follow, so that a key written
//! through an exchange lands beside the same key written by them.

/// MurmurHash2, 32 bits, with the seed that Kafka's clients use.
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut value = u32::from_le_bytes(*word).wrapping_mul(MIX);
        value ^= value >> 24;
        hash = hash.wrapping_mul(MIX) ^ value.wrapping_mul(MIX);
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

/// The partition of `key` among `count` (≥ 1).
pub(crate) fn partition_of(key: &[u8], count: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_where_the_log_tongues_own_producers_put_it() {
        let keys: [&[u8]; 3] = [b"order-1", b"order-2", b"abc"];
        assert_eq!(keys.map(|key| partition_of(key, 10)), [6, 3, 7]);
        // Known answers of the hash itself (Kafka's UtilsTest).
        assert_eq!(murmur2(b"21") as i32, -973_932_308);
        assert_eq!(murmur2(b"foobar") as i32, -790_332_482);
        assert_eq!(murmur2(b"a-little-bit-long-string") as i32, -985_981_536);
    }
}
