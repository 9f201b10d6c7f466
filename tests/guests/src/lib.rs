//! Guests that misbehave, or differ in one thing, for the tests of the host: each example is one component.

use sluicegate_sdk::RequestView;

/// Whether this is one of the host's trial calls before a plugin counts. Guests that pass them are put into service,
/// and misbehave there.
#[must_use]
pub fn on_trial(request: &dyn RequestView) -> bool {
    request.id() == "probe"
}
