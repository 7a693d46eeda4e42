//! A server as a child process, on free ports and a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use server::clock::wait_until;

const LONG: Duration = Duration::from_secs(30);

/// A folder that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("fourfold-serve-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, in an environment without options of ours.
pub fn fourfold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fourfold"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FOURFOLD_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// `serve` on free ports, with a small journal.
pub fn serve_command(folder: &Path) -> Command {
    serve_command_with(folder, "1MiB")
}

/// … or with a journal whose files are of another size.
pub fn serve_command_with(folder: &Path, file_bytes: &str) -> Command {
    let mut command = fourfold();
    command.arg("serve").arg("--data").arg(folder.join("data")).arg("--ready-file").arg(folder.join("ready"));
    command.args(["--kafka", "0", "--amqp", "0", "--http", "0", "--log", "warn"]);
    command.args(["--storage-journal-file-bytes", file_bytes, "--storage-reserve-bytes", "1MiB"]);
    command
}

pub struct Server {
    pub child: Child,
    pub ready: Value,
}

impl Server {
    pub fn start(folder: &Path) -> Server {
        Server::start_with(serve_command(folder), folder)
    }

    pub fn start_with(mut command: Command, folder: &Path) -> Server {
        let file = folder.join("ready");
        let _ = std::fs::remove_file(&file);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let there = wait_until(LONG, || file.exists() || child.try_wait().unwrap().is_some());
        assert!(there && file.exists(), "no ready file");
        let ready = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        Server { child, ready }
    }

    pub fn door(&self, name: &str) -> &str {
        self.ready["doors"][name].as_str().unwrap()
    }

    /// The command line against this server.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        self.cli_with(arguments, &[])
    }

    pub fn cli_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        use std::io::Write as _;
        let mut command = fourfold();
        command.args(arguments).args(["--server", &format!("http://{}", self.door("http"))]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Its end, if it comes within the limit.
    pub fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_until(limit, || self.child.try_wait().unwrap().is_some());
        self.child.try_wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
