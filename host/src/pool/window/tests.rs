use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::clock::MILLI;

fn sample(at: Nanos) -> Sample {
    Sample {
        at,
        endpoint: Some(EndpointId(0)),
        session: 0,
        ended: Ended::Answered,
        ttft: None,
        prompt_tokens: 100,
        cached_tokens: None,
    }
}

fn any_sample() -> impl Strategy<Value = (Arm, Sample)> {
    let ended = prop::sample::select(vec![
        Ended::Answered,
        Ended::ClientError,
        Ended::Failed,
        Ended::Refused,
        Ended::Cancelled,
    ]);
    // Up to three times what is kept, so that slots are used again; and out of order, as answers end.
    let what = (0..900 * SECOND, prop::option::of(0..6_u32), 0..4_u64, ended);
    let told =
        (prop::option::of(MILLI..600_000 * MILLI), 0..1_000_u32, prop::option::of(0..1_000_u32), 0..3_u64);
    (what, told).prop_map(|((at, endpoint, session, ended), (ttft, prompt_tokens, cached_tokens, arm))| {
        let (endpoint, session) = (endpoint.map(EndpointId), session << 40);
        (Arm(arm), Sample { at, endpoint, session, ended, ttft, prompt_tokens, cached_tokens })
    })
}

/// What is kept of a list of samples, the plain way.
fn kept(noted: &[(Arm, Sample)], of: Option<Arm>, from: Nanos, to: Nanos) -> Vec<Sample> {
    let second = |sample: &Sample| sample.at / SECOND;
    let mut newest = BTreeMap::new();
    for (arm, sample) in noted {
        let newest = newest.entry((*arm, second(sample) % 300)).or_insert(0);
        *newest = (*newest).max(second(sample));
    }
    let within = |sample: &Sample| (from / SECOND..to.div_ceil(SECOND)).contains(&second(sample));
    let there = |(arm, sample): &&(Arm, Sample)| {
        of.is_none_or(|of| of == *arm)
            && newest[&(*arm, second(sample) % 300)] == second(sample)
            && within(sample)
    };
    noted.iter().filter(there).map(|(_, sample)| *sample).collect()
}

proptest! {
    #[test]
    fn a_window_does_what_a_list_does(
        noted in prop::collection::vec(any_sample(), 0..300),
        of in prop::option::of(0..3_u64),
        from in 0..900 * SECOND,
        length in 0..300 * SECOND,
    ) {
        let windows = Windows::default();
        for (arm, sample) in &noted {
            windows.note(*arm, *sample);
        }
        let of = of.map(Arm);
        let summary = windows.summary(of, from, from + length);
        let kept = kept(&noted, of, from, from + length);
        let count = |ended| kept.iter().filter(|sample| sample.ended == ended).count() as u64;
        prop_assert_eq!(summary.ended, EndedCounts {
            answered: count(Ended::Answered),
            client_errors: count(Ended::ClientError),
            failed: count(Ended::Failed),
            refused: count(Ended::Refused),
            cancelled: count(Ended::Cancelled),
        });
        prop_assert_eq!(summary.ttft.count(), kept.iter().filter(|sample| sample.ttft.is_some()).count() as u64);
        hits_are_those_of(&summary.hits, &kept)?;
        spread_is_that_of(&summary.spread, &kept)?;
    }
}

fn hits_are_those_of(hits: &Hits, kept: &[Sample]) -> Result<(), TestCaseError> {
    let told: Vec<(f64, f64)> = kept
        .iter()
        .filter_map(|sample| Some((sample.prompt_tokens, sample.cached_tokens?)))
        .map(|(prompt, cached)| (prompt.into(), cached.min(prompt).into()))
        .collect();
    prop_assert_eq!(hits.requests, told.len() as u64);
    let prompt: f64 = told.iter().map(|told| told.0).sum();
    let Some(ratio) = hits.ratio() else {
        prop_assert_eq!(prompt, 0.0);
        return Ok(());
    };
    prop_assert!((ratio - told.iter().map(|told| told.1).sum::<f64>() / prompt).abs() < 1e-9);
    if let Some(variance) = hits.variance() {
        let mean = prompt / told.len() as f64;
        let residuals: f64 = told.iter().map(|(p, c)| ((c - ratio * p) / mean).powi(2)).sum();
        prop_assert!((variance - residuals / (told.len() - 1) as f64).abs() < 1e-6);
    }
    Ok(())
}

