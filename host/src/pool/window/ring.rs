//! Values by the second, of the last minutes only.

use super::KEPT;
use crate::clock::{Nanos, SECOND};

/// Seconds that are kept.
const SECONDS: u64 = KEPT / SECOND;

/// One value a second. A second's slot goes to the one [`KEPT`] later as soon as that is written.
#[derive(Debug, Clone)]
pub(super) struct Ring<T>(Vec<Option<(u64, T)>>);

impl<T: Clone + Default> Default for Ring<T> {
    fn default() -> Self {
        Self(vec![None; usize::try_from(SECONDS).unwrap_or(usize::MAX)])
    }
}

impl<T: Default> Ring<T> {
    /// The value of the second in which `at` lies; none when it is too long ago.
    pub(super) fn at(&mut self, at: Nanos) -> Option<&mut T> {
        let second = at / SECOND;
        let slot = self.0.get_mut(usize::try_from(second % SECONDS).ok()?)?;
        match slot {
            Some((kept, _)) if *kept > second => return None,
            Some((kept, _)) if *kept == second => {}
            _ => *slot = Some((second, T::default())),
        }
        slot.as_mut().map(|(_, value)| value)
    }

    /// The values of the seconds that `from..to` touches, in no order.
    pub(super) fn within(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = &T> {
        let seconds = from / SECOND..to.div_ceil(SECOND);
        self.0.iter().flatten().filter(move |(second, _)| seconds.contains(second)).map(|(_, value)| value)
    }
}
