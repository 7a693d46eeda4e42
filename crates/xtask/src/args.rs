//! The few arguments of the chores: `--name value` pairs and bare flags.

/// What stood on the command line, with unknown words refused.
pub(crate) struct Args {
    pairs: Vec<(String, String)>,
    flags: Vec<String>,
}

impl Args {
    /// Takes `words` apart: `valued` options carry a value, `bare` ones do not.
    pub(crate) fn parse(words: &[String], valued: &[&str], bare: &[&str]) -> Result<Args, String> {
        let mut args = Args { pairs: Vec::new(), flags: Vec::new() };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if bare.contains(&word.as_str()) {
                args.flags.push(word.clone());
            } else if valued.contains(&word.as_str()) {
                let value = rest.next().ok_or(format!("{word} needs a value"))?;
                args.pairs.push((word.clone(), value.clone()));
            } else {
                return Err(format!("unknown argument '{word}': known are {}", [valued, bare].concat().join(", ")));
            }
        }
        Ok(args)
    }

    /// Every value given to the option `name`.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Whether the flag `name` was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    /// The option `name` as a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.all(name).last().map(|text| text.parse().map_err(|_| format!("{name} {text}: not a number"))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_refused() {
        let words = ["--times".to_owned(), "7".to_owned(), "--list".to_owned()];
        let args = Args::parse(&words, &["--times"], &["--list"]).unwrap();
        assert_eq!(args.number("--times"), Ok(Some(7)));
        assert!(args.has("--list"));
        assert!(Args::parse(&words, &["--times"], &[]).is_err());
    }
}
