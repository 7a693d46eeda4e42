//! `fourfold debug` on the folder of a stopped server, whole and damaged.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use crate::child::{Folder, Server, fourfold, text};
use server::clock::wait_until;

fn debug(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = fourfold();
    command.arg("debug").arg(arguments[0]).arg("--data").arg(folder.join("data")).args(&arguments[1..]);
    command.output().unwrap()
}

// A topic with a few messages, one of which would clear a terminal; enough of another to be settled.
fn stopped() -> Folder {
    let folder = Folder::new();
    let mut server = Server::start(&folder.0);
    assert!(server.cli(&["topic", "create", "orders"]).status.success());
    assert!(server.cli(&["topic", "create", "bulk"]).status.success());
    let kafka = server.door("kafka").parse().unwrap();
    for n in 0..5 {
        crate::rig::raw_kafka::produce(kafka, "orders", &format!("order {n} \u{1b}[2J"));
    }
    for _ in 0..40 {
        crate::rig::raw_kafka::produce(kafka, "bulk", &"b".repeat(400_000));
    }
    let refused = debug(&folder.0, &["segments"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("in use by another process"), "{}", text(&refused.stderr));
    server.child.kill().unwrap();
    assert!(server.ended(Duration::from_secs(10)).is_some());
    folder
}

fn files(folder: &Path, of: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("data").join(of)).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut files: Vec<PathBuf> = entries.unwrap_or_default().into_iter().map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let names = [files(folder, "journal"), files(folder, "packs"), files(folder, "")].concat();
    names.into_iter().filter(|name| name.is_file()).map(|name| (name.clone(), std::fs::read(name).unwrap())).collect()
}

