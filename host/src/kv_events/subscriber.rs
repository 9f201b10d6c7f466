//! One publisher's messages, from the socket into the index.
//!
//! A message is read, taken and forgotten before the next one is read: whoever sends faster than that is slowed
//! down by the socket, and drops messages by itself. Its numbers then show a gap, and what cannot be filled by
//! asking again makes all that was known of the engine void, because a block that is gone might be among it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::yield_now;
use xxhash_rust::xxh3::xxh3_64;

use super::batch::Batch;
use super::replay::Replay;
use super::sequence::{Order, Sequence};
use super::sources::Sources;
use super::zmtp::{Connection, Socket, ZmtpError};
use crate::clock::Clock;
use crate::pool::Endpoint;
use crate::prefix::exact::{Dropped, Exact, Feed, Kind, Stream};
use crate::types::{Attach, Publisher, TcpAddress};

/// Time between two attempts to connect, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Blocks that are taken at once; then others have their turn.
const AT_ONCE: usize = 1_024;

/// Who listens to one publisher of an endpoint's engine.
#[derive(Debug)]
pub(super) struct Subscriber {
    feed: Arc<Feed>,
    /// Which of the feed's streams this is.
    number: u32,
    publisher: Publisher,
    endpoint: Arc<Endpoint>,
    clock: Arc<dyn Clock>,
    sequence: Sequence,
    /// The last message: its number, and a hash of it.
    last: Option<(u64, u64)>,
    sources: Sources,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.connected(false);
        self.complete(false);
    }
}

