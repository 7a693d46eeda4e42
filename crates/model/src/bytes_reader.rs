//! A bounded reader over borrowed bytes. Whatever a sender claims, it never reads past what is there and never
//! allocates: counts and lengths are checked against the bytes that remain.

/// Why bytes could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Fewer bytes remain than the field needs.
    #[error("{wanted} bytes wanted, {left} left")]
    Short {
        /// Bytes the field needs.
        wanted: usize,
        /// Bytes that remain.
        left: usize,
    },
    /// A variable-length number of more than 5 (32-bit) or 10 (64-bit) bytes.
    #[error("a variable-length number does not end")]
    Varint,
    /// A length or count below what its field allows.
    #[error("a length of {0} is out of range")]
    Length(i64),
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
}

/// Reads big-endian fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// [`ReadError::Short`] when too few bytes remain.
        pub fn $name(&mut self) -> Result<$type, ReadError> {
            self.array().map(<$type>::from_be_bytes)
        }
    )*};
}

impl<'a> ByteReader<'a> {
    /// A reader of all of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { rest: bytes }
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The bytes not read yet, without reading them.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`] when too few bytes remain.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else {
            return Err(ReadError::Short { wanted: count, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(ReadError::Short { wanted: N, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*head)
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

    /// Sixteen bytes as they are.
    ///
    /// # Errors
    /// [`ReadError::Short`] when too few bytes remain.
    pub fn id(&mut self) -> Result<[u8; 16], ReadError> {
        self.array()
    }

    /// An unsigned variable-length number of at most 32 bits, low groups of 7 bits first.
    ///
    /// # Errors
    /// [`ReadError::Varint`] when it does not end within 5 bytes, [`ReadError::Short`] when the bytes end first.
    pub fn uvarint(&mut self) -> Result<u32, ReadError> {
        let value = self.varint_bits(5)?;
        u32::try_from(value).map_err(|_| ReadError::Varint)
    }

    /// A signed (zigzag) variable-length number of at most 32 bits.
    ///
    /// # Errors
    /// As [`ByteReader::uvarint`].
    pub fn varint(&mut self) -> Result<i32, ReadError> {
        let raw = self.uvarint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A signed (zigzag) variable-length number of at most 64 bits.
    ///
    /// # Errors
    /// As [`ByteReader::uvarint`], within 10 bytes.
    pub fn varlong(&mut self) -> Result<i64, ReadError> {
        let raw = self.varint_bits(10)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn varint_bits(&mut self, bytes_max: usize) -> Result<u64, ReadError> {
        let mut value = 0u64;
        for at in 0..bytes_max {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * at as u32;
            if shift == 63 && bits > 1 {
                return Err(ReadError::Varint);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ReadError::Varint)
    }

    /// `count` bytes as text.
    ///
    /// # Errors
    /// [`ReadError::Short`] or [`ReadError::Utf8`].
    pub fn text(&mut self, count: usize) -> Result<&'a str, ReadError> {
        std::str::from_utf8(self.take(count)?).map_err(|_| ReadError::Utf8)
    }

    /// Checks a count of elements that a sender announced: each takes at least `element_bytes_min` (≥ 1) bytes, so
    /// more than the remaining bytes can hold is a lie. The answer is safe to reserve memory by.
    ///
    /// # Errors
    /// [`ReadError::Length`] when negative, [`ReadError::Short`] when the bytes cannot hold it.
    pub fn count(&self, claimed: i64, element_bytes_min: usize) -> Result<usize, ReadError> {
        let count = usize::try_from(claimed).map_err(|_| ReadError::Length(claimed))?;
        let wanted = count.saturating_mul(element_bytes_min.max(1));
        if wanted > self.rest.len() {
            return Err(ReadError::Short { wanted, left: self.rest.len() });
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_big_endian_and_bounded() {
        let mut reader = ByteReader::new(&[0, 1, 0xff, 0xff, 0xff, 0xfe, 7]);
        assert_eq!(reader.u16(), Ok(1));
        assert_eq!(reader.i32(), Ok(-2));
        assert_eq!(reader.u16(), Err(ReadError::Short { wanted: 2, left: 1 }));
        assert_eq!(reader.u8(), Ok(7), "a failed read consumes nothing");
    }

    #[test]
    fn varints_follow_zigzag_and_end() {
        assert_eq!(ByteReader::new(&[0x01]).varint(), Ok(-1));
        assert_eq!(ByteReader::new(&[0x80, 0x01]).varint(), Ok(64));
        assert_eq!(ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(), Ok(i32::MIN));
        assert_eq!(ByteReader::new(&[0xff; 10]).varlong(), Err(ReadError::Varint));
        assert_eq!(ByteReader::new(&[0xff; 6]).uvarint(), Err(ReadError::Varint));
        let mut max = vec![0xff; 9];
        max.push(1);
        assert_eq!(ByteReader::new(&max).varlong(), Ok(i64::MIN));
    }

    #[test]
    fn a_claimed_count_never_exceeds_what_the_bytes_can_hold() {
        let reader = ByteReader::new(&[0; 8]);
        assert_eq!(reader.count(2, 4), Ok(2));
        assert!(reader.count(3, 4).is_err());
        assert!(reader.count(i64::from(i32::MAX), 0).is_err());
        assert_eq!(reader.count(-1, 1), Err(ReadError::Length(-1)));
    }
}
