//! The commands for virtual hosts, exchanges, bindings, permissions and policies, and importing definitions, against a
//! running server.

use crate::child::{Folder, Server, serve_command_with, text};
use serde_json::{Value, json};

fn json(server: &Server, arguments: &[&str]) -> Value {
    let output = server.cli(&[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn done(server: &Server, arguments: &[&str]) {
    let output = server.cli(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
}

fn refused(server: &Server, arguments: &[&str], why: &str) {
    let output = server.cli(arguments);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(why), "{arguments:?}: {said}");
}

#[test]
fn queues_exchanges_and_bindings_are_made_shown_and_removed_in_their_virtual_host() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    done(&server, &["vhost", "put", "v", "--description", "a try"]);
    done(&server, &["vhost", "put", "v", "--default-queue-type", "classic"]);
    let names = json(&server, &["vhost", "list"]);
    assert!(names.as_array().unwrap().iter().any(|vhost| vhost["name"] == "v" && vhost["description"] == "a try"));
    let inside = ["--vhost", "v"];
    let within = |arguments: &[&str]| done(&server, &[arguments, &inside].concat());
    within(&["queue", "declare", "q", "--type", "quorum", "--argument", "x-max-length=5"]);
    within(&["exchange", "declare", "e", "--type", "topic"]);
    within(&["binding", "declare", "e", "q", "--key", "a.#"]);
    let bindings = json(&server, &["binding", "list", "--vhost", "v"]);
    assert!(bindings.as_array().unwrap().iter().any(|one| one["source"] == "e" && one["routing_key"] == "a.#"));
    let queues = json(&server, &["queue", "list", "--vhost", "v"]);
    assert_eq!(queues["queues"][0]["name"], "q");
    refused(&server, &["queue", "declare", "q", "--vhost", "v"], "inequivalent arg");
    refused(&server, &["binding", "delete", "e", "q", "--vhost", "v"], "fourfold binding list");
    within(&["binding", "delete", "e", "q", "--key", "a.#"]);
    within(&["exchange", "delete", "e"]);
    done(&server, &["permission", "put", "guest", "--vhost", "v", "--write", "^q"]);
    let added = server.cli_with(&["user", "add", "ann", "--password-stdin"], b"secret\n");
    assert!(added.status.success(), "{}", text(&added.stderr));
    done(&server, &["permission", "put", "ann", "--vhost", "v"]);
    done(&server, &["permission", "delete", "ann", "--vhost", "v"]);
    let permissions = json(&server, &["permission", "list"]);
    assert!(permissions.as_array().unwrap().iter().any(|one| one["vhost"] == "v" && one["write"] == "^q"));
    done(&server, &["permission", "delete", "guest", "--vhost", "v"]);
    done(&server, &["vhost", "delete", "v"]);
    refused(&server, &["vhost", "delete", "v"], "no /api/vhosts/v");
    assert!(server.cli(&["connection", "list"]).status.success());
}

#[test]
fn a_policy_is_put_shown_and_removed_and_a_bad_one_refused_with_the_reason() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    done(&server, &["queue", "declare", "q"]);
    let put = ["policy", "put", "p", "^q", "max-length=5", "overflow=reject-publish", "--apply-to", "queues"];
    done(&server, &put);
    let policy = json(&server, &["policy", "describe", "p"]);
    assert_eq!(policy["definition"], json!({ "max-length": 5, "overflow": "reject-publish" }));
    done(&server, &["policy", "put", "limit", ".*", "max-length=3", "--operator"]);
    assert_eq!(json(&server, &["policy", "list", "--operator"])[0]["name"], "limit");
    refused(&server, &["policy", "put", "p", "(", "max-length=5"], "regular expression");
    refused(&server, &["policy", "put", "p", "q", "ha-mode=all"], "are not recognised policy settings");
    assert_eq!(server.cli(&["policy", "put", "p", "q", "max-length"]).status.code(), Some(2));
    done(&server, &["policy", "delete", "p"]);
    refused(&server, &["policy", "describe", "p"], "no /api/policies/%2F/p");
}

/// As RabbitMQ 3.10.8 exported it, shortened; a mirrored queue's policy and a shovel beside.
fn definitions() -> Value {
    json!({
        "rabbit_version": "3.10.8",
        "users": [{
            "name": "ann",
            "password_hash": "scnk1F17T3Hc+jL83ytEz31B4mgUxuDJ12Nce6exyTUa92bk",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
            "limits": {},
        }],
        "vhosts": [{ "name": "v" }],
        "permissions": [
            { "user": "ann", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*" },
            { "user": "guest", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*" },
        ],
        "parameters": [
            { "vhost": "v", "component": "vhost-limits", "name": "limits", "value": { "max-queues": 10 } },
            { "vhost": "v", "component": "shovel", "name": "s", "value": { "src-queue": "q" } },
        ],
        "global_parameters": [{ "name": "cluster_name", "value": "rabbit@x" }],
        "policies": [{
            "vhost": "v",
            "name": "ha",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": { "ha-mode": "all", "max-length": 7 },
            "priority": 0,
        }],
        "queues": [{ "name": "q", "vhost": "v", "durable": true, "auto_delete": false, "arguments": {} }],
        "exchanges": [
            { "name": "e", "vhost": "v", "type": "topic", "durable": true, "auto_delete": false, "arguments": {} },
        ],
        "bindings": [{
            "source": "e",
            "vhost": "v",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {},
        }],
    })
}

#[test]
fn an_export_of_rabbitmq_is_imported_once_with_a_report_and_its_users_log_in() {
    let folder = Folder::new();
    let server = Server::start(&folder.0);
    let file = folder.0.join("definitions.json");
    std::fs::write(&file, definitions().to_string()).unwrap();
    let file = file.to_str().unwrap();
    let count = |report: &Value, section: &str, outcome: &str| report["counts"][section][outcome].as_u64();
    let import = |more: &[&str]| {
        let output = server.cli(&[&["import", "definitions", file, "-o", "json"], more].concat());
        assert_eq!(output.status.code(), Some(1), "a shovel does not map: {}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let trial = import(&["--dry-run"]);
    assert_eq!(count(&trial, "queues", "created"), Some(1));
    assert_eq!(json(&server, &["vhost", "list"]).as_array().unwrap().len(), 1, "a trial makes nothing");
    let first = import(&[]);
    for section in ["users", "vhosts", "permissions", "queues", "exchanges", "bindings"] {
        assert_eq!(count(&first, section, "created"), Some(1), "{section}: {first}");
        assert_eq!(count(&trial, section, "created"), Some(1), "{section}: {trial}");
    }
    assert_eq!(trial["counts"], first["counts"], "a trial counts what is done");
    assert_eq!(count(&first, "permissions", "there"), Some(1), "who makes a virtual host may use it");
    assert_eq!(count(&first, "parameters", "refused"), Some(1));
    assert_eq!(count(&first, "policies", "adapted"), Some(1), "without ha-mode");
    let again = import(&[]);
    for section in ["users", "vhosts", "queues", "exchanges", "bindings"] {
        assert_eq!(count(&again, section, "there"), Some(1), "{section}: {again}");
    }
    let password = folder.0.join("password");
    std::fs::write(&password, "guest").unwrap();
    let as_ann = ["--user", "ann", "--password-file", password.to_str().unwrap()];
    let exported = folder.0.join("exported.json");
    done(&server, &[["export", "definitions", exported.to_str().unwrap()].as_slice(), &as_ann].concat());
    let exported: Value = serde_json::from_str(&std::fs::read_to_string(exported).unwrap()).unwrap();
    let users = exported["users"].as_array().unwrap();
    assert!(users.contains(&definitions()["users"][0]), "{users:?}");
    assert_eq!(exported["bindings"], definitions()["bindings"]);
    let table = text(&server.cli(&["import", "definitions", file]).stdout);
    assert!(table.contains("REFUSED") && table.contains("shovel"), "{table}");
    assert_eq!(server.cli(&["import", "definitions", "no-such-file"]).status.code(), Some(2));
}

/// A catalog of much, deep: virtual hosts with queues that have arguments, exchanges, bindings by headers, policies,
/// permissions and limits.
fn large_catalog(queues: usize) -> Value {
    let hosts = ["v0", "v1", "v2"];
    let host = |n: usize| hosts[n % hosts.len()];
    let queue = |n: usize| {
        let arguments = match n % 4 {
            0 => json!({}),
            1 => {
                json!({ "x-max-length": n, "x-dead-letter-exchange": "e1", "x-dead-letter-routing-key": "dead.\u{e9}" })
            }
            2 => json!({ "x-queue-type": "quorum", "x-delivery-limit": 3 }),
            _ => json!({ "x-message-ttl": 60_000, "x-max-priority": 5, "x-overflow": "reject-publish" }),
        };
        let name = format!("queue-{n:020}");
        json!({ "name": name, "vhost": host(n), "durable": true, "auto_delete": false, "arguments": arguments })
    };
    let exchange = |n: usize| {
        let kind = ["direct", "topic", "fanout", "headers"][n / hosts.len() % 4];
        let (name, arguments) = (format!("e{}", n / hosts.len()), json!({}));
        json!({
            "name": name, "vhost": host(n), "type": kind, "durable": true, "auto_delete": false, "internal": false,
            "arguments": arguments,
        })
    };
    let binding = |n: usize| {
        let of_headers = n / hosts.len() % 4 == 3;
        let arguments = if of_headers { json!({ "x-match": "any", "n": n, "deep": "\u{fc}" }) } else { json!({}) };
        json!({
            "source": format!("e{}", n / hosts.len() % 4), "vhost": host(n), "destination": format!("queue-{n:020}"),
            "destination_type": "queue", "routing_key": format!("a.{n}.#"), "arguments": arguments,
        })
    };
    let policy = |n: usize| {
        json!({
            "vhost": host(n), "name": format!("p{n}"), "pattern": format!("^queue-.*{n}$"), "apply-to": "queues",
            "definition": { "max-length": 100 + n, "expires": 3_600_000 }, "priority": n,
        })
    };
    let of_host = |one: &dyn Fn(&str) -> Value| Value::Array(hosts.iter().map(|host| one(host)).collect());
    let all = |count: usize, one: &dyn Fn(usize) -> Value| Value::Array((0..count).map(one).collect());
    json!({
        "users": definitions()["users"],
        "vhosts": of_host(&|host| json!({ "name": host })),
        "permissions": of_host(
            &|host| json!({ "user": "ann", "vhost": host, "configure": "^q", "write": ".*", "read": host }),
        ),
        "parameters": of_host(&|host| {
            json!({ "vhost": host, "component": "vhost-limits", "name": "limits", "value": { "max-queues": 90_000 } })
        }),
        "queues": all(queues, &queue),
        "exchanges": all(4 * hosts.len(), &exchange),
        "bindings": all(queues, &binding),
        "policies": all(30, &policy),
    })
}

// All definitions, in an order of their own.
fn exported(server: &Server, folder: &Folder) -> Value {
    let file = folder.0.join("exported.json");
    done(server, &["export", "definitions", file.to_str().unwrap()]);
    let mut all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for section in all.as_object_mut().unwrap().values_mut() {
        if let Some(list) = section.as_array_mut() {
            list.sort_by_key(Value::to_string);
        }
    }
    all
}

// Kills and stops, and one more change between them, so that each start writes.
fn stays_whole(queues: usize, file_bytes: &str) {
    let folder = Folder::new();
    let start = || Server::start_with(serve_command_with(&folder.0, file_bytes), &folder.0);
    let mut server = start();
    let file = folder.0.join("definitions.json");
    std::fs::write(&file, large_catalog(queues).to_string()).unwrap();
    let report = json(&server, &["import", "definitions", file.to_str().unwrap()]);
    assert_eq!(report["counts"]["queues"]["created"].as_u64(), Some(queues as u64), "{}", report["counts"]);
    let before = exported(&server, &folder);
    for (section, count) in [("queues", queues), ("bindings", queues), ("policies", 30), ("exchanges", 12)] {
        assert_eq!(before[section].as_array().map(Vec::len), Some(count), "{section}");
    }
    for is_killed in [true, false, true] {
        if is_killed {
            server.child.kill().unwrap();
        } else {
            server.signal(rustix::process::Signal::TERM);
        }
        assert!(server.ended(std::time::Duration::from_secs(30)).is_some());
        server = start();
        assert_eq!(exported(&server, &folder), before);
        done(&server, &["queue", "declare", "more", "--vhost", "v0"]);
        done(&server, &["queue", "delete", "more", "--vhost", "v0"]);
    }
}

#[test]
fn a_large_catalog_is_whole_after_stops_and_kills() {
    // So large, for so small a journal, that it cannot be written down as one record: it stays as its changes.
    stays_whole(10_000, "1MiB");
}

#[test]
fn a_catalog_written_down_whole_is_whole_after_stops_and_kills() {
    stays_whole(2_000, "16MiB");
}