#[test]
fn a_stopped_folder_is_listed_dumped_and_verified_and_nothing_changes() {
    let folder = stopped();
    let before = snapshot(&folder.0);
    let listed = text(&debug(&folder.0, &["segments"]).stdout);
    assert!(listed.contains("orders/0") && listed.contains("00000000000000000000"), "{listed}");
    assert!(listed.contains("packs/") || listed.contains("segments/"), "something is settled: {listed}");
    let json = debug(&folder.0, &["segments", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let messages: u64 = json["segments"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["name"] == "orders/0")
        .map(|row| row["messages"].as_u64().unwrap())
        .sum();
    assert_eq!(messages, 5);
    let found = debug(&folder.0, &["segments", "--of", "bulk/0", "--offset", "39", "-o", "json"]);
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    let [row] = &found["segments"].as_array().unwrap()[..] else { panic!("{found}") };
    assert!(row["name"] == "bulk/0" && row["last"].as_u64().is_some_and(|last| last >= 39), "{row}");
    assert_eq!(row["first"].as_str().map(str::len), Some(20), "{row}");
    assert_eq!(debug(&folder.0, &["segments", "--of", "nothing"]).status.code(), Some(1));
    let dumped = text(&debug(&folder.0, &["dump", "orders/0", "--from", "3"]).stdout);
    assert_eq!(dumped.lines().count(), 2, "{dumped}");
    assert!(dumped.starts_with("3 ") && dumped.contains("order 3 \\x1b[2J") && !dumped.contains('\u{1b}'), "{dumped}");
    let none = debug(&folder.0, &["dump", "orders/0", "--count", "0"]);
    assert!(none.status.success() && none.stdout.is_empty(), "{}{}", text(&none.stdout), text(&none.stderr));
    let journal = files(&folder.0, "journal").remove(0);
    let name = format!("journal/{}", journal.file_name().unwrap().to_str().unwrap());
    let dumped = text(&debug(&folder.0, &["dump", &name]).stdout);
    assert!(dumped.contains("entry ") && dumped.contains("extent log "), "{dumped}");
    let missing = debug(&folder.0, &["dump", "nothing/7"]);
    assert_eq!(missing.status.code(), Some(1));
    let verified = debug(&folder.0, &["verify"]);
    assert_eq!(text(&verified.stdout), "nothing is damaged\n", "{}", text(&verified.stderr));
    assert!(verified.status.success() && verified.stderr.is_empty(), "no bar where nobody looks");
    assert!(before == snapshot(&folder.0), "looking changes nothing");
    let nowhere = fourfold().args(["debug", "verify", "--data", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn damage_is_listed_with_what_it_hits_and_left_as_it_is() {
    let folder = stopped();
    // A flipped bit in what is settled, and one in a copy of the checkpoint.
    let json = debug(&folder.0, &["segments", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let rows = json["segments"].as_array().unwrap();
    let file =
        |row: &serde_json::Value| row["file"].as_str().filter(|file| !file.starts_with("journal/")).map(str::to_owned);
    let bulk = rows.iter().filter(|row| row["name"] == "bulk/0").find_map(file).expect("something is settled");
    let settled = folder.0.join("data").join(bulk);
    flip(&settled, 300);
    flip(&folder.0.join("data/checkpoint.copy"), 40);
    let before = snapshot(&folder.0);
    let verified = debug(&folder.0, &["verify"]);
    let list = text(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{list}");
    assert!(
        list.contains("checkpoint.copy") && list.contains(settled.file_name().unwrap().to_str().unwrap()),
        "{list}"
    );
    assert!(list.contains("bulk/0"), "{list}");
    assert!(before == snapshot(&folder.0), "looking changes nothing");
    running_names_it(&folder, settled.strip_prefix(folder.0.join("data")).unwrap().to_str().unwrap());
}

// A server on that folder starts, and names both in its log, its API and its metrics.
fn running_names_it(folder: &Folder, settled: &str) {
    let mut command = crate::child::serve_command(&folder.0);
    let log = std::fs::File::create(folder.0.join("log")).unwrap();
    command.args(["--storage-scrub-bytes", "64MiB"]).stderr(log);
    let server = Server::start_with(command, &folder.0);
    let ask = |path: &str| {
        let guest = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
        crate::cli::raw(server.door("http"), &format!("GET {path} HTTP/1.1\r\n{guest}\r\n\r\n"))
    };
    let counted = || ask("/metrics").lines().any(|line| line == "fourfold_damaged_ranges 2");
    assert!(wait_until(Duration::from_secs(30), counted), "{}", ask("/metrics"));
    let listed = ask("/api/v1/damage");
    for name in ["checkpoint.copy", settled] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
    for name in ["checkpoint.copy", settled] {
        assert!(log.contains(name), "{name} is not in the log: {log}");
    }
}

#[test]
fn repair_says_what_it_would_do_and_does_it_only_when_told() {
    let folder = stopped();
    let clean = debug(&folder.0, &["repair"]);
    assert!(clean.status.success(), "{}", text(&clean.stderr));
    let said = text(&clean.stdout);
    assert!(!said.contains("lost with it"), "{said}");
    let copy = folder.0.join("data/checkpoint.copy");
    flip(&copy, 40);
    let pack = [files(&folder.0, "packs"), own_segments(&folder.0)].concat().remove(0);
    let len = std::fs::metadata(&pack).unwrap().len() as usize;
    flip(&pack, len - 100); // in the trailer that says where the index is, or the index
    let before = snapshot(&folder.0);
    let dry = debug(&folder.0, &["repair"]);
    let said = text(&dry.stdout);
    assert!(dry.status.success() && said.contains("to be made again: checkpoint.copy"), "{said}");
    assert!(said.contains("index, from its data") && said.contains("nothing was changed: add --yes"), "{said}");
    assert!(before == snapshot(&folder.0), "a dry run changes nothing");
    let json = debug(&folder.0, &["repair", "--yes", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["done"].as_bool(), json["rebuilt"].as_array().unwrap().len()), (Some(true), 2), "{json}");
    let verified = debug(&folder.0, &["verify"]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    // What was acknowledged and is damaged stays, with its name and a word on how to go on.
    flip(&pack, 300);
    let before = std::fs::read(&pack).unwrap();
    let left = debug(&folder.0, &["repair", "--yes"]);
    let said = text(&left.stdout);
    assert_eq!(left.status.code(), Some(1), "{said}");
    assert!(said.contains("left as it is") && said.contains("/0\n") && said.contains("To go on without it"), "{said}");
    assert!(before == std::fs::read(&pack).unwrap());
}

fn own_segments(folder: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder.join("data/segments")).map(|entries| entries.flatten().collect::<Vec<_>>());
    let folders = folders.unwrap_or_default();
    folders.iter().flat_map(|of| std::fs::read_dir(of.path()).unwrap().flatten()).map(|entry| entry.path()).collect()
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}
