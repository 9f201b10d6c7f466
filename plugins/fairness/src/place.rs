//! Where a request waits.

use sluicegate_sdk::{Placement, RequestView};

use crate::Config;

/// Places a request that arrived `age` ago, as of `now_ms`.
pub(crate) fn place(request: &dyn RequestView, now_ms: u64, config: &Config) -> Placement {
    let id = request.flow();
    let tenant = request.tenant();
    let weight = config.weights.get(&id).or_else(|| config.weights.get(tenant.as_ref()?));
    let band = request.priority();
    Placement {
        weight: weight.copied().unwrap_or(config.default_weight),
        flow: flow(id, tenant, config.per_session.then(|| request.session()).flatten()),
        band,
        cost: cost(request, config),
        rank: rank(request, now_ms, config),
        ceiling: ceiling(band, config),
        ttl_ms: None,
        extra: Vec::new(),
    }
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
    let limit = request.max_output_tokens().map_or(f32::MAX, |limit| limit as f32);
    let output = config.expected_output_tokens.min(limit);
    let cost = request.prompt_tokens() as f32 * config.input_price + output * config.output_price;
    (cost as u32).max(1)
}

/// `turn + w · seconds waited`, less what all ranks grow by alike: as time does not change the order that way,
/// a rank given once stays right.
#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds are exact in f64 for longer than a process lives"
)]
fn rank(request: &dyn RequestView, now_ms: u64, config: &Config) -> f64 {
    let arrived = now_ms.saturating_sub(u64::from(request.age_ms())) as f64 / 1_000.0;
    f64::from(request.turn()) * config.turn_rank - config.second_rank * arrived
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

    #[test]
    fn tenants_do_not_share_flows() {
        let request = |tenant: Option<&str>| Request {
            flow: "a".into(),
            tenant: tenant.map(str::to_owned),
            session: Some("s".into()),
            ..Request::default()
        };
        let config = Config::default();
        assert_eq!(place(&request(None), 0, &config).flow, "a");
        assert_eq!(place(&request(Some("t")), 0, &config).flow, "t/a");
        let config = Config { per_session: true, ..config };
        assert_eq!(place(&request(Some("t")), 0, &config).flow, "t/a#s");
    }

    #[test]
    fn weights_are_found_by_flow_and_by_tenant() {
        let weights = [("a".to_owned(), 3.0), ("t".to_owned(), 2.0)].into();
        let config = Config { weights, ..Config::default() };
        let weight = |flow: &str, tenant: &str| {
            let request = Request { flow: flow.into(), tenant: Some(tenant.into()), ..Request::default() };
            place(&request, 0, &config).weight
        };
        assert_eq!((weight("a", "t"), weight("b", "t"), weight("b", "u")), (3.0, 2.0, 1.0));
    }

    #[test]
    fn the_limit_bounds_the_cost() {
        let request = Request { prompt_tokens: 100, max_output_tokens: Some(10), ..Request::default() };
        assert_eq!(place(&request, 0, &Config::default()).cost, 120);
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
                place(&Request { turn, age_ms, ..Request::default() }, placed, &config).rank
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
