//! What is written is read again, and nothing else is.

use proptest::prelude::*;

use super::*;

fn snapshot() -> Snapshot {
    let end = End { endpoint: 0, held: 2, stamp: 7 };
    Snapshot {
        at_unix_ms: 1_764_000_000_000,
        pools: vec![OfPool {
            name: "llama".into(),
            cut: u64::MAX,
            measure: 1.25,
            endpoints: vec![OfEndpoint {
                name: "[::1]:8000".into(),
                started: 1_764_000_000,
                learned: [12.5, 3.0, 9_000.0, 0.0],
            }],
            prefixes: vec![
                PrefixNode { parent: None, run: vec![1, 2], ends: vec![end] },
                PrefixNode { parent: Some(0), run: vec![u64::MAX], ends: vec![End { held: 1, ..end }] },
            ],
            sessions: vec![OfSession { digest: u128::MAX, endpoint: 0, turns: 3, age_ms: 1_000 }],
            saved: vec![("fairness".into(), vec![0, 255])],
        }],
        plugins: vec![OfPlugin {
            name: "mine".into(),
            values: vec![
                Stored { key: "a".into(), value: vec![1], ttl_ms: None },
                Stored { key: "b".into(), value: Vec::new(), ttl_ms: Some(0) },
            ],
        }],
    }
}

#[test]
fn what_is_written_is_read_again() {
    assert_eq!(read(&write(&snapshot())), Ok(snapshot()));
    assert_eq!(read(&write(&Snapshot::default())), Ok(Snapshot::default()));
}

#[test]
fn what_was_cut_off_or_changed_is_nothing() {
    let bytes = write(&snapshot());
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "{end}");
    }
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        assert!(read(&changed).is_err(), "{place}");
    }
    let mut newer = bytes;
    newer[8] = 9;
    assert_eq!(read(&newer), Err(ReadError::Version(9)));
    assert_eq!(read(b"#!/bin/sh\n"), Err(ReadError::Foreign));
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = format::body(&bytes);
    }

    #[test]
    fn changed_bytes_behind_a_right_digest_do_none(place in 0..200_usize, byte in any::<u8>()) {
        let mut bytes = write(&snapshot())[20..].to_vec();
        let place = place % bytes.len();
        bytes[place] = byte;
        let _ = format::body(&bytes);
    }
}
