//! The full disk judge's trial with official clients: pika, librdkafka and kafka-python in one Python process, which is
//! told what to do and says what it saw (`official.py`).

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::volume::Volume;
use super::{HEALS_WITHIN, SMALL, VOLUME_BYTES};
use crate::judge::server::{Launch, Server};
use crate::{Outcome, tools};

/// What clients wait at most before they try again, beside the time that the broker needs to heal: librdkafka a second,
/// its connections to a broker that was killed ten.
const BACK_OFF_MS: u64 = 1_000;
const RECONNECT_MS: u64 = 10_000;

/// The Python process.
struct Clients {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    fn start(server: &Server) -> Outcome<Clients> {
        let mut command = Command::new(tools::clients_python()?);
        let port = server.amqp.rsplit(':').next().unwrap_or_default();
        command.args(["-c", include_str!("official.py"), &server.kafka, port, &server.http]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|why| format!("python: {why}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else { return Err("python has no pipes".to_owned()) };
        Ok(Clients { child, input, output: BufReader::new(output).lines() })
    }

    /// Has it do something; answers what it says.
    fn ask(&mut self, what: &str) -> Outcome<serde_json::Value> {
        writeln!(self.input, "{what}").map_err(|why| format!("{what}: {why}"))?;
        let line = self.output.next().ok_or_else(|| format!("{what}: the clients ended"))?;
        let line = line.map_err(|why| format!("{what}: {why}"))?;
        let said: serde_json::Value = serde_json::from_str(&line).map_err(|why| format!("{line}: {why}"))?;
        match said.get("failed") {
            Some(why) => Err(format!("official clients: {why}")),
            None => Ok(said),
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.child.kill(); // gone already is as good
        let _ = self.child.wait();
    }
}

/// Runs the trial; answers what to report.
pub(super) fn trial(bin: &Path, folder: &Path) -> Outcome<Vec<String>> {
    let volume = Volume::mount(&folder.join("volume"), VOLUME_BYTES)?;
    let launch = Launch::new(bin, folder).data(&volume.path.join("data")).options(SMALL);
    let mut server = Server::start(launch.options(&["--storage-reserve-bytes", "16MiB"]))?;
    let mut clients = Clients::start(&server)?;
    let outcome = run(&mut server, &mut clients, &volume);
    drop(clients);
    outcome.map_err(|why| format!("{why}\n{}", server.log()))
}

fn run(server: &mut Server, clients: &mut Clients, volume: &Volume) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    clients.ask("prepare")?;
    let full = clients.ask("fill")?;
    lines.push(format!(
        "full after {} + {} records of librdkafka and kafka-python, {} confirmed publishes of pika, which is told '{}'",
        full["librdkafka"],
        full["kafka-python"],
        full["pika"],
        full["said"][0].as_str().unwrap_or_default()
    ));
    clients.ask("full")?;
    lines.push(
        "the API shows the alarm, 'blocked' and 'blocking'; getting, acks, fetching and commits go on".to_owned(),
    );
    volume.resize(VOLUME_BYTES + (24 << 20))?;
    lines.push(healed("the volume grows by 24 MiB", clients, BACK_OFF_MS)?);
    lines.push(killed("after a kill", server, clients)?);

    clients.ask("fill")?;
    clients.ask("full")?;
    server.kill()?;
    server.restart()?;
    volume.resize(VOLUME_BYTES + (48 << 20))?;
    lines.push(healed("a kill on the full disk, then 24 MiB more", clients, RECONNECT_MS)?);
    lines.push(killed("after the last kill", server, clients)?);
    Ok(lines)
}

fn healed(how: &str, clients: &mut Clients, back_off_ms: u64) -> Outcome<String> {
    let said = clients.ask("healed")?;
    let (amqp, kafka) = (said["amqp_ms"].as_u64().unwrap_or(u64::MAX), said["kafka_ms"].as_u64().unwrap_or(u64::MAX));
    let within = u64::try_from(HEALS_WITHIN.as_millis()).unwrap_or(u64::MAX);
    if amqp > within || kafka > within + back_off_ms {
        return Err(format!("{how}: healed after {amqp} ms (AMQP) and {kafka} ms (Kafka)"));
    }
    Ok(format!("{how}: all that waited is stored after {amqp} ms (pika) and {kafka} ms (Kafka's)"))
}

fn killed(when: &str, server: &mut Server, clients: &mut Clients) -> Outcome<String> {
    server.kill()?;
    server.restart()?;
    let said = clients.ask("verify")?;
    Ok(format!("{when}: {} messages read back, none lost, doubled or reordered", said["read_back"]))
}
