//! Values as people write them.

use std::time::Duration;

const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// true or false.
pub fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("'{text}' is not true or false"))
}

/// A whole number within bounds.
pub fn count(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let number: u64 = text.replace('_', "").parse().map_err(|_| format!("'{text}' is not a whole number"))?;
    within(number, text, min, max)
}

/// A size within bounds: `1048576`, `64KiB`, `128MiB`, `1GiB`.
pub fn bytes(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size like 65536, 64KiB, 128MiB or 1GiB");
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let (_, scale) = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = digits.trim().replace('_', "").parse().map_err(|_| wrong())?;
    within(number.checked_mul(*scale).ok_or_else(wrong)?, text, min, max)
}

fn within(number: u64, text: &str, min: u64, max: u64) -> Result<u64, String> {
    if (min..=max).contains(&number) { Ok(number) } else { Err(format!("{text} is not between {min} and {max}")) }
}

/// A size in its shortest exact form.
pub fn bytes_text(bytes: u64) -> String {
    let exact = SIZES.iter().find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
    exact.map_or_else(|| bytes.to_string(), |(unit, scale)| format!("{}{unit}", bytes / scale))
}

const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// A time within bounds: `500ms`, `3s`, `10m`, `1h`, `7d`.
pub fn duration(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time like 500ms, 3s, 10m, 1h or 7d");
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    let time = Duration::from_millis(number.checked_mul(*scale).ok_or_else(wrong)?);
    if (min..=max).contains(&time) {
        return Ok(time);
    }
    Err(format!("{text} is not between {} and {}", duration_text(min), duration_text(max)))
}

/// A time in its shortest exact form.
pub fn duration_text(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let exact = TIMES.iter().find(|(_, scale)| ms >= *scale && ms.is_multiple_of(*scale));
    exact.map_or_else(|| "0ms".to_owned(), |(unit, scale)| format!("{}{unit}", ms / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_they_are_written() {
        for text in ["0", "1", "1KiB", "1500", "128MiB", "1GiB"] {
            assert_eq!(bytes_text(bytes(text, 0, u64::MAX).unwrap()), text);
        }
        for text in ["0ms", "1ms", "3s", "90s", "10m", "1h", "7d"] {
            assert_eq!(duration_text(duration(text, Duration::ZERO, Duration::MAX).unwrap()), text);
        }
        assert!(duration("5", Duration::ZERO, Duration::MAX).is_err());
        assert!(duration("5s", Duration::ZERO, Duration::from_secs(4)).is_err());
        for text in ["", "x", "1KB", "-1", "99999999999GiB", "1 2"] {
            assert!(bytes(text, 0, u64::MAX).is_err(), "{text}");
        }
        assert!(bytes("1", 2, 3).is_err() && count("4", 2, 3).is_err());
    }
}
