use super::*;
use crate::Config;

fn waits(id: u32) -> Waiting {
    Waiting { id, band: 0, weight: 1.0, is_old: false }
}

/// A flow that is known has had so much.
fn had(counters: &mut Counters, id: u32, tokens: f64, now_ms: u64) {
    for _ in 0..KNOWN_AFTER {
        let sent = counters.sent(id, None, tokens / f64::from(KNOWN_AFTER), now_ms);
        counters.ended(sent, sent.tokens, now_ms);
    }
}

#[test]
fn who_comes_anew_starts_at_the_virtual_time() {
    let mut counters = Counters::default();
    counters.arrive(&[waits(1), waits(2)], 0);
    had(&mut counters, 1, 500.0, 0);
    had(&mut counters, 2, 800.0, 0);
    counters.arrive(&[waits(1), waits(2), waits(3)], 100);
    assert_eq!(counters.served(3), counters.bands[&0].time.now());
    assert_eq!(counters.served(3), 600.0, "where the one that is furthest began");
}

#[test]
fn who_comes_back_has_saved_up_a_burst_at_most() {
    let mut counters = Counters::new(&Config { burst_s: 1.0, ..Config::default() });
    counters.arrive(&[waits(1), waits(2)], 0);
    had(&mut counters, 2, 40.0, 0);
    for tenth in 0..100_u32 {
        counters.arrive(&[waits(1)], u64::from(tenth) * 100);
        counters.sent(1, None, 100.0, u64::from(tenth) * 100);
    }
    counters.arrive(&[waits(1), waits(2)], 9_999);
    let ahead = counters.served(1) - counters.served(2);
    assert!((900.0..=1_300.0).contains(&ahead), "{ahead}");
}

#[test]
fn without_contention_there_are_no_debts() {
    let mut counters = Counters::default();
    counters.sent(1, None, 1e6, 0);
    counters.arrive(&[waits(1), waits(2)], 0);
    assert_eq!(counters.served(1), counters.served(2));
}

#[test]
fn bands_do_not_mix() {
    let mut counters = Counters::default();
    let high = |id| Waiting { band: 1, ..waits(id) };
    counters.arrive(&[waits(1), high(2)], 0);
    counters.sent(2, None, 1e6, 0);
    counters.arrive(&[waits(1), high(2), waits(3)], 0);
    assert_eq!(counters.served(3), counters.served(1));
}

#[test]
fn a_weight_divides_service() {
    let mut counters = Counters::default();
    counters.arrive(&[Waiting { weight: 4.0, ..waits(1) }], 0);
    counters.sent(1, None, 100.0, 0);
    assert_eq!(counters.served(1), 25.0);
}

#[test]
fn names_without_end_do_not_fill_the_memory() {
    let mut counters = Counters::default();
    for id in 0..MOST_FLOWS as u32 + 10 {
        counters.sent(id, None, 1.0, u64::from(id) / 100);
    }
    assert!(counters.flows.len() <= MOST_FLOWS);
    assert!(counters.flows.contains_key(&(MOST_FLOWS as u32)), "the latest stay");
    assert!(!counters.flows.contains_key(&0));
    for band in 0..10_000 {
        counters.arrive(&[Waiting { band, ..waits(1) }], 2_000 * u64::try_from(band).unwrap());
    }
    assert!(counters.bands.len() <= MOST_BANDS + 1);
}

#[test]
fn service_of_late_fades() {
    let mut counters = Counters::new(&Config { half_life_s: 10.0, ..Config::default() });
    let sent = counters.sent(1, None, 100.0, 0);
    assert_eq!((counters.attained(1, 0), counters.attained(1, 10_000)), (100.0, 50.0));
    counters.ended(sent, 20.0, 10_000);
    assert_eq!((counters.attained(1, 10_000), counters.served(1)), (0.0, 20.0));
}

