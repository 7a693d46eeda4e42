//! The configuration: one table of options, each with its doc text and its default beside what it sets. The file, the
//! environment, the flags, `--help` and `fourfold config --defaults` all read this table and nothing else.

mod load;
pub(crate) mod options;
pub(crate) mod values;

pub use load::{ConfigError, Sources, load};
pub use options::{defaults_text, table};

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::driver::listeners::Listen;
use crate::tls::TlsSettings;

/// What a server is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where everything is kept.
    pub data: PathBuf,
    /// Written once all doors answer.
    pub ready_file: Option<PathBuf>,
    /// Listen beyond this machine although nobody has to log in.
    pub insecure: bool,
    /// How much is logged.
    pub log: String,
    /// Bytes of memory for what is on its way; 0: a part of what the machine has.
    pub memory: u64,
    /// Where each door listens; one that is not named listens at its usual port on localhost.
    pub doors: BTreeMap<&'static str, Listen>,
    /// Storage's settings.
    pub storage: storage::Options,
    /// Consumer groups' settings.
    pub groups: broker::group::GroupOptions,
    /// Retention and compaction of topics.
    pub upkeep: broker::partition::UpkeepOptions,
    /// What doors that speak TLS use.
    pub tls: TlsSettings,
    /// The Kafka tongue's settings.
    pub kafka: kafka::Settings,
    /// The AMQP tongue's limits.
    pub amqp: amqp::Config,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            data: "./fourfold-data".into(),
            ready_file: None,
            insecure: false,
            log: "info".into(),
            memory: 0,
            doors: BTreeMap::new(),
            storage: storage::Options::default(),
            groups: broker::group::GroupOptions::default(),
            upkeep: broker::partition::UpkeepOptions::default(),
            tls: TlsSettings::default(),
            kafka: kafka::Settings::default(),
            amqp: amqp::Config::default(),
        }
    }
}

/// What an option's value is; only for people to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// true or false.
    Bool,
    /// A whole number.
    Count,
    /// A size: a number, or one with KiB, MiB or GiB.
    Bytes,
    /// A time: a number with ms, s, m, h or d.
    Duration,
    /// A path.
    Path,
    /// Where to listen.
    Address,
    /// Any text.
    Text,
}

impl Kind {
    /// The word that stands for a value.
    #[must_use]
    pub fn placeholder(self) -> &'static str {
        match self {
            Kind::Bool => "BOOL",
            Kind::Count => "COUNT",
            Kind::Bytes => "BYTES",
            Kind::Duration => "TIME",
            Kind::Path => "PATH",
            Kind::Address => "ADDR",
            Kind::Text => "TEXT",
        }
    }
}

type Set = Box<dyn Fn(&mut Settings, &str) -> Result<(), String> + Send + Sync>;

/// One option.
pub struct Opt {
    /// Its key in the file, with its table: `storage.journal_files_max`.
    pub key: String,
    /// Its flag, without the dashes.
    pub flag: String,
    /// What its value is.
    pub kind: Kind,
    /// The value when nobody sets it, as it would be written.
    pub default: String,
    /// What it does.
    pub doc: String,
    set: Set,
}

impl Opt {
    /// Its environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("FOURFOLD_{}", self.flag.replace('-', "_").to_uppercase())
    }

    /// Sets it.
    ///
    /// # Errors
    /// What is wrong with the value, in words.
    pub fn apply(&self, settings: &mut Settings, value: &str) -> Result<(), String> {
        (self.set)(settings, value)
    }
}

impl std::fmt::Debug for Opt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opt").field("key", &self.key).field("default", &self.default).finish_non_exhaustive()
    }
}
