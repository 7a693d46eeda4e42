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
    /// Of one that speaks TLS: the door, and the files of its certificate and key.
    amqps: Option<(String, PathBuf, PathBuf)>,
    process: Option<Child>,
}

impl Broker {
    /// Starts one, or names the peer.
    pub fn start() -> Broker {
        if let Ok(amqp) = std::env::var("PEER_AMQP") {
            return Broker { home: PathBuf::new(), amqp, amqps: None, process: None };
        }
        let home = std::env::temp_dir().join(name("fourfold-lapin"));
        std::fs::create_dir_all(&home).unwrap();
        let mut broker = Broker { home, amqp: "127.0.0.1:0".to_owned(), amqps: None, process: None };
        broker.run();
        broker
    }

    /// Starts one that speaks TLS, too, with this certificate and key; `None` where there is a peer.
    pub fn start_secure(certificate: &str, key: &str) -> Option<Broker> {
        if std::env::var_os("PEER_AMQP").is_some() {
            return None;
        }
        let home = std::env::temp_dir().join(name("fourfold-lapin"));
        std::fs::create_dir_all(&home).unwrap();
        let files = (home.join("server.pem"), home.join("server.key"));
        std::fs::write(&files.0, certificate).unwrap();
        std::fs::write(&files.1, key).unwrap();
        let (any, amqps) = ("127.0.0.1:0".to_owned(), Some(("127.0.0.1:0".to_owned(), files.0, files.1)));
        let mut broker = Broker { home, amqp: any, amqps, process: None };
        broker.run();
        Some(broker)
    }

    /// Where AMQP clients connect to through TLS, by the name in the certificate.
    pub fn secure_url(&self) -> String {
        let (door, ..) = self.amqps.as_ref().expect("it speaks TLS");
        format!("amqps://guest:guest@localhost:{}/%2f", door.rsplit(':').next().unwrap())
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
        if let Some((door, certificate, key)) = &self.amqps {
            command.args(["--amqps", door]).arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        }
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
        let door = |name: &str| {
            let at = doors.find(&format!("\"{name}\"")).expect("the door is open") + name.len() + 2;
            doors[at..].split('"').nth(1).unwrap().to_owned()
        };
        self.amqp = door("amqp");
        if let Some((secure, ..)) = &mut self.amqps {
            *secure = door("amqps");
        }
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
