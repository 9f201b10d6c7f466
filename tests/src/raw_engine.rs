//! An engine that answers with bytes, whatever they are.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is done when a request's head has come.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends these bytes and closes.
    Say(Vec<u8>),
    /// Sends these bytes again and again.
    Repeat(Vec<u8>, Vec<u8>),
    /// Sends these bytes and leaves the connection open.
    Hold(Vec<u8>),
    /// Sends these bytes and then whatever comes.
    Echo(Vec<u8>),
}

/// A server whose every answer is one [`Act`]. What the router asks of its own accord is answered 404, so it is up.
#[derive(Debug)]
pub struct RawEngine {
    addr: SocketAddr,
    act: Arc<Mutex<Act>>,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl RawEngine {
    /// One that answers like this.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (act, heads) = (Arc::new(Mutex::new(act)), Arc::<Mutex<Vec<String>>>::default());
        let (acts, seen) = (Arc::clone(&act), Arc::clone(&heads));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, Arc::clone(&acts), Arc::clone(&seen)));
            }
        });
        Self { addr, act, heads, task }
    }

    /// Answers like this from now on.
    pub fn will(&self, act: Act) {
        *self.act.lock().unwrap() = act;
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The id that the router gives it.
    #[must_use]
    pub fn id(&self) -> String {
        self.addr.to_string()
    }

    /// The heads of the requests that came, the router's own left out.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for RawEngine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection(mut stream: TcpStream, act: Arc<Mutex<Act>>, heads: Arc<Mutex<Vec<String>>>) {
    const OWN: [&str; 4] = ["/metrics ", "/health ", "/v1/models ", "/slots "];
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let end = read.windows(4).position(|end| end == b"\r\n\r\n");
        let Some(end) = end else {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => read.extend_from_slice(&buffer[..count]),
            }
            continue;
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        if OWN.iter().any(|path| head.starts_with(&format!("GET {path}"))) {
            read.drain(..end + 4);
            if stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.is_err() {
                return;
            }
            continue;
        }
        heads.lock().unwrap().push(head);
        let act = act.lock().unwrap().clone();
        return perform(stream, act).await;
    }
}

async fn perform(mut stream: TcpStream, act: Act) {
    let mut buffer = [0; 4096];
    match act {
        Act::Say(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            // What is still unread would reset the connection and take the answer with it.
            while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
        }
        Act::Repeat(first, again) => {
            let mut next = &first;
            while stream.write_all(next).await.is_ok() {
                next = &again;
            }
        }
        Act::Hold(bytes) => {
            let _ = stream.write_all(&bytes).await;
            while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
        }
        Act::Echo(bytes) => {
            let _ = stream.write_all(&bytes).await;
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
