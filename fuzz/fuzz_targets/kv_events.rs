//! Bytes as a message of an engine about its KV cache, and what it says into an index that is nearly full.
//!
//! Whatever the bytes are, they are events or dropped, the index promises no more blocks than were named, and nothing is
//! left in it when its source is gone.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sluicegate::kv_events::{Batch, Event};
use sluicegate::prefix::exact::{Exact, Source, Tier};
use sluicegate::types::EndpointId;

fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = Batch::read(bytes) else { return };
    let index = Arc::new(Exact::new(1 << 20));
    let feed = index.open(EndpointId(1), 1);
    let mut source = Source::new(&index, &feed);
    let mut named = 0;
    for event in batch.events.iter().flatten() {
        match event {
            Event::Stored(stored) => {
                named += stored.blocks.len();
                let _ = source.stored(stored);
            }
            Event::Removed { blocks, tier, group } => _ = source.removed(blocks, *tier, *group),
            Event::Cleared => while source.forget_some() {},
        }
        let held: usize = Tier::ALL.iter().map(|tier| index.blocks(*tier)).sum();
        assert!(held <= named, "{held} blocks are held and {named} were named");
    }
    drop(source);
    assert!(Tier::ALL.iter().all(|tier| index.blocks(*tier) == 0), "blocks without a source");
});
