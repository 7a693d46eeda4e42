//! Big-endian reading and writing for the raw clients, and CRC-32C.

use std::io::ErrorKind;

use crate::Outcome;

const BROKEN: &str = "the connection broke: ";

/// The error of a connection that ended under us, as every one does here; an answer that does not come is another.
pub(crate) fn broken(why: std::io::Error) -> String {
    match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer came in time".to_owned(),
        _ => format!("{BROKEN}{why}"),
    }
}

/// `Ok(None)` when the connection broke; other errors stay: the broker said something it should not.
pub(crate) fn until_broken<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(why) if why.starts_with(BROKEN) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Appends numbers and texts.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }

    /// A text with its length in one byte, as AMQP's short strings.
    pub(crate) fn text8(&mut self, value: &str) -> &mut Self {
        self.u8(value.len() as u8).bytes(value.as_bytes())
    }

    /// A text with its length in two bytes, as Kafka's strings.
    pub(crate) fn text16(&mut self, value: &str) -> &mut Self {
        self.u16(value.len() as u16).bytes(value.as_bytes())
    }

    /// Bytes with their length in four.
    pub(crate) fn bytes32(&mut self, value: &[u8]) -> &mut Self {
        self.u32(value.len() as u32).bytes(value)
    }

    /// A signed number as Kafka's records write it.
    pub(crate) fn varint(&mut self, value: i64) -> &mut Self {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest > 0x7F {
            self.u8(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.u8(rest as u8)
    }
}

/// Takes numbers and texts from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Outcome<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count).ok_or("an answer is shorter than it says")?;
        self.0 = rest;
        Ok(front)
    }

    pub(crate) fn number<const N: usize>(&mut self) -> Outcome<i64> {
        let bytes = self.bytes(N)?;
        let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
        Ok(bytes.iter().fold(if negative { -1 } else { 0 }, |all, byte| (all << 8) | i64::from(*byte)))
    }

    pub(crate) fn i16(&mut self) -> Outcome<i64> {
        self.number::<2>()
    }

    pub(crate) fn i32(&mut self) -> Outcome<i64> {
        self.number::<4>()
    }

    pub(crate) fn i64(&mut self) -> Outcome<i64> {
        self.number::<8>()
    }

    /// A length that must not be negative.
    pub(crate) fn length<const N: usize>(&mut self) -> Outcome<usize> {
        usize::try_from(self.number::<N>()?).map_err(|_| "a length is negative".to_owned())
    }

    pub(crate) fn varint(&mut self) -> Outcome<i64> {
        let mut all = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            all |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok((all >> 1) as i64 ^ -((all & 1) as i64));
            }
        }
        Err("a varint does not end".to_owned())
    }
}

/// CRC-32C, bit by bit: the load is small.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 * (crc & 1));
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut writer = Writer::default();
        for value in [0, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            writer.varint(value);
        }
        writer.i32(-7);
        let mut reader = Reader(&writer.0);
        for value in [0, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            assert_eq!(reader.varint(), Ok(value));
        }
        assert_eq!(reader.i32(), Ok(-7));
        assert!(reader.u8_missing());
    }

    impl Reader<'_> {
        fn u8_missing(&mut self) -> bool {
            self.bytes(1).is_err()
        }
    }

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
