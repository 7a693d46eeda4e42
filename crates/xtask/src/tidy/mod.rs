//! The rules of the house, checked: who may import whom, which words stay out of the core, and the shape of files.
//!
//! Run by `cargo xtask tidy` and, as a test, by `cargo test`. Each rule is a function from sources to complaints.

mod depends;
mod scan;
mod shape;
mod words;

use std::path::{Path, PathBuf};

use crate::shell::root;
use scan::Scanned;

/// What the rules find.
#[derive(Default)]
pub(crate) struct Findings {
    /// These fail.
    pub(crate) errors: Vec<String>,
    /// These are only said.
    pub(crate) warnings: Vec<String>,
}

/// One Rust file of the workspace.
pub(crate) struct Source {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    /// The crate whose folder it is in.
    pub(crate) of: String,
    /// Its lines, and the same without comments and texts.
    pub(crate) scanned: Scanned,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        let of = path.split('/').nth(1).unwrap_or("").to_owned();
        Source { path: path.to_owned(), of, scanned: Scanned::new(text, is_test_file(path)) }
    }
}

fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs") || name.ends_with("_test.rs")
}

/// Checks the whole tree.
pub(crate) fn run() -> Result<(), String> {
    let findings = check_tree(root())?;
    for line in &findings.warnings {
        println!("warning: {line}");
    }
    for line in &findings.errors {
        println!("error: {line}");
    }
    match findings.errors.len() {
        0 => {
            println!("tidy: {} warnings", findings.warnings.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} errors, {} warnings", findings.warnings.len())),
    }
}

fn check_tree(root: &Path) -> Result<Findings, String> {
    let mut findings = Findings::default();
    depends::check(root, &mut findings)?;
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files)?;
    collect(&root.join("fuzz"), &mut files)?;
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        check_source(&Source::new(&path, &text), &mut findings);
    }
    Ok(findings)
}

fn check_source(source: &Source, findings: &mut Findings) {
    shape::check(source, findings);
    words::check(source, findings);
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.is_dir() {
            let skipped = path.file_name().is_some_and(|name| name == "target" || name == "generated");
            if !skipped {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check_tree(root()).unwrap();
        assert!(findings.errors.is_empty(), "\n{}\n", findings.errors.join("\n"));
    }

    /// Checks a file's text and compares the complaints by their beginnings.
    #[track_caller]
    pub(super) fn check(path: &str, text: &str, wanted: &[&str]) {
        let mut findings = Findings::default();
        check_source(&Source::new(path, text), &mut findings);
        let found = &findings.errors;
        let same = found.len() == wanted.len() && found.iter().zip(wanted).all(|(have, want)| have.contains(want));
        assert!(same, "wanted {wanted:?}, found {found:?}");
    }

    #[test]
    fn each_rule_bites() {
        check("crates/broker/src/a.rs", "//! Head.\nfn f() {}\n", &[]);
        check("crates/broker/src/a.rs", "fn f() {}\n", &["a.rs:1: no //! head"]);
        check("crates/broker/src/a.rs", "//! Of Kafka.\n// kafka\nfn kafka() {}\n", &["a.rs:3: the word 'kafka'"]);
        check("crates/broker/src/a.rs", "//! H\nconst A: &str = \"amqp.x\";\n", &["a.rs:2: the word 'amqp'"]);
        check("crates/kafka/src/a.rs", "//! H\nfn kafka() {}\n", &[]);
        check("crates/kafka/src/a.rs", "//! H\nfn f() { g().unwrap() }\n", &["a.rs:2: unwrap()"]);
        check("crates/kafka/src/a.rs", "//! H\n#[cfg(test)]\nmod tests {\n  fn f() { g().unwrap() }\n}\n", &[]);
        check(
            "crates/kafka/src/a.rs",
            "//! H\nfn f() { g().expect(\"we checked it above\") }\n",
            &["a.rs:2: expect()"],
        );
        check("crates/broker/src/a.rs", "//! H\nfn f() { g().expect(\"we checked it above\") }\n", &[]);
        check("crates/broker/src/a.rs", "//! H\nfn f() { g().expect(\"bad\") }\n", &["a.rs:2: expect()"]);
        check("crates/broker/src/a.rs", "//! H\nfn f() { unsafe { g() } }\n", &["a.rs:2: unsafe"]);
        check("crates/storage/src/disk.rs", "//! H\nfn f() { unsafe { g() } }\n", &[]);
        check("crates/broker/src/a.rs", "//! H\n// TODO: later\n// TODO(#12): later\n", &["a.rs:2: a TODO"]);
        check("crates/broker/src/a.rs", &format!("//! H\nfn f() {{\n{}}}\n", "g();\n".repeat(69)), &["a.rs:2: fn f"]);
        check("crates/broker/src/a.rs", &format!("//! H\n{}", "\n".repeat(1000)), &["a.rs: 1001 lines"]);
        check("crates/broker/src/a.rs", &format!("//! {}\n", "x".repeat(120)), &["a.rs:1: 124 columns"]);
    }
}
