//! From columns to scores.

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{
    Column, Columns, EndpointsView, Error, Manifest, Policy, Profile, RequestView, Scorer, Table,
};

use crate::Config;
use crate::cold;
use crate::ttft::{self, Reported};

/// The policy.
pub struct PrefixAffinity {
    config: Config,
    /// What every call reads.
    table: [Column; 10],
    cached_cpu: Column,
    occupancy: Column,
    rendezvous: Column,
    session: Column,
    state: Column,
}

impl Policy for PrefixAffinity {
    fn manifest() -> Manifest {
        Manifest::new(
            "prefix-affinity",
            env!("CARGO_PKG_VERSION"),
            "scores endpoints by the time to first token that each would give",
        )
        .with_schema(Config::schema())
    }

    fn configure(json: &str, columns: &mut Columns) -> Result<Self, Error> {
        // Who does not say how much he holds is taken to be full.
        let occupancy = columns.resolve("prefix.occupancy")?.or(1.0);
        let mut column = |name: &str| columns.resolve(name).map(|column| column.or(0.0));
        Ok(Self {
            config: Config::parse(json)?,
            table: [
                column("prefix.tokens")?,
                column("rate.prefill_tokens_per_s")?,
                column("load.prefill_tokens")?,
                column("load.requests")?,
                column("load.decode_tokens")?,
                column("engine.waiting")?,
                column("engine.running")?,
                column("engine.kv_usage")?,
                column("engine.metrics_age_ms")?,
                column("limit.requests")?,
            ],
            cached_cpu: column("prefix.cpu_tokens")?,
            occupancy,
            rendezvous: column("prefix.rendezvous")?,
            session: column("session.affinity")?,
            state: column("session.state")?,
        })
    }
}

impl Scorer for PrefixAffinity {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let table = endpoints.columns(&self.table);
        let cached = self.cached(endpoints, &table);
        let mut ttft = self.ttft(request, endpoints, &cached, &table);
        let session = self.credit_session(request, endpoints, &mut ttft);
        let least = ttft.iter().copied().fold(f32::MAX, f32::min);
        let tolerance = cold::tolerance(least, &self.config);
        let limit = least + tolerance;
        let home = cold::is_cold(&ttft, limit, &cached, &self.config)
            .then(|| cold::home(&ttft, limit, &endpoints.column(self.rendezvous), session))
            .flatten();
        let scale = self.config.scale_ms;
        let Some(home) = home else {
            return ttft.iter().map(|ttft| falling(ttft - least, scale)).collect();
        };
        // All others stand back by the tolerance, which keeps their order and puts home before them.
        let mut scores: Vec<f32> = ttft.iter().map(|ttft| falling(ttft - least + tolerance, scale)).collect();
        for (position, behind) in [(Some(home.first), 0.0), (home.second, tolerance / 2.0)] {
            if let Some(score) = position.and_then(|position| scores.get_mut(position)) {
                *score = score.max(falling(behind, scale));
            }
        }
        scores
    }
}

impl PrefixAffinity {
    fn cached(&self, endpoints: &dyn EndpointsView, table: &Table) -> Vec<f32> {
        let [cached] = table.split();
        let mut cached = cached.to_vec();
        if self.config.cpu_credit < 1.0 && cached.iter().any(|cached| *cached > 0.0) {
            ttft::credit_tiers(&mut cached, &endpoints.column(self.cached_cpu), &self.config);
        }
        cached
    }

    #[expect(clippy::cast_precision_loss, reason = "prompts are far shorter than 2^24 tokens")]
    fn ttft(
        &self,
        request: &dyn RequestView,
        endpoints: &dyn EndpointsView,
        cached: &[f32],
        table: &Table,
    ) -> Vec<f32> {
        let [_, rate, ahead, requests, decode_tokens, waiting, running, kv_usage, age_ms, limit] =
            table.split();
        let ms_per_token = ttft::ms_per_token(rate, &self.config);
        let mut ttft = ttft::prefill(request.prompt_tokens() as f32, cached, ahead, &ms_per_token);
        if cached.iter().any(|cached| *cached > 0.0) {
            let occupancy = endpoints.column(self.occupancy);
            ttft::add_recomputing(&mut ttft, cached, &ms_per_token, &occupancy, requests, &self.config);
        }
        ttft::add_over_limit(&mut ttft, requests, limit, &self.config);
        let mut requests = requests.to_vec();
        let reported = Reported { waiting, running, kv_usage, age_ms };
        ttft::add_reported(&mut ttft, &mut requests, &reported, &ms_per_token, &self.config);
        if endpoints.profile() != Profile::Prefill {
            ttft::add_decode(&mut ttft, &requests, decode_tokens, &self.config);
        }
        ttft
    }

    /// Gives the endpoints that know the conversation their credit, and says which of them served it last.
    fn credit_session(
        &self,
        request: &dyn RequestView,
        endpoints: &dyn EndpointsView,
        ttft: &mut [f32],
    ) -> Option<usize> {
        if request.turn() == 0 {
            return None;
        }
        for (ttft, kept) in ttft.iter_mut().zip(endpoints.column(self.state)) {
            *ttft -= kept * self.config.state_ms;
        }
        if self.config.session_ms <= 0.0 {
            return None;
        }
        let session = endpoints.column(self.session).iter().position(|served| *served > 0.0)?;
        *ttft.get_mut(session)? -= self.config.session_ms;
        Some(session)
    }
}

/// 1 at no difference, one half at `scale`, never 0: who comes last still comes in order.
fn falling(difference: f32, scale: f32) -> f32 {
    scale / (scale + difference.max(0.0))
}

#[cfg(test)]
mod tests;
