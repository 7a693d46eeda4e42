//! Values as people write them.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for text in ["0", "1", "1KiB", "1500", "128MiB", "1GiB"] {
            assert_eq!(bytes_text(bytes(text, 0, u64::MAX).unwrap()), text);
        }
        for text in ["", "x", "1KB", "-1", "99999999999GiB", "1 2"] {
            assert!(bytes(text, 0, u64::MAX).is_err(), "{text}");
        }
        assert!(bytes("1", 2, 3).is_err() && count("4", 2, 3).is_err());
    }
}