#[test]
fn flows_are_forgotten() {
    let mut counters = Counters::default();
    let sent = counters.sent(1, None, 1.0, 0);
    counters.sent(3, None, 1.0, 0);
    counters.ended(sent, 1.0, 0);
    counters.arrive(&[waits(2)], FORGET_AFTER_MS);
    assert!(!counters.flows.contains_key(&1));
    assert!(counters.flows.contains_key(&3), "it has a request under way");
    counters.arrive(&[waits(2)], 6 * FORGET_AFTER_MS);
    assert!(!counters.flows.contains_key(&3), "of which nobody says that it has ended");
}

#[test]
fn room_is_kept_for_flows_without_a_backlog() {
    let mut counters = Counters::default();
    let backlog = |id| Waiting { is_old: true, ..waits(id) };
    counters.arrive(&[waits(1), waits(2)], 0);
    let light: Vec<Sent> = (0..6).map(|_| counters.sent(1, None, 1.0, 0)).collect();
    for _ in 0..9 {
        counters.sent(2, None, 1.0, 0);
    }
    counters.arrive(&[backlog(2)], 1_000);
    counters.sent(2, None, 1.0, 1_000);
    assert_eq!(counters.bands.get_mut(&0).unwrap().light.may_need(1_000), 0);
    light.into_iter().for_each(|sent| counters.ended(sent, 1.0, 1_000));
    assert_eq!(counters.bands.get_mut(&0).unwrap().light.may_need(1_000), 6);
}

#[test]
fn before_it_is_known_who_needs_what_the_greediest_leaves_as_much_as_it_has() {
    let mut counters = Counters::default();
    for _ in 0..5 {
        counters.sent(1, Some(0), 1.0, 0);
    }
    let both = [waits(1), waits(2)];
    let bounds = |counters: &Counters, places: f32, running: f32, now_ms| {
        let mut bounds: Vec<_> = counters.bounds(&both, places, running, now_ms).into_iter().collect();
        bounds.sort_unstable();
        bounds
    };
    assert_eq!(bounds(&counters, 10.0, 5.0, 0), [], "it is alone");
    counters.sent(2, Some(0), 1.0, 0);
    assert_eq!(bounds(&counters, 10.0, 6.0, 0), [(1, 0)], "5 under way, 4 left");
    assert_eq!(bounds(&counters, 14.0, 6.0, 0), [(1, 2)], "5 under way, 8 left");
    assert_eq!(bounds(&counters, 10.0, 6.0, 5_000), [], "it is known by now");
    for _ in 0..4 {
        counters.sent(2, Some(0), 1.0, 0);
    }
    assert_eq!(bounds(&counters, 10.0, 10.0, 0), [(1, 0), (2, 0)], "as greedy as each other");
}

/// Whoever waited for long before anything went has a backlog from the first request on: that too is known in time.
#[test]
fn flows_that_all_have_a_backlog_are_held_no_longer() {
    let mut counters = Counters::default();
    let backlog = |id| Waiting { is_old: true, ..waits(id) };
    let both = [backlog(1), backlog(2)];
    for second in 0..6 {
        counters.arrive(&both, second * 1_000);
        counters.sent(1, Some(0), 1.0, second * 1_000);
        counters.sent(2, Some(0), 1.0, second * 1_000);
    }
    assert!(
        counters.bounds(&both, 12.0, 12.0, 4_000).len() == 2
            && counters.bounds(&both, 12.0, 12.0, 5_000).is_empty()
    );
}

#[test]
fn a_flow_with_nothing_under_way_is_never_held() {
    let mut counters = Counters::default();
    counters.sent(1, Some(0), 1.0, 0);
    counters.arrive(&[waits(2), waits(3)], 0);
    assert!(counters.bounds(&[waits(2), waits(3)], 1.0, 1.0, 0).is_empty());
}

#[test]
fn newcomers_owe_nothing_for_what_they_had_while_nobody_waited() {
    let mut counters = Counters::default();
    for id in 0..100 {
        counters.sent(id, Some(0), 1_000.0, 0);
    }
    let late = counters.sent(100, Some(0), 1_000.0, 0);
    counters.arrive(&[waits(200), waits(201)], 10);
    counters.ended(late, 10.0, 20);
    let band = &counters.bands[&0];
    assert_eq!(band.newcomers.served, band.time.now());
}
