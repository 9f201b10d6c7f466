//! What an engine answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

/// A scripted answer.
#[derive(Debug, Clone)]
pub struct Reply(pub(super) Kind);

#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Text in the shape of the API asked, streamed word by word if a stream is wanted.
    Says { text: String, every: Duration, first: Duration },
    /// The same, but the connection is reset after so many events.
    Cut { text: String, events: usize },
    /// These bytes.
    Plain { status: u16, headers: Vec<(String, String)>, body: Bytes },
    /// No answer, ever.
    Hang,
    /// The connection is closed instead of an answer.
    Reset,
    /// Whatever the test sends.
    Live(Arc<Mutex<Option<mpsc::Receiver<Piece>>>>),
}

#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    Cut,
}

impl Reply {
    /// This text, in the shape of the API that is asked and streamed if a stream is wanted.
    #[must_use]
    pub fn says(text: &str) -> Self {
        Self(Kind::Says { text: text.to_owned(), every: Duration::ZERO, first: Duration::ZERO })
    }

    /// With so long before each word but the first.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        if let Kind::Says { every, .. } = &mut self.0 {
            *every = pause;
        }
        self
    }

    /// With so long before anything is answered.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        if let Kind::Says { first, .. } = &mut self.0 {
            *first = pause;
        }
        self
    }

    /// A stream of this text whose connection is reset after so many events.
    #[must_use]
    pub fn cut(text: &str, events: usize) -> Self {
        Self(Kind::Cut { text: text.to_owned(), events })
    }

    /// This very answer.
    #[must_use]
    pub fn plain(status: u16, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self(Kind::Plain { status, headers, body: body.into() })
    }

    /// This very stream of events.
    #[must_use]
    pub fn events(stream: &str) -> Self {
        Self::plain(200, stream.to_owned()).with("content-type", "text/event-stream")
    }

    /// With this header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Kind::Plain { headers, .. } = &mut self.0 {
            headers.retain(|(known, _)| known != name);
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// No answer, ever.
    #[must_use]
    pub fn hang() -> Self {
        Self(Kind::Hang)
    }

    /// The connection is closed instead of an answer.
    #[must_use]
    pub fn reset() -> Self {
        Self(Kind::Reset)
    }

    pub(super) fn live() -> (Self, Live) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(Kind::Live(Arc::new(Mutex::new(Some(receiver))))), Live { sender })
    }
}

/// The test's end of an answer that it sends itself: an event stream with status 200. Dropping it ends the
/// answer properly.
#[derive(Debug)]
pub struct Live {
    sender: mpsc::Sender<Piece>,
}

impl Live {
    /// Sends a server-sent event with this data.
    ///
    /// # Panics
    /// When nobody is there to receive it.
    pub async fn event(&self, data: impl AsRef<str>) {
        let event = format!("data: {}\n\n", data.as_ref());
        self.sender.send(Piece::Data(event.into())).await.expect("the asker went away");
    }

    /// Resets the connection.
    pub async fn cut(self) {
        let _ = self.sender.send(Piece::Cut).await;
    }

    /// Waits until the asker has gone away.
    pub async fn gone(&self) {
        crate::wait::patiently("the engine's asker to go away", self.sender.closed()).await;
    }
}
