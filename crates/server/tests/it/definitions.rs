//! The commands for virtual hosts, exchanges, bindings, permissions and policies, and importing definitions, against a
//! running server.

use crate::child::{Folder, Server, text};
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
        "permissions": [{ "user": "ann", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*" }],
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
    assert_eq!(count(&first, "parameters", "refused"), Some(1));
    assert_eq!(count(&first, "policies", "adapted"), Some(1), "without ha-mode");
    let again = import(&[]);
    for section in ["users", "vhosts", "permissions", "queues", "exchanges", "bindings"] {
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
