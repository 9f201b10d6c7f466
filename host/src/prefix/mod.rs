//! Who has which beginning of a prompt in its cache.
//!
//! A prompt is cut into blocks whose hashes are chained ([`hash`]), so that one hash stands for everything
//! before it. The [`index`] remembers which endpoint was sent which chains and forgets as the engines do; where
//! engines report what they hold, [`exact`] knows it. [`rendezvous`] spreads prompts that nobody has; [`sessions`]
//! remembers where a conversation was.
//! All of it is a belief about other processes: bounded, cheap, and corrected when they say otherwise.

pub mod exact;
pub mod hash;
pub mod index;
pub mod rendezvous;
pub mod sessions;

pub use exact::Exact;
pub use hash::{MAX_BLOCKS, block_hashes, seed, token_hashes};
pub use index::Index;
pub use rendezvous::weight;
pub use sessions::{Session, Sessions};
