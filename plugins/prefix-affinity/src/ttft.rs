//! The time to first token that each endpoint would give. Every term is one pass over plain slices.

use crate::Config;

/// Milliseconds that each endpoint needs for a token of prompt.
///
/// Where no rate was measured the mean of those that were stands in: a new endpoint is neither shunned nor
/// overrun for what is not known of it.
pub(crate) fn ms_per_token(rates: &[f32], config: &Config) -> Vec<f32> {
    let known = rates.iter().filter(|rate| **rate > 0.0);
    // In f64, so that the order of the endpoints does not show in the mean.
    let (sum, count) = known.fold((0.0, 0.0), |(sum, count), rate| (sum + f64::from(*rate), count + 1.0));
    #[expect(clippy::cast_possible_truncation, reason = "a mean of f32 is in their range")]
    let usual = if count > 0.0 { (sum / count) as f32 } else { config.prefill_tokens_per_s };
    rates.iter().map(|rate| 1_000.0 / if *rate > 0.0 { *rate } else { usual }).collect()
}

/// Prompt tokens that each endpoint spares, given those it holds and those of them that have to be loaded from
/// CPU memory.
pub(crate) fn credit_tiers(cached: &mut [f32], cpu: &[f32], config: &Config) {
    let lost = 1.0 - config.cpu_credit;
    cached.iter_mut().zip(cpu).for_each(|(cached, cpu)| *cached = (*cached - cpu * lost).max(0.0));
}

/// Prefill: the tokens ahead, and those of this prompt that the endpoint does not hold.
///
/// An engine computes at least the last token of a prompt that it holds whole.
pub(crate) fn prefill(prompt: f32, cached: &[f32], ahead: &[f32], ms_per_token: &[f32]) -> Vec<f32> {
    let columns = cached.iter().zip(ahead).zip(ms_per_token);
    columns.map(|((cached, ahead), ms)| (ahead.max(0.0) + (prompt - cached).max(1.0)) * ms).collect()
}

#[expect(clippy::cast_precision_loss, reason = "pools have thousands of endpoints, not more")]
fn mean(values: &[f32]) -> f32 {
    // In f64, so that the order of the endpoints does not show.
    let sum: f64 = values.iter().copied().map(f64::from).sum();
    #[expect(clippy::cast_possible_truncation, reason = "a mean of f32 is in their range")]
    let mean = (sum / values.len().max(1) as f64) as f32;
    mean
}

/// The price of computing again what another endpoint holds. It is no time of this request's, but of all those that
/// wait behind it, and of those whose caches it displaces: whoever counts only his own time leaves the cache too
/// soon, makes the next one leave too, and in the end everybody computes everything.
///
/// Whoever comes before the endpoint has computed all that is ahead of it, and this prompt, waits longer for it: `ttft`
/// is that time, when nothing but prefill is in it.
///
/// An endpoint that has fewer requests than others and room in its cache is worth its first copy: part of the time is
/// forgiven there. What it has to compute already still counts, so no second request follows the first.
pub(crate) fn add_recomputing(
    ttft: &mut [f32],
    cached: &[f32],
    ms_per_token: &[f32],
    occupancy: &[f32],
    requests: &[f32],
    config: &Config,
) {
    let most = cached.iter().copied().fold(0.0, f32::max);
    let waiting_per_ms = config.waiting_per_s / 1_000.0;
    let busy = mean(requests) * config.idle_ratio;
    let endpoints = cached.iter().zip(ms_per_token).zip(occupancy).zip(requests);
    for (ttft, (((cached, ms), full), requests)) in ttft.iter_mut().zip(endpoints) {
        let again = (most - cached) * ms;
        let idle = if *requests < busy { 1.0 - requests / busy } else { 0.0 };
        let forgiven = config.warming * idle * (1.0 - full).max(0.0);
        *ttft += again * (*ttft * waiting_per_ms + full * config.displacing - forgiven);
    }
}

/// What an engine reports of itself.
pub(crate) struct Reported<'a> {
    pub(crate) waiting: &'a [f32],
    pub(crate) running: &'a [f32],
    pub(crate) kv_usage: &'a [f32],
    pub(crate) age_ms: &'a [f32],
}

