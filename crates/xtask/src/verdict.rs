//! What the runners of four languages say at their end, as numbers.

/// How many tests did what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Ended well.
    pub(crate) passed: u32,
    /// Failed, or could not be run.
    pub(crate) failed: u32,
    /// Left out by the suite itself.
    pub(crate) skipped: u32,
}

/// Whose words to read.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    /// `=== 3 failed, 10 passed, 1 skipped in 4.2s ===`
    Pytest,
    /// `Tests run: 12, Failures: 1, Errors: 0, Skipped: 2`, the last one.
    Surefire,
    /// `--- PASS: TestName (0.1s)` at the start of a line.
    Go,
    /// `ℹ pass 7` and its neighbours.
    Node,
    /// `test result: ok. 7 passed; 0 failed; 0 ignored`, one line per binary, added up.
    Cargo,
}

impl Reader {
    /// Counts in `said`.
    pub(crate) fn read(self, said: &str) -> Counts {
        match self {
            Reader::Pytest => said.lines().rev().find(|line| line.starts_with('=')).map_or(Counts::default(), pytest),
            Reader::Surefire => surefire(said),
            Reader::Go => Counts {
                passed: starts(said, "--- PASS"),
                failed: starts(said, "--- FAIL"),
                skipped: starts(said, "--- SKIP"),
            },
            Reader::Node => Counts {
                passed: node(said, "pass "),
                failed: node(said, "fail ") + node(said, "cancelled "),
                skipped: node(said, "skipped "),
            },
            Reader::Cargo => cargo(said),
        }
    }
}

fn pytest(line: &str) -> Counts {
    let line = line.trim_matches(['=', ' ']);
    let mut counts = Counts::default();
    for part in line.split(" in ").next().unwrap_or(line).split(", ") {
        let mut words = part.split(' ');
        let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.next() {
            Some("passed" | "xpassed") => counts.passed += number,
            Some("failed" | "error" | "errors") => counts.failed += number,
            Some("skipped" | "xfailed") => counts.skipped += number,
            _ => {}
        }
    }
    counts
}

fn surefire(said: &str) -> Counts {
    // Each class is reported in a line with its time; the sum at the end has none and is left out here.
    let mut counts = Counts::default();
    for line in said.lines().filter(|line| line.contains("Tests run:") && line.contains("Time elapsed")) {
        let field = |name: &str| -> u32 {
            let rest = line.split(name).nth(1).unwrap_or("");
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        let failed = field("Failures: ") + field("Errors: ");
        counts.failed += failed;
        counts.skipped += field("Skipped: ");
        counts.passed += field("Tests run: ").saturating_sub(failed + field("Skipped: "));
    }
    counts
}

fn starts(said: &str, with: &str) -> u32 {
    u32::try_from(said.lines().filter(|line| line.starts_with(with)).count()).unwrap_or(u32::MAX)
}

fn node(said: &str, word: &str) -> u32 {
    let line = said.lines().rev().find_map(|line| line.trim_start_matches(['ℹ', '#', ' ']).strip_prefix(word));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

fn cargo(said: &str) -> Counts {
    let mut counts = Counts::default();
    for line in said.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let before = |word: &str| -> u32 {
            let number = line.split(word).next().and_then(|text| text.split(' ').next_back()).unwrap_or("");
            number.parse().unwrap_or(0)
        };
        counts.passed += before(" passed");
        counts.failed += before(" failed");
        counts.skipped += before(" ignored");
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reader: Reader, said: &str, passed: u32, failed: u32, skipped: u32) {
        assert_eq!(reader.read(said), Counts { passed, failed, skipped }, "{said}");
    }

    #[test]
    fn closing_lines_are_counted() {
        check(Reader::Pytest, "==== 2 failed, 9 passed, 1 skipped, 1 error in 4.20s ====\n", 9, 3, 1);
        check(Reader::Pytest, "===== 9 passed in 61.20s (0:01:01) =====\n", 9, 0, 0);
        check(
            Reader::Surefire,
            "[INFO] Tests run: 5, Failures: 1, Errors: 1, Skipped: 0, Time elapsed: 3 s\n",
            3,
            2,
            0,
        );
        check(Reader::Go, "--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n--- FAIL: TestB (1s)\n", 1, 1, 0);
        check(Reader::Node, "✔ a\nℹ tests 3\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\n", 2, 1, 0);
        check(Reader::Cargo, "test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured\n", 7, 0, 2);
    }
}
