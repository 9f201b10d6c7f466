//! What a call was about, while it is under way.

use std::sync::Arc;

use super::{Candidates, Case, Function, With};
use crate::clock::{MILLI, Nanos};
use crate::config::PluginConfig;
use crate::policy::{ColumnId, EndpointView, Event, Facts, Flows, Registry, Request};

/// Events of one case at most.
const MAX_EVENTS: usize = 4_096;
/// Bytes of a saved state at most.
const MAX_STATE: usize = 256 * 1024;

/// A call to be written down.
#[derive(Debug, Clone, Copy)]
pub(in crate::plugin) struct Question<'a> {
    pub(in crate::plugin) call: Function,
    pub(in crate::plugin) with: With<'a>,
    pub(in crate::plugin) request: Option<&'a Request>,
    pub(in crate::plugin) endpoints: Option<&'a Arc<dyn EndpointView>>,
    pub(in crate::plugin) flows: Option<&'a Flows>,
    pub(in crate::plugin) events: Option<&'a [Event]>,
    pub(in crate::plugin) state: Option<&'a [u8]>,
}

impl<'a> Question<'a> {
    /// A call about nothing.
    pub(in crate::plugin) fn new(call: Function) -> Self {
        Self {
            call,
            with: With::Nothing,
            request: None,
            endpoints: None,
            flows: None,
            events: None,
            state: None,
        }
    }

    /// As a case of the plugin that was asked.
    pub(super) fn case(
        &self,
        config: &PluginConfig,
        digest: &str,
        now: Nanos,
        (columns, registry): (&[ColumnId], &Registry),
    ) -> Case {
        let endpoints = self.endpoints.map(|view| Candidates::seen(&**view, columns, registry));
        let mut case = Case {
            clock_ms: now / MILLI,
            request: self.request.map(|request| Facts::of(request, now)),
            flows: self.flows.map(|flows| flows.rows.clone()),
            events: self.events.map(|events| events.iter().take(MAX_EVENTS).cloned().collect()),
            state: self.state.filter(|state| state.len() <= MAX_STATE).map(hex),
            cut: self.cut(endpoints.as_ref()),
            endpoints,
            ..Case::new(config, digest, self.call)
        };
        self.with.write(&mut case);
        case
    }

    fn cut(&self, kept: Option<&Candidates>) -> Option<String> {
        let all = self.endpoints.map_or(0, |view| view.len());
        let kept = kept.map_or(0, Candidates::len);
        if kept < all {
            return Some(format!("{kept} of {all} candidates are kept"));
        }
        let events = self.events.map_or(0, <[Event]>::len);
        if events > MAX_EVENTS {
            return Some(format!("{MAX_EVENTS} of {events} events are kept"));
        }
        let state = self.state.map_or(0, <[u8]>::len);
        (state > MAX_STATE).then(|| format!("a state of {state} bytes is not kept"))
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// And back.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()
        })
        .collect()
}
