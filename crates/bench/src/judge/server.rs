//! The broker under trial: a process of our own, on ports that stay, killed by its own pid.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Outcome;

const READY_WITHIN: Duration = Duration::from_secs(30);
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// How a broker is started.
pub(crate) struct Launch {
    bin: PathBuf,
    folder: PathBuf,
    data: PathBuf,
    options: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// `bin`, with its log, ready file and data in `folder`.
    pub(crate) fn new(bin: &Path, folder: &Path) -> Launch {
        let (options, environment) = (Vec::new(), Vec::new());
        Launch { bin: bin.to_owned(), folder: folder.to_owned(), data: folder.join("data"), options, environment }
    }

    /// With these flags beside the usual ones.
    pub(crate) fn options(mut self, options: &[&str]) -> Launch {
        self.options.extend(options.iter().map(|one| (*one).to_owned()));
        self
    }

    /// With its data in another folder.
    pub(crate) fn data(mut self, data: &Path) -> Launch {
        data.clone_into(&mut self.data);
        self
    }

    /// With these variables in its environment.
    pub(crate) fn environment(mut self, variables: &[(&str, String)]) -> Launch {
        self.environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self
    }

    fn command(&self, doors: [&str; 3]) -> Outcome<Command> {
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log.txt"));
        let log = log.map_err(|e| e.to_string())?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new(&self.bin);
        command.arg("serve").arg("--data").arg(&self.data).arg("--ready-file").arg(ready_file(&self.folder));
        for (door, listen) in ["--kafka", "--amqp", "--http"].into_iter().zip(doors) {
            command.args([door, listen]);
        }
        command.args(&self.options).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        Ok(command)
    }
}

/// A broker process and where its doors are.
pub(crate) struct Server {
    launch: Launch,
    child: Child,
    /// `host:port` of the Kafka door.
    pub(crate) kafka: String,
    /// `host:port` of the AMQP door.
    pub(crate) amqp: String,
    /// `host:port` of the HTTP door.
    pub(crate) http: String,
}

impl Server {
    /// Starts it on free ports and waits until it is ready.
    pub(crate) fn start(launch: Launch) -> Outcome<Server> {
        fs::create_dir_all(&launch.folder).map_err(|e| format!("{}: {e}", launch.folder.display()))?;
        let free = "127.0.0.1:0".to_owned();
        let child = spawn(&launch, [&free, &free, &free])?;
        let mut server = Server { launch, child, kafka: free.clone(), amqp: free.clone(), http: free };
        server.await_ready()?;
        Ok(server)
    }

    /// Starts it again, on the same ports and data.
    pub(crate) fn restart(&mut self) -> Outcome<()> {
        self.child = spawn(&self.launch, [&self.kafka, &self.amqp, &self.http])?;
        self.await_ready()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        if let Some(status) = self.ended()? {
            return Err(format!("the broker ended by itself: {status}\n{}", self.log()));
        }
        self.child.kill().map_err(|e| format!("kill: {e}"))?;
        self.child.wait().map_err(|e| format!("wait: {e}"))?;
        Ok(())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        self.child.try_wait().map_err(|e| e.to_string())
    }

    /// The body and status of `GET path`.
    pub(crate) fn get(&self, path: &str) -> Outcome<(u16, String)> {
        let told = |e: std::io::Error| format!("GET {path}: {e}");
        let mut stream = TcpStream::connect(&self.http).map_err(told)?;
        stream.set_read_timeout(Some(ENDS_WITHIN)).map_err(told)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http);
        stream.write_all(request.as_bytes()).map_err(told)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(told)?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        status.zip(body).ok_or_else(|| format!("GET {path}: no answer of HTTP: {text}"))
    }

    fn await_ready(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        let file = ready_file(&self.launch.folder);
        while !file.exists() {
            if let Some(status) = self.ended()? {
                return Err(format!("the broker did not start: {status}\n{}", self.log()));
            }
            if begun.elapsed() > READY_WITHIN {
                return Err(format!("the broker is not ready within {READY_WITHIN:?}\n{}", self.log()));
            }
            sleep(Duration::from_millis(1));
        }
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        self.kafka = door(&text, "kafka")?;
        self.amqp = door(&text, "amqp")?;
        self.http = door(&text, "http")?;
        Ok(())
    }

    /// The last lines it has logged.
    pub(crate) fn log(&self) -> String {
        let text = fs::read_to_string(self.launch.folder.join("log.txt")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // gone already is as good
        let _ = self.child.wait();
    }
}

fn ready_file(folder: &Path) -> PathBuf {
    folder.join("ready.json")
}

fn spawn(launch: &Launch, doors: [&str; 3]) -> Outcome<Child> {
    let _ = fs::remove_file(ready_file(&launch.folder)); // there is none before the first start
    launch.command(doors)?.spawn().map_err(|e| format!("{}: {e}", launch.bin.display()))
}

/// The address of `name` in the ready file: one JSON object with simple texts.
fn door(text: &str, name: &str) -> Outcome<String> {
    let found = text.split(&format!("\"{name}\":")).nth(1).and_then(|rest| rest.split('"').nth(1));
    found.map(str::to_owned).ok_or_else(|| format!("the ready file names no door '{name}': {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_read_from_the_ready_file() {
        let text = r#"{"doors":{"amqp":"127.0.0.1:1","kafka":"127.0.0.1:2"},"pid":3}"#;
        assert_eq!(door(text, "kafka").as_deref(), Ok("127.0.0.1:2"));
        assert!(door(text, "http").is_err());
    }
}
