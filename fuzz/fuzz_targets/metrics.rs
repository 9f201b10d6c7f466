//! Bytes as the page of an engine's metrics, cut anywhere.
//!
//! What is read does not depend on the cuts.
#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use sluicegate::policy::Registry;
use sluicegate::pool::Report;
use sluicegate::scrape::{Parser, Wanted};

thread_local! {
    static WANTED: LazyCell<Wanted> = LazyCell::new(|| {
        let registry = Registry::default();
        for series in ["metric:a", "metric:vllm:num_requests_running{engine=0}"] {
            registry.resolve(series).expect("no series");
        }
        Wanted::new(registry.series())
    });
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, page)) = bytes.split_first() else { return };
    let read = |size: usize| {
        WANTED.with(|wanted| {
            let mut parser = Parser::new(wanted);
            for piece in page.chunks(size) {
                parser.feed(piece);
            }
            let mut report = Report::default();
            parser.finish().fill(&mut report);
            format!("{report:?}")
        })
    };
    assert_eq!(read(page.len().max(1)), read(usize::from(*size).max(1)), "what is read depends on the cuts");
});
