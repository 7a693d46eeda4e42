//! The broker under trial: a process of our own, on ports that stay, killed by its own pid.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Outcome;

const READY_WITHIN: Duration = Duration::from_secs(30);

/// A broker process and where its doors are.
pub(crate) struct Server {
    bin: PathBuf,
    folder: PathBuf,
    options: &'static [&'static str],
    child: Child,
    /// `host:port` of the Kafka door.
    pub(crate) kafka: String,
    /// `host:port` of the AMQP door.
    pub(crate) amqp: String,
}

impl Server {
    /// Starts it in `folder`, on free ports, with `options` beside the usual ones.
    pub(crate) fn start(bin: &Path, folder: &Path, options: &'static [&'static str]) -> Outcome<Server> {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let free = "127.0.0.1:0".to_owned();
        let child = spawn(bin, folder, [&free, &free], options)?;
        let mut server =
            Server { bin: bin.to_owned(), folder: folder.to_owned(), options, child, kafka: free.clone(), amqp: free };
        server.await_ready()?;
        Ok(server)
    }

    /// Starts it again, on the same ports and data.
    pub(crate) fn restart(&mut self) -> Outcome<()> {
        self.child = spawn(&self.bin, &self.folder, [&self.kafka, &self.amqp], self.options)?;
        self.await_ready()
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        if let Some(status) = self.child.try_wait().map_err(|e| e.to_string())? {
            return Err(format!("the broker ended by itself: {status}\n{}", self.log()));
        }
        self.child.kill().map_err(|e| format!("kill: {e}"))?;
        self.child.wait().map_err(|e| format!("wait: {e}"))?;
        Ok(())
    }

    fn await_ready(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        let file = ready_file(&self.folder);
        while !file.exists() {
            if let Some(status) = self.child.try_wait().map_err(|e| e.to_string())? {
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
        Ok(())
    }

    fn log(&self) -> String {
        let text = fs::read_to_string(self.folder.join("log.txt")).unwrap_or_default();
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

fn spawn(bin: &Path, folder: &Path, [kafka, amqp]: [&str; 2], options: &[&str]) -> Outcome<Child> {
    let _ = fs::remove_file(ready_file(folder)); // there is none before the first start
    let log = fs::File::options().create(true).append(true).open(folder.join("log.txt")).map_err(|e| e.to_string())?;
    let errors = log.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(bin);
    command.arg("serve").arg("--data").arg(folder.join("data")).arg("--ready-file").arg(ready_file(folder));
    command.args(["--kafka", kafka, "--amqp", amqp, "--http", "127.0.0.1:0"]).args(options);
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    command.spawn().map_err(|e| format!("{}: {e}", bin.display()))
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
