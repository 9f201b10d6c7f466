//! Publishing what the cache holds, in vLLM's way: numbered messages over ZeroMQ, and a buffer of the last ones for
//! whoever missed some.

use super::args::Args;
use super::error::EngineError;
use crate::scheduler::{Change, Stored};
use bytes::Bytes;
use parking_lot::Mutex;
use rmp::encode;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

/// Messages that can be asked for again; vLLM's default.
const KEPT: usize = 10_000;

/// Messages that wait to be sent; vLLM's default.
const QUEUED: usize = 100_000;

/// The last messages, with their numbers.
type Kept = Arc<Mutex<VecDeque<(u64, Bytes)>>>;

/// The way to the publisher, if there is one.
#[derive(Debug)]
pub(super) struct KvEvents {
    to: Option<mpsc::Sender<Vec<Change>>>,
    lose: Arc<AtomicU64>,
    /// Messages for which there was no room.
    dropped: Arc<AtomicU64>,
    sources: Value,
}

/// What publishes.
struct Publisher {
    changes: mpsc::Receiver<Vec<Change>>,
    socket: PubSocket,
    topic: Bytes,
    block_size: usize,
    kept: Kept,
    lose: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

impl KvEvents {
    /// Listens where `args` say, and prints where that is. The future publishes until the engine is gone.
    pub(super) async fn start(
        args: &Args,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), EngineError> {
        let (lose, dropped) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let Some(address) = &args.kv_events else {
            return Ok((Self { to: None, lose, dropped, sources: json!({}) }, run(None)));
        };
        let failed = |source| EngineError::Publish { address: address.clone(), source };
        let mut socket = PubSocket::new();
        let endpoint = socket.bind(address).await.map_err(failed)?.to_string();
        println!("kv events on {endpoint}");
        let kept = Kept::default();
        let replay = match &args.kv_events_replay {
            None => None,
            Some(address) => {
                let mut router = RouterSocket::new();
                let endpoint = router.bind(address).await.map_err(failed)?.to_string();
                println!("kv events replay on {endpoint}");
                tokio::spawn(replay(router, args.kv_events_topic.clone().into(), Arc::clone(&kept)));
                Some(endpoint)
            }
        };
        let (to, changes) = mpsc::channel(QUEUED);
        let topic = args.kv_events_topic.clone();
        let sources = json!({"0": {
            "enable_kv_cache_events": true, "publisher": "zmq", "endpoint": endpoint, "replay_endpoint": replay,
            "buffer_steps": KEPT, "topic": topic,
        }});
        let block_size = args.sizes.scheduler().block_size;
        let publisher = Publisher {
            changes,
            socket,
            topic: topic.into(),
            block_size,
            kept,
            lose: Arc::clone(&lose),
            dropped: Arc::clone(&dropped),
        };
        Ok((Self { to: Some(to), lose, dropped, sources }, run(Some(publisher))))
    }

    pub(super) fn is_on(&self) -> bool {
        self.to.is_some()
    }

