//! A broker of the test's own: started on free ports in a folder of its own, killed, and started again as it was. With
//! PEER_AMQP=host:port the tests run against that broker instead.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static NAMES: AtomicUsize = AtomicUsize::new(0);

/// A name that no other test uses.
pub fn name(what: &str) -> String {
    format!("{what}-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

/// A broker.
pub struct Broker {
    home: PathBuf,
    amqp: String,
    process: Option<Child>,
}

impl Broker {
    /// Starts one, or names the peer.
    pub fn start() -> Broker {
        if let Ok(amqp) = std::env::var("PEER_AMQP") {
            return Broker { home: PathBuf::new(), amqp, process: None };
        }
        let home = std::env::temp_dir().join(name("fourfold-lapin"));
        std::fs::create_dir_all(&home).unwrap();
        let mut broker = Broker { home, amqp: "127.0.0.1:0".to_owned(), process: None };
        broker.run();
        broker
    }

    /// Whether it is a real RabbitMQ.
    pub fn is_peer(&self) -> bool {
        self.home.as_os_str().is_empty()
    }

    /// Where AMQP clients connect to.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.amqp)
    }

    /// Starts it on the ports that it had before.
    pub fn run(&mut self) {
        let ready = self.home.join("ready.json");
        let _ = std::fs::remove_file(&ready);
        let binary = std::env::var("FOURFOLD_BIN").expect("FOURFOLD_BIN names the binary to judge");
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(self.home.join("data")).arg("--ready-file").arg(&ready);
        command.args(["--kafka", "off", "--http", "off", "--amqp", &self.amqp]);
        let log = std::fs::File::options().append(true).create(true).open(self.home.join("log.txt")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        let end = Instant::now() + Duration::from_secs(30);
        let doors = loop {
            match std::fs::read_to_string(&ready) {
                Ok(text) if text.contains('}') => break text,
                _ => assert!(Instant::now() < end, "fourfold is not ready"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let at = doors.find("\"amqp\"").expect("the door is open") + 6;
        self.amqp = doors[at..].split('"').nth(1).unwrap().to_owned();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        if !self.is_peer() {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }
}
