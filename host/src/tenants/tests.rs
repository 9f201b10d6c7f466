//! Who is who, and what is left to them.

use http::{HeaderName, HeaderValue};

use super::*;
use crate::clock::{MILLI, Nanos, SECOND};
use crate::config::from_text;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn tenants(text: &str) -> Tenants {
    let config = from_text("t.toml", text, std::path::Path::new("")).unwrap();
    Tenants::of(&config)
}

fn two() -> Tenants {
    tenants(&format!(
        "[callers]\nheader = \"x-tenant\"\ntrusted = [\"10.0.0.0/8\"]\n\
         [[tenant]]\nname = \"a\"\nkey_hashes = [\"{}\", \"{}\"]\n[[tenant]]\nname = \"b\"\nkey_hashes = [\"{}\"]\n",
        KeyHash::of("a1"),
        KeyHash::of("a2"),
        KeyHash::of("b1")
    ))
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn who(tenants: &Tenants, pairs: &[(&'static str, &'static str)], peer: IpAddr) -> Result<String, Stranger> {
    let mut headers = headers(pairs);
    let known = tenants.identify(&mut headers, peer).map(|tenant| tenant.unwrap().config.name.to_string());
    assert!(headers.is_empty(), "{headers:?}");
    known
}

#[test]
fn a_caller_is_known_by_its_key_and_its_key_goes_no_further() {
    let tenants = two();
    let is = |pairs: &[(&'static str, &'static str)]| who(&tenants, pairs, PEER);
    assert_eq!(is(&[("authorization", "Bearer a1")]), Ok("a".into()));
    assert_eq!(is(&[("authorization", "bearer  a2 ")]), Ok("a".into()));
    assert_eq!(is(&[("x-api-key", "b1")]), Ok("b".into()));
    assert_eq!(is(&[("api-key", "b1"), ("proxy-authorization", "Basic eA==")]), Ok("b".into()));
    assert_eq!(is(&[("x-api-key", "a1"), ("authorization", "Bearer a2")]), Ok("a".into()));
    assert_eq!(is(&[]), Err(Stranger::NoKey));
    assert_eq!(is(&[("authorization", "Basic a1")]), Err(Stranger::NoKey));
    assert_eq!(is(&[("authorization", "Bearer ")]), Err(Stranger::NoKey));
    assert_eq!(is(&[("authorization", "Bearer a")]), Err(Stranger::UnknownKey));
    assert_eq!(is(&[("authorization", "Bearer a1"), ("x-api-key", "b1")]), Err(Stranger::SeveralKeys));
    assert_eq!(is(&[("authorization", "Bearer zz"), ("x-api-key", "b1")]), Err(Stranger::SeveralKeys));
}

#[test]
fn the_header_is_believed_of_trusted_peers_alone() {
    let tenants = two();
    let gateway: IpAddr = "10.1.2.3".parse().unwrap();
    assert_eq!(who(&tenants, &[("x-tenant", "b")], gateway), Ok("b".into()));
    assert_eq!(who(&tenants, &[("x-tenant", "b"), ("x-api-key", "a1")], gateway), Ok("b".into()));
    assert_eq!(
        who(&tenants, &[("x-tenant", "c"), ("x-api-key", "a1")], gateway),
        Err(Stranger::UnknownTenant)
    );
    assert_eq!(who(&tenants, &[("x-tenant", "b"), ("x-api-key", "a1")], PEER), Ok("a".into()));
    assert_eq!(who(&tenants, &[("x-tenant", "b")], PEER), Err(Stranger::NoKey));
    let mut twice = headers(&[("x-tenant", "a")]);
    twice.append("x-tenant", HeaderValue::from_static("b"));
    assert_eq!(tenants.identify(&mut twice, gateway).unwrap_err(), Stranger::UnknownTenant);
}

#[test]
fn without_tenants_nothing_is_touched() {
    let mut headers = headers(&[("authorization", "Bearer a1")]);
    assert!(Tenants::default().identify(&mut headers, PEER).unwrap().is_none());
    assert_eq!(headers.len(), 1);
}

fn one(more: &str) -> (Tenants, Arc<Tenant>) {
    let all = tenants(&format!("[callers]\nanonymous = \"a\"\n[[tenant]]\nname = \"a\"\n{more}\n"));
    let tenant = all.identify(&mut HeaderMap::new(), PEER).unwrap().unwrap();
    (all, tenant)
}

#[test]
fn what_is_asked_for_only_lowers() {
    let (_, tenant) =
        one("max_priority = 3\npriority = 1\nmodels = [\"m\"]\npaths = [\"/tokenize\", \"/v1/audio/*\"]");
    assert_eq!([None, Some(9), Some(2), Some(-5)].map(|asked| tenant.priority(asked)), [1, 3, 2, -5]);
    assert!(tenant.may_use("alias", "m") && tenant.may_use("m", "x") && !tenant.may_use("x", "y"));
    for (path, allowed) in [
        ("/tokenize", true),
        ("/tokenize/x", false),
        ("/v1/audio/speech", true),
        ("/v1/audio/../../sleep", false),
        ("/v1/audio/%2e%2e/sleep", false),
        ("/v1/audio//sleep", false),
        ("/sleep", false),
    ] {
        assert_eq!(tenant.may_call(path), allowed, "{path}");
    }
    assert_eq!(&*tenant.session("s"), "a/s");
    assert_eq!(tenant.salt(Some("x")), None);
}

fn share(prompt: u32, max_output: u32) -> Share {
    Share { prompt, max_output: Some(max_output), flow: 0 }
}

fn tokens_left(tenant: &Tenant, now: Nanos) -> f64 {
    tenant.account.standing(&tenant.config, now).tokens_left.unwrap().round()
}

#[test]
fn tokens_are_reserved_by_estimate_and_corrected_by_what_was_used() {
    let (_, tenant) = one("tokens_per_minute = 1000");
    let mut held = tenant.enter(share(300, 200), 0).unwrap();
    assert_eq!(tokens_left(&tenant, 0), 500.0);
    held.sent();
    held.settle(310, 40);
    assert_eq!(tokens_left(&tenant, 0), 650.0);
    // No engine had it.
    drop(tenant.enter(share(300, 200), 0).unwrap());
    assert_eq!(tokens_left(&tenant, 0), 650.0);
    // Its client went away after 10 tokens.
    let mut held = tenant.enter(share(100, 200), 0).unwrap();
    held.sent();
    held.output(10);
    drop(held);
    assert_eq!(tokens_left(&tenant, 0), 540.0);
    // It went away before the first: what was expected is used. The mean of what was seen is 40.
    let mut held = tenant.enter(Share { max_output: None, ..share(100, 0) }, 0).unwrap();
    held.sent();
    drop(held);
    assert_eq!(tokens_left(&tenant, 0), 400.0);
    let refused = tenant.enter(share(600, 0), 0).unwrap_err();
    assert_eq!((refused.limit, refused.at, refused.retry_after), (Limit::Tokens, 1_000, 12 * SECOND));
    assert_eq!(tenant.account.tokens(), (310 + 100 + 100, 40 + 10 + 40));
}

#[test]
fn the_longest_wait_is_told_and_nothing_is_taken_by_what_is_refused() {
    let (_, tenant) = one("requests_per_minute = 2\ntokens_per_minute = 600\nmax_requests = 2");
    let first = tenant.enter(share(100, 0), 0).unwrap();
    let second = tenant.enter(share(100, 0), 0).unwrap();
    let refused = tenant.enter(share(10, 0), 0).unwrap_err();
    assert_eq!((refused.limit, refused.retry_after), (Limit::Requests, 30 * SECOND));
    let refused = tenant.enter(share(10, 0), 60 * SECOND).unwrap_err();
    assert_eq!(refused.limit, Limit::Running);
    drop((first, second));
    let third = tenant.enter(share(10, 0), 60 * SECOND).unwrap();
    let standing = tenant.account.standing(&tenant.config, 60 * SECOND);
    assert_eq!((standing.running, standing.requests_left), (1, Some(1.0)));
    drop(third);
    assert_eq!(tenant.account.exceeded(Limit::Requests), 1);
    assert_eq!((tenant.account.exceeded(Limit::Running), tenant.account.entered()), (1, 3));
}

#[test]
fn flows_share_the_weight_of_their_tenant() {
    let (_, tenant) = one("weight = 6");
    let enter = |flow| tenant.enter(Share { flow, ..share(0, 0) }, 0).unwrap();
    assert_eq!(tenant.weight(), 6.0);
    let (first, again, second) = (enter(1), enter(1), enter(2));
    assert_eq!(tenant.weight(), 3.0);
    drop(first);
    assert_eq!(tenant.weight(), 3.0);
    drop(again);
    assert_eq!(tenant.weight(), 6.0);
    drop(second);
    assert_eq!(tenant.account.flows(), 0);
}

#[test]
fn accounts_outlive_a_change_of_the_configuration() {
    let (all, tenant) = one("requests_per_minute = 1");
    let held = tenant.enter(share(0, 0), 0).unwrap();
    let text = "[callers]\nanonymous = \"a\"\n[[tenant]]\nname = \"a\"\nrequests_per_minute = 60\n";
    let config = from_text("t.toml", text, std::path::Path::new("")).unwrap();
    all.replace(&config);
    let tenant = Arc::clone(&all.all()[0]);
    assert_eq!(tenant.account.standing(&tenant.config, 0).running, 1);
    assert!(tenant.enter(share(0, 0), 100 * MILLI).is_err());
    drop(held);
    assert!(tenant.enter(share(0, 0), SECOND).is_ok());
    assert_eq!(tenant.account.standing(&tenant.config, SECOND).running, 0);
}

proptest::proptest! {
    /// However requests end, and however often: nothing runs at the end, and no token is lost or made.
    #[test]
    fn nothing_is_lost_on_any_path(
        requests in proptest::collection::vec((0_u32..500, 0_u32..500, 0_u8..4), 1..50),
    ) {
        let (_, tenant) = one("tokens_per_minute = 1000000\nmax_requests = 100");
        let mut used = 0_i64;
        for (prompt, output, path) in requests {
            let mut held = tenant.enter(share(prompt, output), 0).unwrap();
            match path {
                0 => {}
                1 => {
                    held.sent();
                    held.output(output);
                    // Nothing came: what was expected counts.
                    let before = tokens_left(&tenant, 0);
                    drop(held);
                    let given_back = tokens_left(&tenant, 0) - before;
                    proptest::prop_assert!(output > 0 || given_back == 0.0);
                    used = 1_000_000 - tokens_left(&tenant, 0) as i64;
                }
                _ => {
                    held.sent();
                    held.settle(prompt, output);
                    used += i64::from(prompt) + i64::from(output);
                }
            }
        }
        proptest::prop_assert_eq!(1_000_000 - tokens_left(&tenant, 0) as i64, used);
        proptest::prop_assert_eq!(tenant.account.standing(&tenant.config, 0).running, 0);
    }
}
