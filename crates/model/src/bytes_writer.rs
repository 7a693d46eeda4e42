//! Writes big-endian fields to the end of a byte vector: the mirror of [`crate::ByteReader`].

/// Appends fields to the vector it borrows. Nothing here can fail.
#[derive(Debug)]
pub struct ByteWriter<'a> {
    out: &'a mut Vec<u8>,
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, value: $type) {
            self.out.extend_from_slice(&value.to_be_bytes());
        }
    )*};
}

impl<'a> ByteWriter<'a> {
    /// Appends to `out`, keeping what it holds.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        ByteWriter { out }
    }

    /// How long the vector is now.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    fixed! {
        /// One byte.
        u8: u8;
        /// One signed byte.
        i8: i8;
        /// Two bytes.
        u16: u16;
        /// Two bytes, signed.
        i16: i16;
        /// Four bytes.
        u32: u32;
        /// Four bytes, signed.
        i32: i32;
        /// Eight bytes.
        u64: u64;
        /// Eight bytes, signed.
        i64: i64;
        /// Four bytes as a float.
        f32: f32;
        /// Eight bytes as a float.
        f64: f64;
    }

    /// The bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// An unsigned variable-length number.
    pub fn uvarint(&mut self, value: u32) {
        self.varint_bits(u64::from(value));
    }

    /// A signed (zigzag) variable-length number of 32 bits.
    pub fn varint(&mut self, value: i32) {
        self.varint_bits(u64::from(((value << 1) ^ (value >> 31)) as u32));
    }

    /// A signed (zigzag) variable-length number of 64 bits.
    pub fn varlong(&mut self, value: i64) {
        self.varint_bits(((value << 1) ^ (value >> 63)) as u64);
    }

    fn varint_bits(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// Overwrites four bytes written before at `at`, as for a length known only at the end.
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        if let Some(place) = self.out.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteReader;

    #[test]
    fn what_is_written_is_read_back() {
        for value in [0i64, 1, -1, 63, 64, -64, -65, i64::from(i32::MAX), i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            let mut writer = ByteWriter::new(&mut out);
            writer.varlong(value);
            writer.i64(value);
            let mut reader = ByteReader::new(&out);
            assert_eq!(reader.varlong(), Ok(value));
            assert_eq!(reader.i64(), Ok(value));
            assert_eq!(reader.left(), 0);
        }
    }
}
