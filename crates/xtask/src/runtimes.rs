//! The languages that the judges need, found on the machine or named with the way to install them.

use crate::shell::ask;

/// Something that must be installed before a suite can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runtime {
    /// A Java development kit, 17 or later, and Maven.
    Java,
    /// Go, 1.21 or later: from then on it fetches the version that a module asks for.
    Go,
    /// Node, 20 or later, with npm.
    Node,
    /// Python, 3.11 or later, with venv.
    Python,
    /// The command-line client kcat.
    Kcat,
}

impl Runtime {
    /// Looks for it.
    ///
    /// # Errors
    /// What is missing and how to install it.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Runtime::Java => {
                at_least("javac", &["-version"], "javac ", 17, "Java 17: apt-get install openjdk-17-jdk-headless")?;
                present("mvn", &["-version"], "Maven: apt-get install maven")
            }
            Runtime::Go => at_least("go", &["version"], "go1.", 21, "Go 1.21: see https://go.dev/doc/install"),
            Runtime::Node => {
                at_least("node", &["--version"], "v", 20, "Node 20: see https://nodejs.org/en/download")?;
                present("npm", &["--version"], "npm: it comes with Node")
            }
            Runtime::Python => {
                let how = "Python 3.11 with venv: apt-get install python3 python3-venv";
                at_least("python3", &["--version"], "Python 3.", 11, how)?;
                present("python3", &["-c", "import venv, ensurepip"], how)
            }
            Runtime::Kcat => present("kcat", &["-V"], "kcat: apt-get install kcat"),
        }
    }
}

fn present(program: &str, args: &[&str], how: &str) -> Result<(), String> {
    ask(program, args).map(drop).ok_or_else(|| format!("`{program}` is missing; install {how}"))
}

fn at_least(program: &str, args: &[&str], before: &str, wanted: u32, how: &str) -> Result<(), String> {
    let said = ask(program, args).ok_or_else(|| format!("`{program}` is missing; install {how}"))?;
    match number_after(&said, before) {
        Some(found) if found >= wanted => Ok(()),
        _ => Err(format!("`{program}` is too old ({}); install {how}", said.trim())),
    }
}

fn number_after(text: &str, before: &str) -> Option<u32> {
    let rest = &text[text.find(before)? + before.len()..];
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_say() {
        assert_eq!(number_after("javac 17.0.15\n", "javac "), Some(17));
        assert_eq!(number_after("go version go1.26.8 linux/amd64", "go1."), Some(26));
        assert_eq!(number_after("v20.20.2", "v"), Some(20));
        assert_eq!(number_after("Python 3.11.7", "Python 3."), Some(11));
        assert_eq!(number_after("nothing", "v"), None);
    }
}