    /// Publishes what has changed, as one message.
    pub(super) fn publish(&self, changes: Vec<Change>) {
        if let Some(to) = self.to.as_ref().filter(|_| !changes.is_empty())
            && to.try_send(changes).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next messages have their numbers and are not sent.
    pub(super) fn lose(&self, messages: u64) {
        self.lose.store(messages, Ordering::Relaxed);
    }

    /// What `GET /kv_event_sources` answers.
    pub(super) fn sources(&self) -> Value {
        self.sources.clone()
    }
}

async fn run(publisher: Option<Publisher>) {
    let Some(mut publisher) = publisher else { return };
    let mut number: u64 = 0;
    while let Some(changes) = publisher.changes.recv().await {
        number += publisher.dropped.swap(0, Ordering::Relaxed);
        let payload = message(changes, publisher.block_size);
        {
            let mut kept = publisher.kept.lock();
            if kept.len() >= KEPT {
                kept.pop_front();
            }
            kept.push_back((number, payload.clone()));
        }
        let lost =
            publisher.lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if lost.is_err() {
            let frames = [publisher.topic.clone(), number.to_be_bytes().to_vec().into(), payload];
            let _nobody_listens = publisher.socket.send(frames_of(frames)).await;
        }
        number += 1;
    }
}

async fn replay(mut router: RouterSocket, topic: Bytes, kept: Kept) {
    while let Ok(asked) = router.recv().await {
        let asked = asked.into_vec();
        let (Some(who), Some(from)) = (asked.first(), asked.last()) else { continue };
        let Ok(from) = <[u8; 8]>::try_from(&**from).map(u64::from_be_bytes) else { continue };
        let kept: Vec<_> = kept.lock().iter().filter(|(number, _)| *number >= from).cloned().collect();
        let end = (u64::MAX, Bytes::new());
        for (number, payload) in kept.into_iter().chain([end]) {
            let topic = if number == u64::MAX { Bytes::new() } else { topic.clone() };
            let frames = [who.clone(), Bytes::new(), topic, number.to_be_bytes().to_vec().into(), payload];
            let _gone = router.send(frames_of(frames)).await;
        }
    }
}

fn frames_of<const N: usize>(frames: [Bytes; N]) -> ZmqMessage {
    let [first, rest @ ..] = frames.as_slice() else { return Bytes::new().into() };
    let mut message = ZmqMessage::from(first.clone());
    rest.iter().for_each(|frame| message.push_back(frame.clone()));
    message
}

/// Blocks that follow each other are one event, as in vLLM.
enum Event {
    Stored(Vec<Stored>),
    Removed(u64),
}

fn events(changes: Vec<Change>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for change in changes {
        match change {
            Change::Removed(hash) => events.push(Event::Removed(hash)),
            Change::Stored(stored) => match events.last_mut() {
                Some(Event::Stored(run))
                    if run.last().is_some_and(|last| {
                        stored.parent == Some(last.hash) && stored.adapter == last.adapter
                    }) =>
                {
                    run.push(stored)
                }
                _ => events.push(Event::Stored(vec![stored])),
            },
        }
    }
    events
}

/// `[time, [event, …], rank]`; writing into memory does not fail.
fn message(changes: Vec<Change>, block_size: usize) -> Bytes {
    let mut out = Vec::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let events = events(changes);
    let _ = encode::write_array_len(&mut out, 3);
    let _ = encode::write_f64(&mut out, now.as_secs_f64());
    let _ = encode::write_array_len(&mut out, length(events.len()));
    for event in &events {
        match event {
            Event::Stored(blocks) => stored(&mut out, blocks, block_size),
            Event::Removed(hash) => removed(&mut out, *hash),
        }
    }
    let _ = encode::write_uint(&mut out, 0);
    out.into()
}

fn stored(out: &mut Vec<u8>, blocks: &[Stored], block_size: usize) {
    let Some(first) = blocks.first() else { return };
    let _ = encode::write_map_len(out, 11);
    text(out, "type", Some("BlockStored"));
    let _ = encode::write_str(out, "block_hashes");
    let _ = encode::write_array_len(out, length(blocks.len()));
    blocks.iter().for_each(|block| number(out, Some(block.hash)));
    let _ = encode::write_str(out, "parent_block_hash");
    number(out, first.parent);
    let _ = encode::write_str(out, "token_ids");
    let _ = encode::write_array_len(out, length(blocks.iter().map(|block| block.tokens.len()).sum()));
    blocks.iter().flat_map(|block| &block.tokens).for_each(|token| number(out, Some((*token).into())));
    let _ = encode::write_str(out, "block_size");
    number(out, Some(block_size as u64));
    text(out, "lora_id", None);
    text(out, "medium", Some("GPU"));
    text(out, "lora_name", first.adapter.as_deref());
    let _ = encode::write_str(out, "extra_keys");
    let _ = encode::write_array_len(out, length(blocks.len()));
    for block in blocks {
        let keys: Vec<&str> =
            [&block.adapter, &block.salt].into_iter().flatten().map(String::as_str).collect();
        if keys.is_empty() {
            let _ = encode::write_nil(out);
        } else {
            let _ = encode::write_array_len(out, length(keys.len()));
            keys.iter().for_each(|key| _ = encode::write_str(out, key));
        }
    }
    let _ = encode::write_str(out, "group_idx");
    number(out, Some(0));
    text(out, "kv_cache_spec_kind", Some("full_attention"));
}

fn removed(out: &mut Vec<u8>, hash: u64) {
    let _ = encode::write_map_len(out, 4);
    text(out, "type", Some("BlockRemoved"));
    let _ = encode::write_str(out, "block_hashes");
    let _ = encode::write_array_len(out, 1);
    number(out, Some(hash));
    text(out, "medium", Some("GPU"));
    let _ = encode::write_str(out, "group_idx");
    number(out, Some(0));
}

fn text(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    let _ = encode::write_str(out, name);
    match value {
        Some(value) => _ = encode::write_str(out, value),
        None => _ = encode::write_nil(out),
    }
}

fn number(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => _ = encode::write_uint(out, value),
        None => _ = encode::write_nil(out),
    }
}

fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(hash: u64, parent: Option<u64>) -> Change {
        Change::Stored(Stored { hash, parent, tokens: vec![1, 2], adapter: None, salt: None })
    }

    #[test]
    fn blocks_that_follow_each_other_are_one_event() {
        let changes =
            vec![block(1, None), block(2, Some(1)), Change::Removed(9), block(3, Some(2)), block(4, None)];
        let shapes: Vec<_> = events(changes)
            .iter()
            .map(|event| match event {
                Event::Stored(run) => run.len(),
                Event::Removed(_) => 0,
            })
            .collect();
        assert_eq!(shapes, [2, 0, 1, 1]);
    }
}
