//! Reads that have to wait for the disk, while the journal goes on.

use crate::common::oracle::{Change, Pair};
use crate::common::{read_from, tiny};
use model::{LogId, Offset};
use storage::{Read, ReadRequest, SyncPolicy};

fn put(pair: &mut Pair, log: u64) {
    let bytes = tiny().tail_cache_bytes / 4;
    pair.commit(&[Change::Put(vec![(log, 0)], vec![vec![7; bytes]], 1)], SyncPolicy::None).unwrap();
}

#[test]
fn reading_ahead_leaves_out_what_is_not_in_the_file_yet() {
    let mut pair = Pair::new();
    put(&mut pair, 0);
    pair.storage.flush().unwrap();
    for _ in 0..6 {
        put(&mut pair, 1); // the first leaves the tail cache
        pair.storage.flush().unwrap();
    }
    put(&mut pair, 0); // still being built when the reader comes
    let request = ReadRequest { log: LogId(0), from: Offset(0), until: Offset(2), bytes_max: 1 << 20 };
    // Misses of the page cache are drawn by seed: some seed waits for the disk.
    let waits = (1..100).any(|seed| {
        pair.disk.set_cache_misses(seed);
        matches!(pair.storage.read(&request).unwrap(), Read::Pending(_))
    });
    assert!(waits);
    storage::sim_disk::run_jobs(&mut pair.storage).unwrap();
    pair.storage.flush().unwrap();
    for _ in 0..6 {
        put(&mut pair, 1); // now the second leaves it too
        pair.storage.flush().unwrap();
    }
    let (read, error) = read_from(&mut pair.storage, 0, 1);
    assert_eq!((read.len(), error), (1, None), "what was read ahead of its writing would look damaged");
}
