//! Scores endpoints by what serving a request there costs, in one unit: milliseconds.
//!
//! An endpoint that holds the prompt's prefix has less to compute, one with a queue has more to wait for; both
//! are time to this request's first token. Computing again what another endpoint holds takes time from others too:
//! they wait behind it, and what they have cached makes room for it. So staying with the cache is right exactly while
//! it is cheaper for all together than recomputing elsewhere, and there is no threshold between affinity and balance
//! to tune. What the estimate cannot tell apart is decided by rendezvous, so that replicas that do not talk agree.

mod cold;
mod config;
mod score;
mod ttft;

pub use config::Config;
pub use score::PrefixAffinity;

sluicegate_sdk::export!(PrefixAffinity: scorer);
