//! A Rust file with its comments, and its comments and texts, blanked out; and which of its lines are test code.
//!
//! Not a parser: it knows comments, texts, raw texts, characters and lifetimes, and counts braces.

/// One file's lines in three readings, all with the same numbers.
pub(crate) struct Scanned {
    /// As written.
    pub(crate) lines: Vec<String>,
    /// Without comments.
    pub(crate) said: Vec<String>,
    /// Without comments and without the insides of texts.
    pub(crate) code: Vec<String>,
    /// Whether the line belongs to tests.
    pub(crate) test: Vec<bool>,
}

impl Scanned {
    /// Reads `text`; all of it is test code when `all_tests`.
    pub(crate) fn new(text: &str, all_tests: bool) -> Scanned {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let (said, code) = blank(text);
        let to_lines = |text: String| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        let (said, code) = (to_lines(said), to_lines(code));
        let test = if all_tests { vec![true; lines.len()] } else { test_lines(&code) };
        Scanned { lines, said, code, test }
    }

    /// The line (from 0) on which the block that opens at or after `line` closes; `None` when a `;` comes first.
    pub(crate) fn block_end(&self, line: usize, column: usize) -> Option<usize> {
        let mut depth = 0_i32;
        let mut nested = 0_i32;
        for (at, text) in self.code.iter().enumerate().skip(line) {
            let from = if at == line { column } else { 0 };
            for c in text.chars().skip(from) {
                match c {
                    '(' | '[' => nested += 1,
                    ')' | ']' => nested -= 1,
                    '{' => depth += 1,
                    '}' if depth == 1 => return Some(at),
                    '}' => depth -= 1,
                    ';' if depth == 0 && nested == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    Line,
    /// Block comments nest.
    Block(u32),
    Text,
    /// Closed by a quote and this many hashes.
    Raw(usize),
}

/// `text` without comments, and without comments and texts. Line breaks stay.
fn blank(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let mut said = String::with_capacity(text.len());
    let mut code = String::with_capacity(text.len());
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, count) = step(&chars, at, state);
        for &c in &chars[at..(at + count).min(chars.len())] {
            let in_comment = matches!(state, State::Line | State::Block(_)) || matches!(next, State::Line);
            let in_text = matches!(state, State::Text | State::Raw(_));
            let opens_block = matches!(next, State::Block(_));
            said.push(if c != '\n' && (in_comment || opens_block) { ' ' } else { c });
            code.push(if c != '\n' && (in_comment || opens_block || in_text || count > 1) { ' ' } else { c });
        }
        state = next;
        at += count;
    }
    (said, code)
}

/// What comes after the characters at `at`, and how many of them belong together.
fn step(chars: &[char], at: usize, state: State) -> (State, usize) {
    let c = chars[at];
    let after = chars.get(at + 1).copied().unwrap_or('\0');
    match state {
        State::Code => step_code(chars, at, c, after),
        State::Line if c == '\n' => (State::Code, 1),
        State::Block(depth) if c == '/' && after == '*' => (State::Block(depth + 1), 2),
        State::Block(1) if c == '*' && after == '/' => (State::Code, 2),
        State::Block(depth) if c == '*' && after == '/' => (State::Block(depth - 1), 2),
        State::Text if c == '\\' => (State::Text, 2),
        State::Text if c == '"' => (State::Code, 1),
        State::Raw(hashes) if c == '"' && (1..=hashes).all(|n| chars.get(at + n) == Some(&'#')) => {
            (State::Code, 1 + hashes)
        }
        _ => (state, 1),
    }
}

fn step_code(chars: &[char], at: usize, c: char, after: char) -> (State, usize) {
    let word_before = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match c {
        '/' if after == '/' => (State::Line, 1),
        '/' if after == '*' => (State::Block(1), 2),
        '"' => (State::Text, 1),
        'r' if !word_before || chars[at - 1] == 'b' => {
            let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
            if chars.get(at + 1 + hashes) == Some(&'"') { (State::Raw(hashes), 2 + hashes) } else { (State::Code, 1) }
        }
        // A character, not a lifetime: 'x' or an escape.
        '\'' if after == '\\' => {
            let end = chars[at + 3..].iter().position(|&c| c == '\'').unwrap_or(0);
            (State::Code, end + 4)
        }
        '\'' if chars.get(at + 2) == Some(&'\'') => (State::Code, 3),
        _ => (State::Code, 1),
    }
}

/// Which lines lie in an item marked `#[cfg(test)]` or `#[test]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut test = vec![false; code.len()];
    let mut at = 0;
    while at < code.len() {
        if code[at].trim_start().starts_with("#[cfg(test)]") || code[at].trim_start().starts_with("#[test]") {
            let end = item_end(code, at);
            test[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    test
}

/// The last line of the item that begins at `start`.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0_i32;
    for (at, line) in code.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                ';' if depth == 0 => return at,
                _ => {}
            }
            if c == '}' && depth == 0 {
                return at;
            }
        }
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_told_apart() {
        let text =
            "let a = \"// no\"; // yes\nlet b = '\"'; /* kafka\n */ let c: &'a str = r#\"x\"y\"#; let d = '\\'';\n";
        let scanned = Scanned::new(text, false);
        assert_eq!(scanned.said[0].trim_end(), "let a = \"// no\";");
        assert!(!scanned.code[0].contains("no"));
        assert!(!scanned.said[1].contains("kafka"));
        assert!(scanned.said[2].contains("x\"y") && !scanned.code[2].contains("x\"y"));
        assert!(scanned.code[2].contains("let c: &'a str") && scanned.code[2].contains("let d"));
    }

    #[test]
    fn marked_items_are_tests_and_others_not() {
        let scanned = Scanned::new("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n", false);
        assert_eq!(scanned.test, [false, true, true, true, true, false]);
    }
}
