//! Where a request waits.

use sluicegate_sdk::{Placement, RequestView};

use crate::{Config, Within};

/// Places a request as of `now_ms`. `cached` is the greatest share of its prompt that an endpoint holds.
pub(crate) fn place(
    request: &dyn RequestView,
    now_ms: u64,
    cached: impl FnOnce() -> f32,
    config: &Config,
) -> Placement {
    let id = program(request, config);
    let session = request.session();
    let tenant = request.tenant();
    let weight = config.weights.get(&id).or_else(|| config.weights.get(tenant.as_ref()?));
    let band = request.priority();
    Placement {
        weight: weight.copied().unwrap_or(config.default_weight),
        extra: claim(request, session.is_some(), config),
        flow: flow(id, tenant, session.filter(|_| config.per_session)),
        band,
        cost: cost(request, config),
        rank: rank(request, now_ms, cached, config),
        ceiling: ceiling(band, config),
        ttl_ms: None,
    }
}

/// The program that a request belongs to: what all of its parts send counts as one.
fn program(request: &dyn RequestView, config: &Config) -> String {
    if !config.group_header.is_empty()
        && let Some(program) = request.header(&config.group_header)
    {
        return program;
    }
    let mut id = request.flow();
    if !config.group_separator.is_empty()
        && let Some(end) = id.find(&config.group_separator)
    {
        id.truncate(end);
    }
    id
}

/// What a session's context will hold of the caches, for the host to count.
fn claim(request: &dyn RequestView, in_session: bool, config: &Config) -> Vec<(String, f32)> {
    if !in_session || !config.sessions {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "an estimate in tokens")]
    let tokens = request.prompt_tokens() as f32 + expected_output(request, config);
    vec![("kv-tokens".into(), tokens)]
}

#[expect(clippy::cast_precision_loss, reason = "an estimate in tokens")]
fn expected_output(request: &dyn RequestView, config: &Config) -> f32 {
    let limit = request.max_output_tokens().map_or(f32::MAX, |limit| limit as f32);
    config.expected_output_tokens.min(limit)
}

/// A tenant's flows are its own, whatever the ids of others.
fn flow(id: String, tenant: Option<String>, session: Option<String>) -> String {
    let mut flow = match tenant {
        Some(tenant) if tenant != id => format!("{tenant}/{id}"),
        _ => id,
    };
    if let Some(session) = session {
        flow.push('#');
        flow.push_str(&session);
    }
    flow
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate in tokens, never negative; a cast saturates"
)]
fn cost(request: &dyn RequestView, config: &Config) -> u32 {
    let output = expected_output(request, config);
    let cost = request.prompt_tokens() as f32 * config.input_price + output * config.output_price;
    (cost as u32).max(1)
}

/// The order within a flow. `turn + w · seconds waited` (Continuum, arXiv 2511.02230) less what all ranks grow by alike:
/// as time does not change the order that way, a rank given once stays right. So it is with what stands for the turn.
fn rank(request: &dyn RequestView, now_ms: u64, cached: impl FnOnce() -> f32, config: &Config) -> f64 {
    let arrived = seconds(now_ms.saturating_sub(u64::from(request.age_ms())));
    match config.within {
        Within::Turns => f64::from(request.turn()) * config.turn_rank - config.second_rank * arrived,
        Within::Fcfs => 0.0,
        Within::Edf => -(arrived + f64::from(deadline_ms(request, config)) / 1_000.0),
        Within::LongestPrefix => f64::from(cached()) * config.prefix_rank - config.second_rank * arrived,
    }
}

/// Milliseconds after its arrival until which a request should go.
#[expect(clippy::cast_precision_loss, reason = "milliseconds that a client waits")]
fn deadline_ms(request: &dyn RequestView, config: &Config) -> f32 {
    let patience = request.ttl_ms().map(|ms| ms as f32);
    let set = request.ttft_target().into_iter().chain(patience).fold(f32::INFINITY, f32::min);
    if set.is_finite() { set } else { config.usual_deadline_ms }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds are exact in f64 for longer than a process lives"
)]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