/// Requests that engines report beyond ours: those that wait are prefills ahead that nobody counted, those
/// that run are added to `requests`. And the pressure on the KV cache. What is stale counts for nothing.
pub(crate) fn add_reported(
    ttft: &mut [f32],
    requests: &mut [f32],
    reported: &Reported<'_>,
    ms_per_token: &[f32],
    config: &Config,
) {
    let engines = reported.waiting.iter().zip(reported.running).zip(reported.kv_usage).zip(reported.age_ms);
    let totals = ttft.iter_mut().zip(requests).zip(ms_per_token);
    let span = (1.0 - config.kv_free_below).max(f32::EPSILON);
    for (((ttft, requests), ms), (((waiting, running), kv), age)) in totals.zip(engines) {
        if *age > config.stale_after_ms {
            continue;
        }
        let foreign = (waiting + running - *requests).max(0.0);
        let foreign_waiting = waiting.min(foreign);
        let over = ((kv - config.kv_free_below) / span).clamp(0.0, 1.0);
        *ttft += foreign_waiting * config.foreign_prompt_tokens * ms + over * over * config.kv_pressure_ms;
        *requests += foreign - foreign_waiting;
    }
}

/// Requests beyond what an endpoint serves well at once wait inside its engine, this one behind them. A limit of 0 is
/// none.
pub(crate) fn add_over_limit(ttft: &mut [f32], requests: &[f32], limit: &[f32], config: &Config) {
    for ((ttft, requests), limit) in ttft.iter_mut().zip(requests).zip(limit) {
        let over = if *limit > 0.0 { (requests + 1.0 - limit).max(0.0) } else { 0.0 };
        *ttft += over * config.over_limit_ms;
    }
}

/// Decodes share each step of the engine with the prefill, and read their whole context in it.
pub(crate) fn add_decode(ttft: &mut [f32], requests: &[f32], tokens: &[f32], config: &Config) {
    let per_token = config.decode_kilotoken_ms / 1_000.0;
    for ((ttft, requests), tokens) in ttft.iter_mut().zip(requests).zip(tokens) {
        *ttft += requests * config.decode_request_ms + tokens * per_token;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_rate_is_the_mean_of_the_known() {
        let config = Config::default();
        assert_eq!(ms_per_token(&[1_000.0, f32::NAN, 3_000.0], &config)[1], 0.5);
        assert_eq!(ms_per_token(&[f32::NAN], &config)[0], 1_000.0 / config.prefill_tokens_per_s);
    }

    #[test]
    fn a_whole_hit_still_computes_a_token() {
        assert_eq!(prefill(100.0, &[100.0, 500.0], &[0.0, 10.0], &[2.0, 2.0]), [2.0, 22.0]);
    }

    #[test]
    fn cpu_tokens_save_less() {
        let mut cached = [1_000.0, 1_000.0];
        credit_tiers(&mut cached, &[0.0, 500.0], &Config { cpu_credit: 0.5, ..Config::default() });
        assert_eq!(cached, [1_000.0, 750.0]);
    }

    #[test]
    fn only_what_is_not_ours_is_added() {
        let config = Config { kv_pressure_ms: 0.0, foreign_prompt_tokens: 100.0, ..Config::default() };
        let reported = Reported {
            waiting: &[3.0, 3.0, 3.0],
            running: &[2.0, 2.0, 2.0],
            kv_usage: &[0.0; 3],
            age_ms: &[0.0, 0.0, 1e9],
        };
        let (mut ttft, mut requests) = (vec![0.0; 3], vec![5.0, 1.0, 1.0]);
        add_reported(&mut ttft, &mut requests, &reported, &[1.0; 3], &config);
        assert_eq!(ttft, [0.0, 300.0, 0.0]);
        assert_eq!(requests, [5.0, 2.0, 1.0]);
    }

    #[test]
    fn only_what_is_over_a_limit_costs() {
        let mut ttft = vec![0.0; 3];
        let config = Config { over_limit_ms: 10.0, ..Config::default() };
        add_over_limit(&mut ttft, &[8.0, 7.0, 9.0], &[8.0, 8.0, 0.0], &config);
        assert_eq!(ttft, [10.0, 0.0, 0.0]);
    }

    #[test]
    fn kv_pressure_grows_by_the_square() {
        let config = Config { kv_free_below: 0.5, kv_pressure_ms: 400.0, ..Config::default() };
        let reported = Reported {
            waiting: &[0.0; 3],
            running: &[0.0; 3],
            kv_usage: &[0.5, 0.75, 1.0],
            age_ms: &[0.0; 3],
        };
        let (mut ttft, mut requests) = (vec![0.0; 3], vec![0.0; 3]);
        add_reported(&mut ttft, &mut requests, &reported, &[1.0; 3], &config);
        assert_eq!(ttft, [0.0, 100.0, 400.0]);
    }
}
