//! `fourfold serve` as whoever runs it sees it: a process with a ready file, signals and error texts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::child::{Folder, Server, fourfold, serve_command, text};
use rustix::process::Signal;

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_ready_file_names_doors_that_answer() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    assert_eq!(server.ready["pid"].as_u64(), Some(u64::from(server.child.id())));
    for door in ["kafka", "amqp", "http"] {
        assert!(TcpStream::connect(server.door(door)).is_ok(), "{door}");
    }
    assert!(get(server.door("http"), "/api/v1/health").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_door_that_is_off_is_not_named() {
    let folder = Folder::new();
    let mut command = serve_command(&folder.0);
    command.args(["--amqp", "off"]);
    let server = Server::start_with(command, &folder.0);
    assert!(server.ready["doors"]["amqp"].is_null());
    assert!(server.ready["doors"]["kafka"].is_string());
}

#[test]
fn both_signals_end_it_cleanly_within_two_seconds() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = Folder::new();
        let mut server = Server::start(&folder.0);
        let _idle: Vec<_> =
            ["kafka", "amqp", "http"].iter().map(|door| TcpStream::connect(server.door(door)).unwrap()).collect();
        server.signal(signal);
        let status = server.ended(Duration::from_secs(2)).expect("it ends within two seconds");
        assert!(status.success(), "{status}");
        assert!(folder.0.join("data").exists());
    }
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let folder = Folder::new();
    let mut server = Server::start(&folder.0);
    assert!(server.cli(&["topic", "create", "kept", "--partitions", "3"]).status.success());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start(&folder.0);
    let list = text(&server.cli(&["topic", "list"]).stdout);
    assert!(list.contains("kept") && list.contains('3'), "{list}");
}

#[test]
fn a_port_in_use_is_an_error_that_names_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = Folder::new();
    let mut command = serve_command(&folder.0);
    let output = command.args(["--amqp", &taken.local_addr().unwrap().port().to_string()]).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("--amqp PORT") && error.contains("the amqp door"), "{error}");
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let output = serve_command(&folder.0).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("data folder") && error.contains("--data DIR"), "{error}");
    assert!(get(server.door("http"), "/api/v1/health").starts_with("HTTP/1.1 200 "));
}

#[test]
fn beyond_this_machine_only_with_users_or_on_demand() {
    let folder = Folder::new();
    let mut open = serve_command(&folder.0);
    let output = open.args(["--kafka", "0.0.0.0:0"]).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for hint in ["--insecure", "fourfold user add", "the kafka door"] {
        assert!(error.contains(hint), "{error}");
    }
    let mut insecure = serve_command(&folder.0);
    insecure.args(["--kafka", "0.0.0.0:0", "--insecure"]);
    drop(Server::start_with(insecure, &folder.0));
    let server = Server::start(&folder.0);
    let added = server.cli_with(&["user", "add", "ann", "--tags", "administrator", "--password-stdin"], b"secret\n");
    assert!(added.status.success(), "{}", text(&added.stderr));
    drop(server);
    let mut with_users = serve_command(&folder.0);
    with_users.args(["--kafka", "0.0.0.0:0"]);
    drop(Server::start_with(with_users, &folder.0));
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_one() {
    let folder = Folder::new();
    let file = folder.0.join("fourfold.toml");
    std::fs::write(&file, "[storage]\njournal_fils_max = 3\n").unwrap();
    let output = serve_command(&folder.0).arg("--config").arg(&file).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("'storage.journal_fils_max'") && error.contains("'storage.journal_files_max'"), "{error}");
    let output = fourfold().args(["serve", "--kafak", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--kafka"), "{}", text(&output.stderr));
}

#[test]
fn it_says_where_it_listens_and_how_to_try_it() {
    let folder = Folder::new();
    let mut command = serve_command(&folder.0);
    let output = folder.0.join("out");
    command.stdout(std::fs::File::create(&output).unwrap());
    let mut child = command.spawn().unwrap();
    let ready = folder.0.join("ready");
    assert!(server::clock::wait_until(Duration::from_secs(30), || ready.exists()));
    let said = std::fs::read_to_string(&output).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
    for door in ["kafka", "amqp", "http"] {
        let address = ready["doors"][door].as_str().unwrap();
        assert!(said.contains(door) && said.matches(address).count() >= 2, "{said}");
    }
    assert!(said.contains(&*folder.0.join("data").to_string_lossy()), "{said}");
}

#[test]
fn with_no_descriptors_left_others_are_served_and_it_is_said_once() {
    let folder = Folder::new();
    let plain = serve_command(&folder.0);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    let log = folder.0.join("log");
    limited.stderr(std::fs::File::create(&log).unwrap());
    let server = Server::start_with(limited, &folder.0);
    let said = || std::fs::read_to_string(&log).unwrap().matches("no more connections").count();
    let mut first = TcpStream::connect(server.door("http")).unwrap();
    write!(first, "GET /api/v1/health HTTP/1.1\r\n\r\n").unwrap();
    assert!(first.read(&mut [0; 4096]).unwrap() > 0);
    let many: Vec<_> = (0..60).map(|_| TcpStream::connect(server.door("http")).unwrap()).collect();
    assert!(server::clock::wait_until(Duration::from_secs(30), || said() == 1));
    write!(first, "GET /api/v1/health HTTP/1.1\r\n\r\n").unwrap();
    assert!(first.read(&mut [0; 4096]).unwrap() > 0);
    drop(many);
    assert!(get(server.door("http"), "/api/v1/health").starts_with("HTTP/1.1 200 "));
    assert_eq!(said(), 1);
}

#[test]
fn the_defaults_are_printed_as_a_configuration() {
    let output = fourfold().args(["config", "--defaults"]).output().unwrap();
    let defaults = text(&output.stdout);
    for line in ["[doors]", "# kafka = \"localhost:9092\"", "# amqp = \"localhost:5672\"", "[storage]"] {
        assert!(defaults.lines().any(|have| have == line), "{line}: {defaults}");
    }
}
