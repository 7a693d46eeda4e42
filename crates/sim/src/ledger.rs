//! What clients have seen with their own eyes, and whether what the server says later agrees.

use std::collections::BTreeMap;

/// How a life of the server ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The power failed: what was not synced may be gone, so a settled message may come back.
    Power,
    /// The process was killed: everything written is there.
    Kill,
}

/// One place of order: a partition or a queue. Its messages are numbered by the one writer.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Numbers sent so far: 0 .. `sent`.
    pub sent: u64,
    /// Acknowledged numbers, with the offset the answer named (if it names one).
    acknowledged: BTreeMap<u64, Option<u64>>,
    /// Numbers whose consumer has acked them.
    settled: BTreeMap<u64, ()>,
}

impl Ledger {
    /// The next message's text; it tells its place of order and number.
    pub fn write(&mut self, place: &str) -> String {
        self.sent += 1;
        format!("{place}/{}", self.sent - 1)
    }

    /// The server acknowledged `number`.
    pub fn acknowledge(&mut self, number: u64, offset: Option<u64>) {
        self.acknowledged.insert(number, offset);
    }

    /// The consumer acked `number`: it need not come again (after a power cut it may).
    pub fn settle(&mut self, number: u64) {
        self.settled.insert(number, ());
    }

    /// How many are acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Compares what was read back, in order, with what was promised.
    ///
    /// # Errors
    /// A sentence that says what was lost, reordered, doubled or invented, or which settled one came back though
    /// `end` allows no such thing.
    pub fn check(&self, place: &str, read: &[(String, Option<u64>)], end: End) -> Result<(), String> {
        let mut last = None;
        let mut found = BTreeMap::new();
        for (text, offset) in read {
            let number = text.strip_prefix(place).and_then(|rest| rest.strip_prefix('/')?.parse::<u64>().ok());
            let Some(number) = number.filter(|&number| number < self.sent) else {
                return Err(format!("{place}: '{text}' was never sent"));
            };
            if last.is_some_and(|last| number <= last) {
                return Err(format!("{place}: {number} comes after {last:?}: reordered or doubled"));
            }
            last = Some(number);
            if end == End::Kill && self.settled.contains_key(&number) {
                return Err(format!("{place}: settled {number} came back"));
            }
            found.insert(number, *offset);
        }
        for (number, promised) in &self.acknowledged {
            match found.get(number) {
                None if self.settled.contains_key(number) => {}
                None => return Err(format!("{place}: acknowledged {number} is lost")),
                Some(offset) if promised.is_some() && offset != promised => {
                    return Err(format!("{place}: {number} lies at {offset:?}, the answer said {promised:?}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The number at the end of a message's text.
#[must_use]
pub fn number_of(text: &str) -> Option<u64> {
    text.rsplit('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_reordered_doubled_and_invented_are_told_apart() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.write("p");
        }
        ledger.acknowledge(1, Some(1));
        let read = |texts: &[(&str, u64)]| -> Vec<(String, Option<u64>)> {
            texts.iter().map(|(text, offset)| ((*text).to_owned(), Some(*offset))).collect()
        };
        let check = |texts: &[(&str, u64)]| ledger.check("p", &read(texts), End::Power);
        assert_eq!(check(&[("p/0", 0), ("p/1", 1)]), Ok(()));
        assert!(check(&[("p/0", 0)]).is_err_and(|why| why.contains("lost")));
        assert!(check(&[("p/1", 1), ("p/0", 0)]).is_err_and(|why| why.contains("reordered")));
        assert!(check(&[("p/1", 1), ("p/1", 2)]).is_err_and(|why| why.contains("doubled")));
        assert!(check(&[("p/1", 1), ("p/3", 2)]).is_err_and(|why| why.contains("never sent")));
        assert!(check(&[("p/1", 2)]).is_err_and(|why| why.contains("the answer said")));
    }
}
