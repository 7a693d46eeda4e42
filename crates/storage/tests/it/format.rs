//! The worked example of FORMAT.md, opened by storage: the page and the program cannot drift apart unnoticed.

use std::collections::BTreeMap;

use crate::common::{open, read_all};
use model::{LogId, Offset};
use storage::{LogRange, Owner, SimDisk};

// Blocks ```hex NAME AT… with bytes as two digits, up to three spaces and a remark.
fn files_of_the_page() -> BTreeMap<String, Vec<u8>> {
    let page = include_str!("../../../../FORMAT.md");
    let mut files = BTreeMap::<String, Vec<u8>>::new();
    for block in page.split("```hex ").skip(1) {
        let block = block.split("```").next().unwrap();
        let (head, body) = block.split_once('\n').unwrap();
        let mut head = head.split(' ');
        let file = files.entry(head.next().unwrap().to_owned()).or_default();
        let digits = body.lines().flat_map(|line| line.split("   ").next().unwrap().split_whitespace());
        let bytes: Vec<u8> = digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        for at in head.map(|at| at.parse::<usize>().unwrap()) {
            file.resize(file.len().max(at + bytes.len()), 0);
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
    files
}

#[test]
fn the_example_of_format_md_is_what_storage_reads() {
    let files = files_of_the_page();
    assert_eq!(files.len(), 3);
    let state = vec![(Owner { kind: 2, id: 3 }, vec![b"snap".as_slice().into(), b"d".as_slice().into()])];
    let hello = vec![(0, b"hello".to_vec())];
    let five = LogRange { start: Offset(5), end: Offset(5) };

    let disk = SimDisk::new();
    let mut journal = files["journal/00000000000000000001"].clone();
    journal.resize(64 << 10, 0);
    disk.put_bytes("journal/00000000000000000001", journal);
    let (mut storage, recovered) = open(&disk);
    assert_eq!((recovered.damage.len(), recovered.torn_bytes), (0, 0));
    assert_eq!(recovered.state, state);
    assert_eq!(storage.range(LogId(4)), Some(five));
    assert_eq!(read_all(&mut storage, 1), hello);

    let disk = SimDisk::new();
    for name in ["checkpoint", "packs/00000000000000000001"] {
        disk.put_bytes(name, files[name].clone());
    }
    let (mut storage, recovered) = open(&disk);
    assert_eq!(recovered.state, state);
    assert_eq!(storage.range(LogId(4)), Some(five));
    assert_eq!(storage.range(LogId(9)), Some(LogRange { start: Offset(28), end: Offset(28) }));
    assert_eq!(read_all(&mut storage, 1), hello, "out of the pack");
    assert_eq!(recovered.damage[0].file, "journal/00000000000000000003", "its window is not part of the example");
}
