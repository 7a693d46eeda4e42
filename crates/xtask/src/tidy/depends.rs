//! Who may import whom, and that every outside dependency is accounted for in `docs/dependencies.md`.

use std::path::Path;

use super::Findings;

/// A crate, the workspace crates its code may use, and those its tests may use besides.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

/// model ← storage ← cluster ← broker ← tongues ← server; tongues never import each other.
const TABLE: &[Row] = &[
    ("model", &[], &[]),
    ("storage", &["model"], &[]),
    ("cluster", &["model", "storage"], &[]),
    ("broker", &["model", "storage", "cluster"], &[]),
    ("kafka", &["model", "broker"], &["storage", "cluster"]),
    ("amqp", &["model", "broker"], &["storage", "cluster"]),
    ("console", &["model", "broker"], &["storage", "cluster"]),
    ("server", &["model", "storage", "cluster", "broker", "kafka", "amqp", "console"], &[]),
    ("sim", &["model", "storage", "cluster", "broker", "kafka", "amqp", "console"], &[]),
    ("bench", &[], &[]),
    ("xtask", &[], &[]),
];

/// Checks every manifest of the workspace.
pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<(), String> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let docs = read(&root.join("docs/dependencies.md"))?;
    let mut outside = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).map_err(|e| e.to_string())? {
        let folder = entry.map_err(|e| e.to_string())?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = folder.join("Cargo.toml");
        if manifest.is_file() {
            outside.extend(imports(&name, &read(&manifest)?, findings));
        }
    }
    outside.extend(names(&read(&root.join("fuzz/Cargo.toml"))?).into_iter().map(|(_, name)| name));
    for (_, name) in names(&read(&root.join("Cargo.toml"))?) {
        if !outside.contains(&name) && !is_ours(&name) {
            findings.errors.push(format!("Cargo.toml lists {name}, which no crate uses"));
        }
    }
    outside.sort();
    outside.dedup();
    for name in outside.iter().filter(|name| !is_ours(name)) {
        if !docs.contains(&format!("| `{name}` |")) {
            findings.errors.push(format!("docs/dependencies.md has no row for `{name}`"));
        }
    }
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for name in rows.filter(|row| !outside.iter().any(|name| name == row)) {
        findings.errors.push(format!("docs/dependencies.md has a row for `{name}`, which nothing uses"));
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    TABLE.iter().any(|row| row.0 == name)
}

/// Complains of imports that the table does not allow; answers all names imported.
fn imports(of: &str, manifest: &str, findings: &mut Findings) -> Vec<String> {
    let Some((_, code, tests)) = TABLE.iter().find(|row| row.0 == of) else {
        findings.errors.push(format!("crates/{of} is not in the import table of xtask tidy: why is it a crate?"));
        return Vec::new();
    };
    let mut all = Vec::new();
    for (section, name) in names(manifest) {
        let allowed =
            code.contains(&name.as_str()) || (section == "dev-dependencies" && tests.contains(&name.as_str()));
        if is_ours(&name) && name != of && !allowed {
            findings.errors.push(format!("crates/{of} must not import {name} ({section})"));
        }
        all.push(name);
    }
    all
}

/// The dependencies in `manifest`, each with the last word of its section's name.
fn names(manifest: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            head.trim_end_matches(']').rsplit('.').next().unwrap_or("").clone_into(&mut section);
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            found.push((section.clone(), name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(of: &str, manifest: &str) -> Vec<String> {
        let mut findings = Findings::default();
        imports(of, manifest, &mut findings);
        findings.errors
    }

    #[test]
    fn a_tongue_imports_no_other_tongue() {
        assert!(complaints("amqp", "[dependencies]\nbroker.workspace = true\n").is_empty());
        assert!(complaints("amqp", "[dev-dependencies]\nstorage = { path = \"x\" }\n").is_empty());
        assert_eq!(complaints("amqp", "[dependencies]\nstorage.workspace = true\n").len(), 1);
        assert_eq!(complaints("amqp", "[dev-dependencies]\nkafka.workspace = true\n").len(), 1);
        assert_eq!(complaints("storage", "[dependencies]\nbroker.workspace = true\n").len(), 1);
        assert_eq!(complaints("newcomer", "").len(), 1);
    }
}
