//! The numbers of a publisher's messages: whether one is the next, and what it means when it is not.

/// What a message's number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// It is the very first of a publisher that has just begun.
    Beginning,
    /// It is the first that came, and others came before it.
    Joined,
    /// It follows the one before.
    Next,
    /// Those from this number on are missing.
    Gap(u64),
    /// It was there before.
    Repeated,
    /// The publisher has begun anew.
    Restarted,
}

/// The numbers of one publisher's messages so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sequence {
    /// The number that is due; none before the first.
    due: Option<u64>,
    /// What came by replay comes live as well, up to here.
    overlap: u64,
}

impl Sequence {
    /// Judges a message that came live.
    pub(super) fn judge(self, number: u64) -> Order {
        match self.due {
            None if number == 0 => Order::Beginning,
            None => Order::Joined,
            Some(due) if number == due => Order::Next,
            Some(due) if number > due => Order::Gap(due),
            Some(_) if number < self.overlap => Order::Repeated,
            Some(_) => Order::Restarted,
        }
    }

    /// This message has been taken.
    pub(super) fn took(&mut self, number: u64) {
        self.due = Some(number.saturating_add(1));
        if number >= self.overlap {
            self.overlap = 0;
        }
    }

    /// The number that is due.
    pub(super) fn due(self) -> Option<u64> {
        self.due
    }

    /// Messages before the one that is due may come again.
    pub(super) fn may_overlap(&mut self) {
        self.overlap = self.due.unwrap_or(0);
    }

    /// Nothing comes again: the connection is a new one.
    pub(super) fn reconnected(&mut self) {
        self.overlap = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_follow_are_told_apart() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.judge(0), Order::Beginning);
        assert_eq!(sequence.judge(4), Order::Joined);
        sequence.took(4);
        assert_eq!(sequence.judge(5), Order::Next);
        assert_eq!(sequence.judge(7), Order::Gap(5));
        assert_eq!(sequence.judge(4), Order::Restarted);
        assert_eq!(sequence.judge(0), Order::Restarted);
    }

    #[test]
    fn what_was_replayed_may_come_again_until_something_newer_comes() {
        let mut sequence = Sequence::default();
        sequence.took(9);
        sequence.may_overlap();
        assert_eq!(sequence.judge(3), Order::Repeated);
        assert_eq!(sequence.judge(9), Order::Repeated);
        assert_eq!(sequence.judge(10), Order::Next);
        sequence.took(10);
        assert_eq!(sequence.judge(9), Order::Restarted);
        sequence.may_overlap();
        sequence.reconnected();
        assert_eq!(sequence.judge(9), Order::Restarted);
    }
}
