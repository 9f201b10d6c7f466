//! What a plugin may make the host write and keep, besides its `store` and its series.
//!
//! Counted per plugin name over all instances and versions: a bound for each instance would grow with the
//! load, and one for each version with the swaps. What is over a bound is dropped and counted, so that an
//! operator sees it; nothing here fails a call.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::{Nanos, SECOND};
use crate::policy::ColumnId;

/// Log lines a second.
pub(super) const MAX_LINES: u32 = 50;
/// Columns under `label:` and `metric:`. The process keeps some thousands for all plugins together.
pub(super) const MAX_COLUMNS: usize = 256;
/// Texts that were given a number by `intern`.
pub(super) const MAX_TEXTS: usize = 4_096;

/// What was dropped. [`Dropped::as_str`] is the metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// A log line over [`MAX_LINES`].
    LogLine,
    /// The end of a long log line.
    LogText,
    /// An update of a series over the bounds of its kind.
    Series,
    /// A write to the store over its bounds.
    StoreWrite,
    /// A column that was not resolved.
    Column,
    /// A text that got no number.
    Text,
}

impl Dropped {
    /// Every kind, for metrics that must exist before they count.
    pub const ALL: [Self; 6] =
        [Self::LogLine, Self::LogText, Self::Series, Self::StoreWrite, Self::Column, Self::Text];

    /// The metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LogLine => "log_line",
            Self::LogText => "log_text",
            Self::Series => "series",
            Self::StoreWrite => "store_write",
            Self::Column => "column",
            Self::Text => "text",
        }
    }
}

/// Whether a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// It is.
    Write,
    /// It is the first of this second that is not.
    FirstDropped,
    /// It is not.
    Dropped,
}

#[derive(Debug, Default)]
struct Inner {
    window: Nanos,
    lines: u32,
    columns: HashSet<ColumnId>,
    texts: HashSet<(Box<str>, Box<str>)>,
}

/// The bounds of one plugin, and how much of them is used.
#[derive(Debug, Default)]
pub(super) struct Quota {
    inner: Mutex<Inner>,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

impl Quota {
    /// Counts a line of the log.
    pub(super) fn line(&self, now: Nanos) -> Line {
        let mut inner = self.inner.lock();
        if now.saturating_sub(inner.window) >= SECOND {
            (inner.window, inner.lines) = (now, 0);
        }
        inner.lines = inner.lines.saturating_add(1);
        if inner.lines <= MAX_LINES {
            return Line::Write;
        }
        self.count(Dropped::LogLine);
        if inner.lines == MAX_LINES + 1 { Line::FirstDropped } else { Line::Dropped }
    }

    /// Whether there is room for one more column; those that are taken already always have room.
    pub(super) fn has_room_for_column(&self, known: Option<ColumnId>) -> bool {
        let inner = self.inner.lock();
        inner.columns.len() < MAX_COLUMNS || known.is_some_and(|id| inner.columns.contains(&id))
    }

    /// Takes the room of a column.
    pub(super) fn take_column(&self, id: ColumnId) {
        self.inner.lock().columns.insert(id);
    }

    /// Takes the room of a text, if there is room or it has some.
    pub(super) fn take_text(&self, key: &str, text: &str) -> bool {
        let mut inner = self.inner.lock();
        let entry = (key.into(), text.into());
        let taken = inner.texts.len() < MAX_TEXTS || inner.texts.contains(&entry);
        if taken {
            inner.texts.insert(entry);
        }
        taken
    }

    /// Counts something that was dropped.
    pub(super) fn count(&self, what: Dropped) {
        if let Some((_, count)) = Dropped::ALL.iter().zip(&self.dropped).find(|(kind, _)| **kind == what) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How much was dropped, by kind.
    pub(super) fn dropped(&self) -> impl Iterator<Item = (Dropped, u64)> + '_ {
        Dropped::ALL.into_iter().zip(&self.dropped).map(|(what, count)| (what, count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(quota: &Quota, wanted: Dropped) -> u64 {
        quota.dropped().find(|(what, _)| *what == wanted).map_or(0, |(_, count)| count)
    }

    #[test]
    fn lines_over_the_bound_are_dropped_until_the_second_is_over() {
        let quota = Quota::default();
        for _ in 0..MAX_LINES {
            assert_eq!(quota.line(0), Line::Write);
        }
        assert_eq!(quota.line(0), Line::FirstDropped);
        assert_eq!(quota.line(SECOND - 1), Line::Dropped);
        assert_eq!(quota.line(SECOND), Line::Write);
        assert_eq!(dropped(&quota, Dropped::LogLine), 2);
    }

    #[test]
    fn columns_and_texts_that_are_taken_keep_their_room() {
        let quota = Quota::default();
        for id in (0..).take(MAX_COLUMNS) {
            assert!(quota.has_room_for_column(None));
            quota.take_column(ColumnId(id));
        }
        assert!(!quota.has_room_for_column(None));
        assert!(!quota.has_room_for_column(Some(ColumnId(u32::MAX))));
        assert!(quota.has_room_for_column(Some(ColumnId(0))));
        for text in 0..MAX_TEXTS {
            assert!(quota.take_text("zone", &text.to_string()));
        }
        assert!(!quota.take_text("zone", "one more"));
        assert!(quota.take_text("zone", "0"));
    }
}
