//! The traffic of each mix.

use super::args::Mix;
use crate::load::{Api, Traffic};

impl Mix {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [Self::Chat, Self::Long, Self::Mixed, Self::LongAnswers, Self::Turns];

    /// Its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Long => "long",
            Self::Mixed => "mixed",
            Self::LongAnswers => "long answers",
            Self::Turns => "turns",
        }
    }

    /// Requests a second: from light load to some nine tenths of what the best set-up can do.
    pub(super) const fn rates(self) -> [f64; 4] {
        match self {
            Self::Chat => [10.0, 30.0, 50.0, 70.0],
            Self::Long => [2.0, 4.0, 6.0, 9.0],
            Self::Mixed => [4.0, 10.0, 16.0, 24.0],
            Self::LongAnswers => [2.0, 4.0, 6.0, 9.0],
            Self::Turns => [5.0, 12.0, 20.0, 30.0],
        }
    }

    /// Its requests, `rate` of them a second.
    pub(super) fn traffic(self, rate: f64, seconds: f64, seed: u64) -> Traffic {
        let chat = Traffic {
            api: Api::Chat,
            rate: Some(rate),
            concurrency: 1,
            ramp_s: 0.0,
            requests: None,
            duration: Some(seconds),
            groups: 20,
            hot_share: 0.0,
            prefix_tokens: 500,
            question_tokens: 300,
            long_share: 0.0,
            long_tokens: 8_000,
            sessions: 0,
            turns: 1,
            trace: None,
            output_tokens: 200,
            seed,
            flows: Vec::new(),
            priority: None,
        };
        match self {
            Self::Chat => chat,
            Self::Long => Traffic { long_share: 1.0, output_tokens: 100, ..chat },
            Self::Mixed => Traffic { long_share: 0.3, ..chat },
            Self::LongAnswers => Traffic { long_share: 1.0, long_tokens: 6_000, output_tokens: 800, ..chat },
            Self::Turns => {
                Traffic { question_tokens: 1_500, sessions: 400, turns: 8, output_tokens: 150, ..chat }
            }
        }
    }
}