fn spread_is_that_of(spread: &Spread, kept: &[Sample]) -> Result<(), TestCaseError> {
    let mut requests = BTreeMap::<EndpointId, u32>::new();
    let mut units = BTreeMap::<EndpointId, BTreeSet<u64>>::new();
    let mut sessions = BTreeSet::new();
    for (number, sample) in (1_u64..).zip(kept) {
        let Some(endpoint) = sample.endpoint else { continue };
        // A request without a session is a session of its own.
        let session = if sample.session == 0 { number } else { sample.session };
        *requests.entry(endpoint).or_default() += 1;
        units.entry(endpoint).or_default().insert(session);
        sessions.insert(session);
    }
    let mut units: Vec<u32> = units.values().map(|sessions| sessions.len() as u32).collect();
    units.sort_unstable_by(|a, b| b.cmp(a));
    let all: u32 = requests.values().sum();
    prop_assert_eq!((spread.requests, spread.endpoints as usize), (all, requests.len()));
    prop_assert_eq!((spread.units, spread.sessions as usize), (units.iter().sum(), sessions.len()));
    for (many, busiest) in BUSIEST.iter().zip(spread.busiest) {
        prop_assert_eq!(busiest, units.iter().take(*many as usize).sum::<u32>());
    }
    if all > 0 {
        let shares = || requests.values().map(|count| f64::from(*count) / f64::from(all));
        let top = shares().fold(0.0, f64::max);
        prop_assert!((f64::from(spread.top_share) - top).abs() < 1e-6);
        let effective = 1.0 / shares().map(|share| share * share).sum::<f64>();
        prop_assert!((f64::from(spread.effective_endpoints) - effective).abs() < 1e-4);
    }
    Ok(())
}

#[test]
fn a_busy_second_keeps_a_fair_sample() {
    let windows = Windows::default();
    for number in 0..40_000_u32 {
        // A quarter of the requests, and all of them late in the second, go to the first endpoint.
        let endpoint = Some(EndpointId(if number >= 30_000 { 0 } else { 1 + number % 9 }));
        windows.note(Arm::BASE, Sample { endpoint, ..sample(u64::from(number / 10_000) * SECOND) });
    }
    let all = windows.summary(None, 0, 4 * SECOND);
    assert_eq!(all.requests(), 40_000);
    assert!(all.spread.requests < 1_000, "{}", all.spread.requests);
    assert!((all.spread.top_share - 0.25).abs() < 0.02, "{}", all.spread.top_share);
    for number in 0..40_000_u32 {
        let endpoint = Some(EndpointId(u32::from(number >= 30_000)));
        windows.note(Arm(1), Sample { endpoint, ..sample(0) });
    }
    let late = windows.summary(Some(Arm(1)), 0, SECOND).spread.top_share;
    assert!((late - 0.75).abs() < 0.13, "late requests are as likely kept as early ones: {late}");
}

#[test]
fn arms_are_bounded_and_the_versions_in_force_stay() {
    let windows = Windows::default();
    windows.note(Arm::BASE, sample(0));
    for arm in 1..20 {
        windows.note(Arm(arm), sample(arm * SECOND));
    }
    let heard = |arm| windows.summary(Some(Arm(arm)), 0, 60 * SECOND).requests();
    assert_eq!((0..20).map(heard).sum::<u64>(), MAX_ARMS as u64);
    assert_eq!((heard(0), heard(12), heard(13), heard(19)), (1, 0, 1, 1));
}

#[test]
fn a_pulse_counts_what_came_and_what_engines_counted() {
    let windows = Windows::default();
    assert_eq!(windows.pulse(0, SECOND).seconds, 0.0);
    windows.arrived(10 * SECOND, 7);
    windows.preemptions(11 * SECOND, [(EndpointId(1), 5.0)]);
    windows.preemptions(12 * SECOND, [(EndpointId(1), 8.0)]);
    windows.arrived(13 * SECOND, 5);
    let pulse = windows.pulse(0, 20 * SECOND);
    assert_eq!((pulse.requests, pulse.prompt_tokens, pulse.preemptions), (2, 12, Some(3.0)));
    assert_eq!(pulse.seconds, 10.0, "what was before the first request is no time without requests");
    assert_eq!(windows.pulse(13 * SECOND, 14 * SECOND).preemptions, None);
}

/// What noting costs; run by hand, in a release build.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_note() {
    const NOTES: u32 = 5_000_000;
    let windows = Windows::default();
    for threads in [1, 2] {
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for number in 0..NOTES {
                        let at = u64::from(number) * SECOND / 10_000;
                        let (ttft, endpoint) =
                            (Some(u64::from(number % 977) * MILLI), Some(EndpointId(number % 64)));
                        windows.note(Arm(u64::from(number % 2)), Sample { ttft, endpoint, ..sample(at) });
                    }
                });
            }
        });
        println!("{threads} threads: {:?} a note", began.elapsed() / (NOTES * threads));
    }
    let began = Instant::now();
    let summary = windows.summary(None, 200 * SECOND, 500 * SECOND);
    println!("a summary of {} requests: {:?}", summary.requests(), began.elapsed());
}
