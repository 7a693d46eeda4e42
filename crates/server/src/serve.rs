//! `fourfold serve`: opens the data, the doors and the ready file, runs the driver until a signal, ends cleanly.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::{Broker, BrokerError, Tongue};
use console::counters::Counters;
use console::machine::Listening;
use model::Formats;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::driver::listeners::{self, BindError, DoorPlan, Listen, Listener};
use crate::driver::{Driver, Parts, Stop};
use crate::look::look;
use crate::tls::{Keeper, TlsError};
use crate::{machine, tongues};

/// The user that is there from the start; it may only log in from this machine.
const DEFAULT_USER: &str = "guest";

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data folder cannot be used.
    #[error("cannot use the data folder {}: {why}. Choose another with --data DIR", data.display())]
    Data {
        /// The folder.
        data: PathBuf,
        /// What the core says.
        why: BrokerError,
    },
    /// A door stays shut.
    #[error(transparent)]
    Door(#[from] BindError),
    /// A door would be open to everybody.
    #[error(
        "the {door} door would listen at {listen}, beyond this machine, where nobody has to log in: no user but the \
         default one exists. Start the server on localhost, add one with 'fourfold user add NAME --tags administrator' \
         and start again; or give --insecure if everybody who reaches that address may do everything"
    )]
    Exposed {
        /// The door.
        door: &'static str,
        /// Where it would have listened.
        listen: Listen,
    },
    /// TLS doors cannot do what they are for.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No tongue brings the codec of the offsets topic.
    #[error("no tongue of this program keeps committed offsets")]
    NoLedger,
    /// The operating system refuses something else.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: String,
        /// Its word.
        why: io::Error,
    },
}

/// The largest batch that a topic takes unless it is set otherwise (`max.message.bytes`).
const TOPIC_BATCH_BYTES: u64 = 1_048_588;

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
    let what = what.into();
    move |why| ServeError::System { what, why }
}

/// Runs a server until SIGTERM or SIGINT.
///
/// # Errors
/// [`ServeError`], with a text for whoever started it.
pub fn serve(settings: &Settings) -> Result<(), ServeError> {
    log_to_stderr(&settings.log);
    raise_descriptors();
    if let Some(file) = &settings.ready_file {
        let _ = std::fs::remove_file(file); // one from the last start would say too early that we are ready
    }
    let clock = SystemClock::default();
    let plans = plans(settings);
    let counters = Arc::new(Counters::new(plans.iter().map(|plan| plan.name)));
    let tongues = tongues::all(settings, &counters);
    let tls = open_tls(settings, &plans, &counters)?;
    warn_of_small_journal(settings);
    let broker = open(settings, &tongues, &clock)?;
    check_exposure(settings, &plans, &broker)?;
    warn_of_unknown_user(settings, &broker);
    let listeners = listeners::open(&plans)?;
    let addresses: Vec<(usize, SocketAddr)> = listeners.iter().map(|one| (one.door, one.address)).collect();
    announce(settings, &tongues, &plans, &listeners).map_err(system("writing to standard output"))?;
    let memory_budget = usize::try_from(budget(settings)).unwrap_or(usize::MAX);
    let parts =
        Parts { broker, tongues, plans, listeners, clock: Box::new(clock), counters, memory_budget, tls: tls.clone() };
    let names: Vec<&'static str> = parts.plans.iter().map(|plan| plan.name).collect();
    tell_surroundings(settings, &parts.counters, &names, &addresses);
    let mut driver = Driver::new(parts).map_err(system("starting the driver"))?;
    heed_signals(driver.stopper(), tls).map_err(system("watching for signals"))?;
    if let Some(file) = &settings.ready_file {
        write_ready_file(file, &names, &addresses).map_err(system(format!("writing {}", file.display())))?;
    }
    driver.run().map_err(system("waiting for sockets"))?;
    tracing::info!("stopped");
    Ok(())
}

