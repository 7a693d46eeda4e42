//! The command line against a running server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::child::{Folder, Server, fourfold, text};
use serde_json::Value;

fn json(server: &Server, arguments: &[&str]) -> Value {
    let output = server.cli(&[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn topics_are_created_listed_described_and_deleted() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let created = server.cli(&["topic", "create", "orders", "-p", "4", "-c", "max.message.bytes=1000"]);
    assert_eq!(text(&created.stdout), "topic 'orders' created\n", "{}", text(&created.stderr));
    let again = server.cli(&["topic", "create", "orders"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists"), "{}", text(&again.stderr));
    let topics = json(&server, &["topic", "list"]);
    assert!(topics["topics"].as_array().unwrap().iter().any(|topic| topic["name"] == "orders"));
    let topic = json(&server, &["topic", "describe", "orders"]);
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 4);
    let setting =
        topic["config"].as_array().unwrap().iter().find(|entry| entry["name"] == "max.message.bytes").unwrap();
    assert_eq!((&setting["value"], &setting["is_default"]), (&"1000".into(), &false.into()));
    let table = text(&server.cli(&["topic", "describe", "orders"]).stdout);
    assert!(table.contains("PARTITION") && table.contains("max.message.bytes"), "{table}");
    let altered = server.cli(&["topic", "alter", "orders", "max.message.bytes=2000", "--unset", "min.insync.replicas"]);
    assert_eq!(text(&altered.stdout), "topic 'orders' altered\n", "{}", text(&altered.stderr));
    let table = text(&server.cli(&["topic", "describe", "orders"]).stdout);
    let row = table.lines().find(|line| line.contains("max.message.bytes")).unwrap_or(&table);
    assert!(row.contains("2000"), "{row}");
    assert_eq!(server.cli(&["topic", "alter", "orders"]).status.code(), Some(2), "nothing to alter");
    assert_eq!(server.cli(&["topic", "alter", "orders", "max.message.bytes=x"]).status.code(), Some(1));
    assert_eq!(server.cli(&["topic", "alter", "none", "max.message.bytes=5"]).status.code(), Some(1));
    assert!(server.cli(&["topic", "delete", "orders"]).status.success());
    let missing = server.cli(&["topic", "describe", "orders"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(text(&missing.stderr), "fourfold: no topic 'orders'\n");
    assert_eq!(server.cli(&["topic", "create", "bad", "-c", "nonsense=1"]).status.code(), Some(1));
    assert_eq!(server.cli(&["topic", "create", "none", "-p", "0"]).status.code(), Some(1));
}

#[test]
fn users_log_in_with_what_they_were_given() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let add = |tags: &[&str]| {
        let added = server.cli_with(&[&["user", "add", "ann", "--password-stdin"], tags].concat(), b"a:b\n");
        assert!(added.status.success(), "{}", text(&added.stderr));
    };
    add(&[]);
    let password = folder.0.join("password");
    std::fs::write(&password, "a:b\n").unwrap();
    let file = password.to_str().unwrap();
    let as_ann = ["--user", "ann", "--password-file", file];
    let list = [["topic", "list"].as_slice(), &as_ann].concat();
    let untagged = server.cli(&list);
    assert!(text(&untagged.stderr).contains("'management'"), "{}", text(&untagged.stderr));
    add(&["--tags", "management"]);
    let no_entry = server.cli(&list);
    assert!(text(&no_entry.stderr).contains("does not get into tenant '/'"), "{}", text(&no_entry.stderr));
    add(&["--tags", "monitoring"]);
    assert!(server.cli(&list).status.success());
    let refused = server.cli(&[["topic", "create", "t"].as_slice(), &as_ann].concat());
    assert!(text(&refused.stderr).contains("'administrator'"), "{}", text(&refused.stderr));
    std::fs::write(&password, "wrong").unwrap();
    assert_eq!(server.cli(&list).status.code(), Some(1));
    assert!(text(&server.cli(&["user", "list"]).stdout).contains("ann"));
    assert!(server.cli(&["user", "delete", "ann"]).status.success());
    assert_eq!(server.cli(&["user", "delete", "ann"]).status.code(), Some(1));
}

#[test]
fn a_server_that_is_not_there_is_told_apart_from_one_that_refuses() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let output = fourfold().args(["check", "--server", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("Is it running?"), "{}", text(&output.stderr));
    assert_eq!(fourfold().args(["topic", "list", "--server", "nonsense"]).output().unwrap().status.code(), Some(2));
    assert_eq!(fourfold().args(["topic", "grow"]).output().unwrap().status.code(), Some(2));
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    assert_eq!(text(&server.cli(&["check"]).stdout), "ok\n");
    for missing in [["queue", "describe", "q"], ["queue", "purge", "q"], ["group", "describe", "g"]] {
        let output = server.cli(&missing);
        assert_eq!(output.status.code(), Some(1), "{missing:?} {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("no "), "{}", text(&output.stderr));
    }
    assert!(server.cli(&["queue", "list"]).status.success() && server.cli(&["group", "list"]).status.success());
}

pub fn raw(address: &str, requests: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    answers
}

#[test]
fn http_answers_in_order_and_refuses_with_the_right_status() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let address = server.door("http");
    let guest = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
    let json = "Content-Type: application/json\r\n";
    let answers = raw(
        address,
        &format!(
            "GET /api/v1/health HTTP/1.1\r\n\r\nGET /api/v1/nothing HTTP/1.1\r\n{guest}\r\n\
             PATCH /api/v1/topics HTTP/1.1\r\nContent-Length: 2\r\n{guest}\r\n{{}}\
             POST /api/v1/topics HTTP/1.1\r\nContent-Length: 15\r\n{json}{guest}\r\n{{\"name\": \"new\"}}\
             PUT /api/v1/overview HTTP/1.1\r\n{guest}\r\n\
             GET http://{address}/api/v1/overview HTTP/1.1\r\n{guest}\r\n\
             GET /api/v1/topics HTTP/1.1\r\n\r\nHEAD /metrics HTTP/1.1\r\n\r\n"
        ),
    );
    let statuses: Vec<&str> = answers.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).collect();
    let expected = [
        "200 OK",
        "404 Not Found",
        "405 Method Not Allowed",
        "201 Created",
        "405 Method Not Allowed",
        "200 OK",
        "401 Unauthorized",
        "200 OK",
    ];
    assert_eq!(statuses, expected, "{answers}");
    assert!(answers.contains("Allow: GET, POST") && answers.contains("\"error\":\"not_found\""), "{answers}");
    for (request, status) in [
        ("rubbish\r\n\r\n", "400"),
        ("POST /api/v1/topics HTTP/1.1\r\n\r\n", "401"),
        ("POST /api/v1/topics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "501"),
    ] {
        assert!(raw(address, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
    }
}

#[test]
fn a_page_of_another_site_changes_nothing_though_the_browser_knows_the_password() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let address = server.door("http");
    let guest = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: 15\r\nConnection: close\r\n";
    let own = format!("Host: {address}\r\nOrigin: http://{address}\r\n");
    let json = "Content-Type: application/json\r\n";
    for (headers, status) in [
        (format!("{own}Content-Type: text/plain\r\n"), "415"),
        (own.clone(), "415"),
        (format!("Host: {address}\r\nOrigin: http://evil.example\r\n{json}"), "403"),
        (format!("Host: {address}\r\nSec-Fetch-Site: cross-site\r\n{json}"), "403"),
        (format!("{own}{json}"), "201"),
    ] {
        let answer =
            raw(address, &format!("POST /api/v1/topics HTTP/1.1\r\n{headers}{guest}\r\n{{\"name\": \"new\"}}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}: {answer}");
    }
    let refused = server.cli(&["topic", "create", "two words"]);
    assert!(text(&refused.stderr).contains("Kafka clients can spell"), "{}", text(&refused.stderr));
}

#[test]
fn metrics_show_what_is_measured() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    assert!(server.cli(&["topic", "create", "orders", "-p", "2"]).status.success());
    let page = raw(server.door("http"), "GET /metrics HTTP/1.1\r\n\r\n");
    for line in ["fourfold_topic_partitions{tenant=\"/\",topic=\"orders\"} 2", "fourfold_connections{door=\"http\"} 1"]
    {
        assert!(page.lines().any(|have| have == line), "{line}: {page}");
    }
    let syncs = page.lines().find_map(|line| line.strip_prefix("fourfold_journal_syncs_total ")).unwrap();
    assert_ne!(syncs, "0");
    assert!(page.lines().any(|have| have == "fourfold_damaged_ranges 0"), "{page}");
}

#[test]
fn status_shows_what_storing_costs() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let shown = server.cli(&["status"]);
    assert!(shown.status.success());
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for word in ["write_cost_permille", "space_cost_permille", "damaged_ranges", "version"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json = server.cli(&["status", "-o", "json"]);
    assert!(String::from_utf8_lossy(&json.stdout).contains("\"journal_bytes\""));
}
