//! Brings the sources together: a flag beats the environment, the environment beats the file, the file beats the
//! default. What is not known is refused, with the nearest name that is.

use std::path::{Path, PathBuf};

use super::{Opt, Settings, table};

/// Where values come from. Handed in, so that tests need not touch the process.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, if one was named.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// Flags by the option's key.
    pub flags: Vec<(String, String)>,
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The operating system's word.
        why: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: {why}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        why: Box<toml::de::Error>,
    },
    /// No option has this key.
    #[error("{}: there is no option '{key}'; the nearest one is '{nearest}'", file.display())]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The key that is not known.
        key: String,
        /// A key that is.
        nearest: String,
    },
    /// A value is not what the option takes.
    #[error("{name}: {why}")]
    Value {
        /// The flag, variable or key.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// Reads all sources.
///
/// # Errors
/// [`ConfigError`], with a text for whoever started the server.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    let table = table();
    let mut settings = Settings::default();
    if let Some(file) = &sources.file {
        apply_file(table, &mut settings, file)?;
    }
    for option in table {
        let variable = option.variable();
        if let Some((_, value)) = sources.environment.iter().find(|(name, _)| *name == variable) {
            apply(option, &mut settings, value, &variable)?;
        }
        // The last flag wins, as everywhere.
        if let Some((_, value)) = sources.flags.iter().rev().find(|(key, _)| *key == option.key) {
            apply(option, &mut settings, value, &format!("--{}", option.flag))?;
        }
    }
    Ok(settings)
}

fn apply(option: &Opt, settings: &mut Settings, value: &str, name: &str) -> Result<(), ConfigError> {
    option.apply(settings, value).map_err(|why| ConfigError::Value { name: name.to_owned(), why })
}

fn apply_file(table: &[Opt], settings: &mut Settings, file: &Path) -> Result<(), ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|why| ConfigError::File { file: file.to_owned(), why })?;
    let parsed: toml::Table =
        text.parse().map_err(|why| ConfigError::Syntax { file: file.to_owned(), why: Box::new(why) })?;
    let mut found = Vec::new();
    flatten("", &parsed, &mut found);
    for (key, value) in found {
        let Some(option) = table.iter().find(|option| option.key == key) else {
            let nearest = nearest(&key, table.iter().map(|option| option.key.as_str()));
            return Err(ConfigError::Unknown { file: file.to_owned(), key, nearest });
        };
        let name = format!("{}: {key}", file.display());
        let Some(value) = value else {
            return Err(ConfigError::Value { name, why: "a single value is expected".to_owned() });
        };
        apply(option, settings, &value, &name)?;
    }
    Ok(())
}

/// All keys with their tables in front; no text for what is neither text, number nor truth.
fn flatten(prefix: &str, table: &toml::Table, found: &mut Vec<(String, Option<String>)>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, found),
            toml::Value::String(text) => found.push((key, Some(text.clone()))),
            toml::Value::Integer(number) => found.push((key, Some(number.to_string()))),
            toml::Value::Boolean(truth) => found.push((key, Some(truth.to_string()))),
            toml::Value::Float(_) | toml::Value::Array(_) | toml::Value::Datetime(_) => found.push((key, None)),
        }
    }
}

/// The known name that takes the fewest changes.
fn nearest<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> String {
    known.min_by_key(|name| distance(asked, name)).unwrap_or_default().to_owned()
}

/// Levenshtein's: letters to add, drop or change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        let mut left = i + 1;
        for (above, cb) in row.iter_mut().skip(1).zip(&b) {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = *above;
            left = change.min(left + 1).min(*above + 1);
            *above = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::defaults_text;

    fn with_file(text: &str, mut sources: Sources) -> Result<Settings, ConfigError> {
        let folder = crate::test_folder("config");
        let file = folder.join("fourfold.toml");
        std::fs::write(&file, text).unwrap();
        sources.file = Some(file);
        load(&sources)
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn a_flag_beats_the_environment_which_beats_the_file() {
        let file = "log = \"warn\"\n[storage]\njournal_files_max = 3\nextents_max = 2000\ndirty_bytes_max = \"2MiB\"\n";
        let sources = Sources {
            file: None,
            environment: pairs(&[("FOURFOLD_LOG", "debug"), ("FOURFOLD_STORAGE_EXTENTS_MAX", "3000")]),
            flags: pairs(&[("log", "error")]),
        };
        let settings = with_file(file, sources).unwrap();
        assert_eq!(settings.log, "error");
        assert_eq!(settings.storage.extents_max, 3000);
        assert_eq!(settings.storage.journal_files_max, 3);
        assert_eq!(settings.storage.dirty_bytes_max, 2 << 20);
        assert_eq!(settings.storage.reserve_bytes, storage::Options::default().reserve_bytes);
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let cases = [
            ("[storage]\njurnal_file_bytes = 5", "storage.journal_file_bytes"),
            ("insecur = true", "insecure"),
            ("[doors]\nhtpp = 1", "doors.http"),
        ];
        for (text, expected) in cases {
            let error = with_file(text, Sources::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("nearest one is '{expected}'")), "{error}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_under_its_own_name() {
        let error = with_file("insecure = \"perhaps\"", Sources::default()).unwrap_err().to_string();
        assert!(error.contains("insecure: 'perhaps' is not true or false"), "{error}");
        let flags = Sources { flags: pairs(&[("doors.http", "here")]), ..Sources::default() };
        assert!(load(&flags).unwrap_err().to_string().starts_with("--http: 'here'"));
        assert!(with_file("log = [1]", Sources::default()).is_err());
    }

    #[test]
    fn the_defaults_are_a_file_that_changes_nothing() {
        let mut text = String::new();
        for line in defaults_text().lines() {
            let option = line.strip_prefix("# ").filter(|rest| {
                rest.split_once(" = ")
                    .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-'))
            });
            text.push_str(option.unwrap_or(line));
            text.push('\n');
        }
        let from_file = with_file(&text, Sources::default()).unwrap();
        let without = load(&Sources::default()).unwrap();
        assert_eq!(format!("{:?}", from_file.storage), format!("{:?}", without.storage));
        assert_eq!((from_file.data, from_file.log), (without.data, without.log));
        assert!(text.contains("\nhttp = \"localhost:15672\""), "{text}");
    }
}