/// Saturation below which a band may go.
#[expect(clippy::cast_precision_loss, reason = "bands beyond 2^24 are at the bounds long since")]
pub(crate) fn ceiling(band: i32, config: &Config) -> f32 {
    let step = if band < 0 { config.holdback } else { config.headroom };
    (config.ceiling + band as f32 * step).clamp(config.min_ceiling, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_sdk::fake::Request;

    use super::*;

    fn placed_at(request: &Request, now_ms: u64, config: &Config) -> Placement {
        place(request, now_ms, || 0.0, config)
    }

    #[test]
    fn the_parts_of_a_program_are_one_flow() {
        let request = Request { flow: "job-7/worker-2".into(), ..Request::default() };
        assert_eq!(placed_at(&request, 0, &Config::default()).flow, "job-7/worker-2");
        let config = Config { group_separator: "/".into(), ..Config::default() };
        assert_eq!(placed_at(&request, 0, &config).flow, "job-7");
    }

    #[test]
    fn a_session_claims_what_its_context_will_hold() {
        let request = |session: Option<&str>| Request {
            prompt_tokens: 100,
            max_output_tokens: Some(20),
            session: session.map(str::to_owned),
            ..Request::default()
        };
        let claimed = |session, config: &Config| placed_at(&request(session), 0, config).extra;
        let config = Config { sessions: true, ..Config::default() };
        assert_eq!(claimed(Some("s"), &config), [("kv-tokens".to_owned(), 120.0)]);
        assert!(claimed(None, &config).is_empty());
        assert!(claimed(Some("s"), &Config::default()).is_empty());
    }

    #[test]
    fn the_order_within_a_flow_can_be_chosen() {
        let rank = |within, request: &Request, cached: f32| {
            place(request, 10_000, || cached, &Config { within, ..Config::default() }).rank
        };
        let plain = Request { age_ms: 1_000, ..Request::default() };
        let urgent = Request { ttft_target: Some(500.0), ..plain.clone() };
        let impatient = Request { ttl_ms: Some(100), ttft_target: Some(500.0), ..plain.clone() };
        let later = Request { turn: 3, ..plain.clone() };
        assert!(rank(Within::Edf, &impatient, 0.0) > rank(Within::Edf, &urgent, 0.0));
        assert!(rank(Within::Edf, &urgent, 0.0) > rank(Within::Edf, &plain, 0.0));
        assert!(rank(Within::Turns, &later, 0.0) > rank(Within::Turns, &plain, 0.0));
        assert!(rank(Within::LongestPrefix, &plain, 0.9) > rank(Within::LongestPrefix, &plain, 0.1));
        assert_eq!(rank(Within::Fcfs, &later, 0.0).to_bits(), rank(Within::Fcfs, &plain, 1.0).to_bits());
    }

    #[test]
    fn tenants_do_not_share_flows() {
        let request = |tenant: Option<&str>| Request {
            flow: "a".into(),
            tenant: tenant.map(str::to_owned),
            session: Some("s".into()),
            ..Request::default()
        };
        let config = Config::default();
        assert_eq!(placed_at(&request(None), 0, &config).flow, "a");
        assert_eq!(placed_at(&request(Some("t")), 0, &config).flow, "t/a");
        let config = Config { per_session: true, ..config };
        assert_eq!(placed_at(&request(Some("t")), 0, &config).flow, "t/a#s");
    }

    #[test]
    fn weights_are_found_by_flow_and_by_tenant() {
        let weights = [("a".to_owned(), 3.0), ("t".to_owned(), 2.0)].into();
        let config = Config { weights, ..Config::default() };
        let weight = |flow: &str, tenant: &str| {
            let request = Request { flow: flow.into(), tenant: Some(tenant.into()), ..Request::default() };
            placed_at(&request, 0, &config).weight
        };
        assert_eq!((weight("a", "t"), weight("b", "t"), weight("b", "u")), (3.0, 2.0, 1.0));
    }

    #[test]
    fn the_limit_bounds_the_cost() {
        let request = Request { prompt_tokens: 100, max_output_tokens: Some(10), ..Request::default() };
        assert_eq!(placed_at(&request, 0, &Config::default()).cost, 120);
    }

    proptest! {
        #[test]
        fn rank_is_turn_and_waiting(
            turns in (0_u32..50, 0_u32..50), arrivals in (0_u64..600_000, 0_u64..600_000), later in 0_u64..600_000,
        ) {
            let config = Config::default();
            let now = arrivals.0.max(arrivals.1) + later;
            // However late each is placed, the order is that of `turn + w · waited` at any common moment.
            let rank = |turn, arrived: u64, placed: u64| {
                let age_ms = u32::try_from(placed - arrived).unwrap();
                placed_at(&Request { turn, age_ms, ..Request::default() }, placed, &config).rank
            };
            let waited = |turn: u32, arrived: u64| {
                f64::from(turn) + config.second_rank * f64::from(u32::try_from(now - arrived).unwrap()) / 1_000.0
            };
            let by_rank = rank(turns.0, arrivals.0, arrivals.0) - rank(turns.1, arrivals.1, now);
            let by_rule = waited(turns.0, arrivals.0) - waited(turns.1, arrivals.1);
            prop_assert!((by_rank - by_rule).abs() < 1e-6);
        }

        #[test]
        fn a_lower_band_has_no_higher_ceiling(low in -100_i32..100, more in 0_i32..100) {
            let config = Config::default();
            let (below, above) = (ceiling(low, &config), ceiling(low + more, &config));
            prop_assert!(below <= above && (config.min_ceiling..=1.0).contains(&below));
        }
    }
}