/// Tells the console where the server listens and how to look at the machine.
fn tell_surroundings(
    settings: &Settings,
    counters: &Counters,
    names: &[&'static str],
    addresses: &[(usize, SocketAddr)],
) {
    let place = |(at, address): &(usize, SocketAddr)| names.get(*at).map(|door| Listening { door, address: *address });
    let listening = addresses.iter().filter_map(place).collect();
    let folder = std::path::absolute(&settings.data).unwrap_or_else(|_| settings.data.clone());
    let (data, reserve) = (folder.display().to_string(), settings.storage.reserve_bytes);
    counters.surroundings.tell(listening, data, Box::new(move || look(&folder, reserve)));
}

fn log_to_stderr(filter: &str) {
    let filter = filter.parse().unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    let _ = log.try_init(); // a second server in one process (tests) logs where the first does
}

/// A connection costs a descriptor: take as many as we are allowed.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit); // then with what there is
}

/// All doors that are not off.
fn plans(settings: &Settings) -> Vec<DoorPlan> {
    let tongues = tongues::all(settings, &Arc::default());
    let doors =
        tongues.iter().enumerate().flat_map(|(at, tongue)| tongue.doors().into_iter().map(move |door| (at, door)));
    doors
        .map(|(tongue, door)| {
            let usual = if door.tls { Listen::Off } else { Listen::Localhost(door.port) };
            let listen = settings.doors.get(door.name).cloned().unwrap_or(usual);
            DoorPlan { name: door.name, tongue, listen, tls: door.tls }
        })
        .filter(|plan| plan.listen != Listen::Off)
        .collect()
}

/// What the doors that speak TLS use, if there are any; checked before anything is opened.
fn open_tls(
    settings: &Settings,
    plans: &[DoorPlan],
    counters: &Arc<Counters>,
) -> Result<Option<Arc<Keeper>>, ServeError> {
    let has_door = plans.iter().any(|plan| plan.tls);
    let is_set = settings.tls.cert.is_some() || settings.tls.key.is_some() || settings.tls.client_ca.is_some();
    if !has_door {
        if is_set {
            tracing::warn!(
                "the files of TLS are not used: no door speaks it. One is opened with --amqps 5671, \
                 --kafka-ssl 9093 or --https 15671"
            );
        }
        return Ok(None);
    }
    let keeper = Keeper::open(settings.tls.clone(), Arc::clone(counters))?;
    keeper.watch().map_err(system("watching the files of TLS"))?;
    Ok(Some(keeper))
}

fn budget(settings: &Settings) -> u64 {
    if settings.memory == 0 { machine::default_budget() } else { settings.memory }
}

fn open(settings: &Settings, tongues: &[Box<dyn Tongue>], clock: &SystemClock) -> Result<Broker, ServeError> {
    let mut formats = Formats::default();
    for format in tongues.iter().filter_map(|tongue| tongue.format()) {
        formats.add(format);
    }
    let ledger = tongues.iter().find_map(|tongue| tongue.ledger()).ok_or(ServeError::NoLedger)?;
    let disk = storage::RealDisk::new(&settings.data)
        .map_err(system(format!("making the data folder {}", settings.data.display())))?;
    let exchanges = tongues.iter().flat_map(|tongue| tongue.exchanges()).collect();
    let (mut storage, groups, upkeep) = (settings.storage.clone(), settings.groups.clone(), settings.upkeep.clone());
    let share = usize::try_from(budget(settings) / 8).unwrap_or(usize::MAX);
    storage.tail_cache_bytes = storage.tail_cache_bytes.min(share);
    storage.read_ahead_bytes = storage.read_ahead_bytes.min(share);
    let dialect = tongues.iter().find_map(|tongue| tongue.dialect());
    let options = broker::Options { storage, dialect, exchanges, groups, upkeep };
    Broker::open(Arc::new(disk), options, formats, ledger, clock.now())
        .map_err(|why| ServeError::Data { data: settings.data.clone(), why })
}

