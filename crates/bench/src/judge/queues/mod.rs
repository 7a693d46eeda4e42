//! The queues judge: a real broker whose queues do more than keep messages is killed (SIGKILL) under load again and
//! again. Rejected messages go to dead letters, others by priority, others in transactions to two queues at once. After
//! each restart every confirmed message must be in exactly the place where it belongs, in order.

mod check;
pub(crate) mod load;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::Chance;
use crate::judge::amqp::{Amqp, Argument};
use crate::judge::kill::Args;
use crate::judge::rounds::{Kills, Rounds};
use crate::judge::server::{Launch, Server};

/// Worked on; what is rejected goes to [`DEAD`].
const WORK: &str = "work";
/// Dead letters.
const DEAD: &str = "dead";
/// Has priorities 0 to 3.
const RANKED: &str = "ranked";
/// Each has all that goes through [`BOTH`].
const PAIR: [&str; 2] = ["one", "other"];
/// A fanout exchange, published to in transactions.
const BOTH: &str = "both";

/// What was done until a kill, by the clients' books. Numbers ascend over all kills of a folder.
#[derive(Default)]
struct Books {
    /// The first number that was never sent.
    next: u64,
    confirmed_work: BTreeSet<u64>,
    /// Acknowledged or rejected by the consumer.
    settled: BTreeSet<u64>,
    confirmed_ranked: BTreeSet<u64>,
    /// First number and count of each transaction, and whether its commit was answered.
    transactions: Vec<(u64, u64, bool)>,
}

/// Summed up.
#[derive(Default)]
struct Tally {
    kills: u64,
    confirmed: u64,
    committed: u64,
    letters: u64,
    read_back: u64,
    came_again: u64,
    restart_longest: Duration,
}

impl Kills for Tally {
    fn kills(&self) -> u64 {
        self.kills
    }
}

/// Kills `args.times` times and says what was found.
///
/// # Errors
/// When a confirmed message is missing, twice, elsewhere or out of order, or a transaction is there in part.
pub fn run(args: &Args) -> Outcome<()> {
    Rounds { name: "queues", folder: folder_of_kills, text, page }.run(args)
}

fn folder_of_kills(_: &Args, launch: Launch, kills: u64, chance: &mut Chance, tally: &mut Tally) -> Outcome<()> {
    let mut server = Server::start(launch)?;
    prepare(&server)?;
    let mut next = 0;
    for _ in 0..kills {
        let wait = 5 + chance.below(300);
        let running = load::start(&server, chance, next)?;
        std::thread::sleep(Duration::from_millis(wait));
        server.kill()?;
        tally.kills += 1;
        let books = running.finish()?;
        let down = Instant::now();
        server.restart()?;
        tally.restart_longest = tally.restart_longest.max(down.elapsed());
        check::verify(&server, &books, tally)?;
        next = books.next;
    }
    server.kill()
}

fn prepare(server: &Server) -> Outcome<()> {
    let mut amqp = Amqp::connect(&server.amqp)?;
    let letters = [("x-dead-letter-exchange", Argument::Text("")), ("x-dead-letter-routing-key", Argument::Text(DEAD))];
    amqp.declare_with(WORK, &letters)?;
    amqp.declare_with(RANKED, &[("x-max-priority", Argument::Number(3))])?;
    amqp.declare(DEAD)?;
    amqp.declare_exchange(BOTH, "fanout")?;
    for queue in PAIR {
        amqp.declare(queue)?;
        amqp.bind(queue, BOTH, "")?;
    }
    Ok(())
}

fn text(tally: &Tally, seed: u64, took: Duration, failure: Option<&String>) -> String {
    let good = || "0 lost, 0 twice, 0 reordered, 0 transactions in part".to_owned();
    let verdict = failure.map_or_else(good, |why| format!("FAILED: {why}"));
    format!(
        "kills                              {}\n\
         seed                               {seed}\n\
         messages confirmed                 {}\n\
         transactions committed             {}\n\
         dead letters found                 {}\n\
         messages read back and compared    {}\n\
         settled ones that came again       {}\n\
         longest restart, start to ready    {} ms\n\
         took                               {} s\n\
         verdict                            {verdict}\n",
        tally.kills,
        tally.confirmed,
        tally.committed,
        tally.letters,
        tally.read_back,
        tally.came_again,
        tally.restart_longest.as_millis(),
        took.as_secs(),
    )
}

fn page(text: &str) -> String {
    format!(
        "# The queues judge\n\n\
         `cargo xtask judge queues` kills the real binary (SIGKILL) under load on queues that do more than keep\n\
         messages: one whose rejected messages become dead letters, one with priorities, and two behind a fanout\n\
         that is published to in transactions. Confirms and commits are written down as they are read. After each\n\
         kill the broker starts again on the same data and every queue is read to its end: a confirmed message that\n\
         no consumer settled must be in its queue or among its dead letters and never in both, only rejected ones\n\
         may be dead letters, priorities come highest first and in order within one, and a transaction is in both\n\
         queues whole or in neither.\n\n\
         The last run:\n\n```\n{text}```\n"
    )
}
