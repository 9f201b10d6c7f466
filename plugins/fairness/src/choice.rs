//! The parts that a configuration may choose.

use sluicegate_sdk::config::{__Json as Json, Limits, Value};

/// Declares a choice of words and reads it from a configuration.
macro_rules! choice {
    ($(#[doc = $about:literal])* $name:ident { $($(#[doc = $doc:literal])* $variant:ident = $word:literal,)* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $doc])* $variant,)* }

        impl Value for $name {
            fn schema(_: Limits) -> String {
                let words = [$(concat!("\"", $word, "\""),)*];
                format!("\"enum\":[{}]", words.join(","))
            }
            fn read(json: &Json, _: Limits) -> Result<Self, String> {
                match json.as_str() {
                    $(Some($word) => Ok(Self::$variant),)*
                    _ => Err(format!("expected one of {}", [$($word,)*].join(", "))),
                }
            }
            fn write(&self) -> String {
                match self { $(Self::$variant => concat!("\"", $word, "\"").into(),)* }
            }
        }
    };
}

choice! {
    /// Which flow of a band goes next.
    Between {
        /// The one that has had the least service for its weight since it came.
        Vtc = "vtc",
        /// Deficit round robin: each in turn, as many tokens as its weight allows.
        Drr = "drr",
        /// Each in turn, one request.
        RoundRobin = "round-robin",
        /// The one that has had the least service of late.
        Las = "las",
        /// The one whose head came first.
        Fcfs = "fcfs",
    }
}

choice! {
    /// Which request of a flow goes next.
    Within {
        /// Later turns of a session first, and who waits gains on them.
        Turns = "turns",
        /// Who came first.
        Fcfs = "fcfs",
        /// Whose target for the first token, or whose patience, is over first.
        Edf = "edf",
        /// Who finds most of his prompt in a cache, and who waits gains on them.
        LongestPrefix = "longest-prefix",
    }
}