impl Subscriber {
    pub(super) fn new(
        index: &Arc<Exact>,
        feed: &Arc<Feed>,
        number: u32,
        publisher: Publisher,
        endpoint: &Arc<Endpoint>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            feed: Arc::clone(feed),
            number,
            publisher,
            endpoint: Arc::clone(endpoint),
            clock: Arc::clone(clock),
            sequence: Sequence::default(),
            last: None,
            sources: Sources::new(index, feed),
        }
    }

    /// Listens until this future is dropped.
    pub(super) async fn run(mut self) {
        let mut pause = AGAIN.0;
        loop {
            let began = tokio::time::Instant::now();
            let error = match self.publisher.attach.clone() {
                Attach::Connect(address) => self.connect(&address).await,
                Attach::Bind(address) => self.bind(&address).await,
            };
            self.connected(false);
            if began.elapsed() > AGAIN.1 {
                pause = AGAIN.0;
            }
            if pause == AGAIN.0 {
                tracing::warn!(endpoint = %self.endpoint.name, %error, "no reports of its KV cache");
            }
            tokio::time::sleep(pause).await;
            pause = AGAIN.1.min(pause * 2);
        }
    }

    async fn connect(&mut self, address: &TcpAddress) -> ZmtpError {
        let connected = Connection::to(&address.host, address.port, Socket::Subscriber).await;
        let mut connection = match connected {
            Ok(connection) => connection,
            Err(error) => return error,
        };
        if let Err(error) = self.begin(&mut connection).await {
            return error;
        }
        loop {
            match connection.receive().await {
                Ok(frames) => self.message(&frames).await,
                Err(error) => return error,
            }
        }
    }

    /// Lets the publisher connect; who connects later takes the place of who did before.
    async fn bind(&mut self, address: &TcpAddress) -> ZmtpError {
        let host = if address.is_wildcard() { "0.0.0.0" } else { &*address.host };
        let listener = match TcpListener::bind((host, address.port)).await {
            Ok(listener) => listener,
            Err(error) => return error.into(),
        };
        let mut current: Option<Connection> = None;
        loop {
            let received = async {
                match &mut current {
                    Some(connection) => connection.receive().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                came = listener.accept() => match came {
                    Ok((stream, _)) => match Connection::over(stream, Socket::Subscriber).await {
                        Ok(mut connection) => {
                            if self.begin(&mut connection).await.is_ok() {
                                current = Some(connection);
                            }
                        }
                        Err(error) => tracing::debug!(endpoint = %self.endpoint.name, %error, "no publisher"),
                    },
                    Err(error) => return error.into(),
                },
                frames = received => match frames {
                    Ok(frames) => self.message(&frames).await,
                    Err(error) => {
                        tracing::debug!(endpoint = %self.endpoint.name, %error, "the publisher has gone");
                        self.connected(false);
                        current = None;
                    }
                },
            }
        }
    }

    /// Begins to listen on a new connection.
    async fn begin(&mut self, connection: &mut Connection) -> Result<(), ZmtpError> {
        connection.subscribe(&self.publisher.topic).await?;
        self.sequence.reconnected();
        match self.publisher.replay.clone() {
            Some(replay) => {
                if let Err(error) = self.resume(&replay).await {
                    tracing::debug!(endpoint = %self.endpoint.name, %error, "nothing is replayed");
                    self.begin_anew().await;
                }
            }
            // What came between two connections is lost, and nobody knows what it was.
            None => self.begin_anew().await,
        }
        tracing::info!(endpoint = %self.endpoint.name, "listening to the reports of its KV cache");
        self.connected(true);
        Ok(())
    }

    /// Asks for all that came since the last message, or since the beginning.
    async fn resume(&mut self, address: &TcpAddress) -> Result<(), ZmtpError> {
        if let Some((number, digest)) = self.last {
            let mut replay = Replay::from(address, number).await?;
            // That the last message is still the same tells that the engine is.
            let first = replay.next().await?;
            if first.is_some_and(|(first, payload)| first == number && xxh3_64(&payload) == digest) {
                self.take(&mut replay, None).await?;
                self.sequence.may_overlap();
                return Ok(());
            }
            self.sources.give_up();
            self.begin_anew().await;
        }
        let mut replay = Replay::from(address, 0).await?;
        self.take(&mut replay, None).await?;
        self.sequence.may_overlap();
        Ok(())
    }

    /// Takes what is replayed, before the message of a number.
    async fn take(&mut self, replay: &mut Replay, before: Option<u64>) -> Result<(), ZmtpError> {
        let mut count = 0;
        while let Some((number, payload)) = replay.next().await? {
            if before.is_some_and(|before| number >= before) {
                break;
            }
            match self.sequence.judge(number) {
                Order::Beginning => self.complete(true),
                Order::Joined | Order::Next => {}
                Order::Gap(_) => self.forget().await,
                Order::Repeated | Order::Restarted => continue,
            }
            self.apply(number, &payload).await;
            count += 1;
        }
        self.feed.replayed(count);
        Ok(())
    }

    /// Asks for the messages from one number up to another; whether all of them came.
    async fn fill(&mut self, from: u64, before: u64) -> bool {
        let Some(address) = self.publisher.replay.clone() else { return false };
        let filled = async {
            let mut replay = Replay::from(&address, from).await?;
            self.take(&mut replay, Some(before)).await
        };
        let filled: Result<(), ZmtpError> = filled.await;
        if let Err(error) = filled {
            tracing::debug!(endpoint = %self.endpoint.name, %error, "nothing is replayed");
        }
        self.sequence.due() == Some(before)
    }

    async fn message(&mut self, frames: &[Bytes]) {
        let [topic, number, payload] = frames else { return self.feed.dropped(Dropped::Message) };
        if !self.is_about_us(topic) {
            return self.feed.dropped(Dropped::OtherTopic);
        }
        let Ok(number) = <[u8; 8]>::try_from(&**number).map(u64::from_be_bytes) else {
            return self.feed.dropped(Dropped::Message);
        };
        match self.sequence.judge(number) {
            Order::Next => {}
            Order::Beginning => self.complete(true),
            Order::Joined => {
                self.fill(0, number).await;
            }
            Order::Gap(due) => {
                self.feed.missed();
                if !self.fill(due, number).await {
                    self.forget().await;
                }
            }
            Order::Repeated => return self.feed.dropped(Dropped::Repeated),
            Order::Restarted => {
                self.sources.give_up();
                self.begin_anew().await;
                if number == 0 {
                    self.complete(true);
                } else {
                    self.fill(0, number).await;
                }
            }
        }
        self.apply(number, payload).await;
    }

    /// Whether a topic is the one that was asked for. Where topics name the model (`kv@ENDPOINT@MODEL`), the
    /// endpoint must serve it.
    fn is_about_us(&self, topic: &[u8]) -> bool {
        let model = || {
            let topic = std::str::from_utf8(topic).ok()?.strip_prefix("kv@")?;
            topic.split_once('@').map(|(_, model)| model)
        };
        topic.starts_with(self.publisher.topic.as_bytes())
            && model().is_none_or(|model| self.endpoint.lists(model))
    }

    async fn apply(&mut self, number: u64, payload: &[u8]) {
        self.sequence.took(number);
        self.last = Some((number, xxh3_64(payload)));
        let batch = match Batch::read(payload) {
            Ok(batch) => batch,
            Err(why) => {
                self.feed.dropped(why);
                return self.forget().await;
            }
        };
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.feed.heard(self.clock.now(), unix.as_secs_f64() - batch.at);
        let rank = batch.rank.unwrap_or(self.number);
        let mut blocks = 0;
        for event in batch.events {
            let taken = match &event {
                Ok(event) => {
                    blocks += event.blocks();
                    self.sources.take(rank, event).await
                }
                Err(why) => Err(*why),
            };
            match taken {
                Ok(kind) => {
                    self.feed.took(kind);
                    if kind == Kind::Cleared && self.sources.hold_nothing() {
                        self.complete(true);
                    }
                }
                Err(why) => self.doubt(why).await,
            }
            if blocks >= AT_ONCE {
                blocks = 0;
                yield_now().await;
            }
        }
    }

    /// A report changed nothing: what that means for the rest.
    async fn doubt(&mut self, why: Dropped) {
        self.feed.dropped(why);
        match why {
            // It may have said that blocks are gone.
            Dropped::Malformed | Dropped::Message => self.forget().await,
            // The engine holds more than is known.
            Dropped::Full | Dropped::UnknownParent => self.complete(false),
            _ => {}
        }
    }

    /// Nothing that is known is certain any more.
    async fn forget(&mut self) {
        self.complete(false);
        if !self.sources.hold_nothing() {
            self.feed.forgot();
            self.sources.forget().await;
        }
    }

    /// The same, and the next message may have any number.
    async fn begin_anew(&mut self) {
        self.sequence = Sequence::default();
        self.last = None;
        self.forget().await;
    }

    fn stream(&self) -> Option<&Stream> {
        self.feed.streams().get(usize::try_from(self.number).ok()?)
    }

    fn connected(&self, connected: bool) {
        if let Some(stream) = self.stream() {
            stream.set_connected(connected);
        }
    }

    fn complete(&self, complete: bool) {
        if let Some(stream) = self.stream() {
            stream.set_complete(complete);
        }
    }
}
