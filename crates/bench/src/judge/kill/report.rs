//! What the judge found, as text and as a page.

use std::time::Duration;

use crate::judge::books::Tally;

/// The outcome in lines.
pub(crate) fn text(tally: &Tally, seed: u64, took: Duration, failure: Option<&String>) -> String {
    let verdict = match failure {
        None => "0 lost, 0 reordered, 0 invented".to_owned(),
        Some(why) => format!("FAILED: {why}"),
    };
    format!(
        "kills                              {}\n\
         seed                               {seed}\n\
         records acknowledged (Kafka)       {}\n\
         messages confirmed (AMQP)          {}\n\
         messages acknowledged by consumers {}\n\
         messages read back and compared    {}\n\
         kept though never acknowledged     {}\n\
         acknowledged ones that came again  {}\n\
         confirmed with a life or a delay   {}\n\
         of lives that ended, dead letters  {}\n\
         delayed messages that came         {}\n\
         longest restart, start to ready    {} ms\n\
         took                               {} s\n\
         verdict                            {verdict}\n",
        tally.kills,
        tally.kafka_acknowledged,
        tally.amqp_confirmed,
        tally.settled,
        tally.read_back,
        tally.unacknowledged_kept,
        tally.came_again,
        tally.timed.confirmed,
        tally.timed.letters,
        tally.timed.delayed,
        tally.restart_longest.as_millis(),
        took.as_secs(),
    )
}

/// The page that is kept in `docs/`.
pub(crate) fn page(text: &str) -> String {
    format!(
        "# The kill judge\n\n\
         `cargo xtask judge kill` runs the real binary under load in both tongues and kills it with SIGKILL again and\n\
         again. Four raw Kafka producers (two with acks=all, two with acks=1) write to four partitions; two raw AMQP\n\
         publishers with confirms fill two durable queues; a consumer acknowledges the messages of one of them. Each\n\
         acknowledgement is written down as it is read. After each kill the broker is started again on the same data,\n\
         and everything is read back: an acknowledged message must be there (for Kafka: at the offset it was given),\n\
         once, in the order sent; nothing may be there that nobody sent; and what was read once must be read again.\n\n\
         Two more publishers with confirms fill a queue whose messages live for 100 ms and go on as dead letters,\n\
         and a delayed exchange (0 to 200 ms). After each restart the judge waits until all of them have moved: each\n\
         confirmed one must have come once, among the dead letters in the order sent, and what was taken out and\n\
         acknowledged after an earlier kill must not come again.\n\n\
         SIGKILL leaves the operating system's page cache alone: this judges the process's death, not the machine's.\n\
         Power cuts are judged over a simulated disk.\n\n\
         The last run:\n\n```\n{text}```\n"
    )
}
