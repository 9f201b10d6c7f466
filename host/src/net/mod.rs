//! Sockets: where clients connect and how engines are reached, in the clear or with TLS, over TCP or a Unix socket.
//!
//! [`Listener`] and [`ServerTls`] are the side of clients, [`Dialer`] that of engines; both end in a
//! [`Stream`]. A [`Sender`] speaks HTTP/1.1 or HTTP/2 over one that was dialed.

mod dial;
mod listen;
mod pem;
mod sender;
mod stream;
mod tls;
mod verify;

pub use dial::{DialError, Dialer};
pub use listen::{Listener, Peer};
pub use sender::Sender;
pub use stream::Stream;
pub use tls::{ServerTls, TlsError};
