//! The one configured policy of an instance.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::Policy;

/// The memory of an instance: nothing until it is configured.
pub struct Instance<P>(RefCell<Option<P>>);

impl<P> Instance<P> {
    /// An instance that waits to be configured.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "made in a const, where a default cannot be")]
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }
}

/// A type that stands for a policy towards the bindings: the traits that these generate are implemented for
/// every such type, so that a plugin implements the traits of this crate alone.
pub trait Exported: 'static {
    /// The policy.
    type Policy: Policy;
    /// Where it is kept.
    fn instance() -> &'static LocalKey<Instance<Self::Policy>>;
}

/// Keeps a configured policy.
pub(super) fn put<E: Exported>(policy: E::Policy) {
    E::instance().with(|instance| *instance.0.borrow_mut() = Some(policy));
}

/// Calls a stage of the configured policy.
#[expect(clippy::panic, reason = "a host that calls a stage before `configure` breaks the contract")]
pub(super) fn call<E: Exported, R>(stage: impl FnOnce(&mut E::Policy) -> R) -> R {
    E::instance().with(|instance| match instance.0.borrow_mut().as_mut() {
        Some(policy) => stage(policy),
        None => panic!("a stage was called before `configure`"),
    })
}