/// What clients may be allowed to send must fit into a journal file, of which one batch takes half at most.
fn warn_of_small_journal(settings: &Settings) {
    let bytes_max = settings.storage.journal_file_bytes / 2;
    let largest = settings.amqp.message_bytes_max.max(TOPIC_BATCH_BYTES);
    if largest >= bytes_max {
        let (journal, needed) = (settings.storage.journal_file_bytes, (largest + (1 << 20)) * 2);
        tracing::warn!(
            "storage.journal_file_bytes = {journal} takes batches and messages of at most {bytes_max} bytes: larger \
             ones are refused, though amqp.message_bytes_max and topics' max.message.bytes allow {largest}; to take \
             those, set it to {needed}"
        );
    }
}

/// Permissions of a user that is not there are none: every Kafka client would be refused everything.
fn warn_of_unknown_user(settings: &Settings, broker: &Broker) {
    if let Some(user) = &settings.kafka.user
        && broker.user(user).is_none()
    {
        tracing::warn!(
            "kafka.user is '{user}', and there is no such user: Kafka clients are refused all they ask for until \
             'fourfold user add {user}' and 'fourfold permission put {user}' have made one"
        );
    }
}

/// Without users nobody has to log in: then only this machine may come in, unless that is wanted.
fn check_exposure(settings: &Settings, plans: &[DoorPlan], broker: &Broker) -> Result<(), ServeError> {
    if settings.insecure || broker.users().iter().any(|(name, _)| name.as_str() != DEFAULT_USER) {
        return Ok(());
    }
    match plans.iter().find(|plan| !plan.listen.is_loopback()) {
        Some(plan) => Err(ServeError::Exposed { door: plan.name, listen: plan.listen.clone() }),
        None => Ok(()),
    }
}

/// Says on standard output where everything is and how to try it.
fn announce(
    settings: &Settings,
    tongues: &[Box<dyn Tongue>],
    plans: &[DoorPlan],
    listeners: &[Listener],
) -> io::Result<()> {
    let data = std::path::absolute(&settings.data).unwrap_or_else(|_| settings.data.clone());
    let mut text = format!("Fourfold {}, data in {}\n", env!("CARGO_PKG_VERSION"), data.display());
    for (at, plan) in plans.iter().enumerate() {
        let mut places = listeners.iter().filter(|one| one.door == at).map(|one| one.address);
        let Some(first) = places.next() else { continue };
        let others: String = places.map(|address| format!(", {address}")).collect();
        text.push_str(&format!("  {:<9} listens at {first}{others}\n", plan.name));
        let door = tongues.get(plan.tongue).and_then(|tongue| tongue.doors().into_iter().find(|d| d.name == plan.name));
        let Some(try_it) = door.map(|door| door.try_it).filter(|line| !line.is_empty()) else { continue };
        let line = try_it
            .replace("{addr}", &first.to_string())
            .replace("{host}", &first.ip().to_string())
            .replace("{port}", &first.port().to_string());
        text.push_str(&format!("  {:<9} {line}\n", ""));
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn write_ready_file(file: &Path, names: &[&str], addresses: &[(usize, SocketAddr)]) -> io::Result<()> {
    let mut doors = serde_json::Map::new();
    for (at, name) in names.iter().enumerate() {
        if let Some((_, address)) = addresses.iter().find(|(door, _)| *door == at) {
            doors.insert((*name).to_owned(), address.to_string().into());
        }
    }
    let object = serde_json::json!({ "pid": std::process::id(), "doors": doors });
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(".tmp");
    std::fs::write(&temporary, format!("{object}\n"))?;
    std::fs::rename(&temporary, file)
}

/// The first signal to end does so cleanly, a second one at once; SIGHUP reads the TLS files again.
fn heed_signals(stop: Stop, tls: Option<Arc<Keeper>>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            match (signal, &tls) {
                (SIGHUP, Some(keeper)) => keeper.reload(),
                (SIGHUP, None) => tracing::info!("SIGHUP: there is nothing to read again, no door speaks TLS"),
                _ if is_stopping => std::process::exit(128 + signal),
                _ => {
                    is_stopping = true;
                    stop.stop();
                }
            }
        }
    })?;
    Ok(())
}
