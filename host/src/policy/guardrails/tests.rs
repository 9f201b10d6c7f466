use super::*;
use crate::clock::{MILLI, SECOND};
use crate::pool::Windows;
use crate::pool::window::{Ended, Sample};
use crate::types::{Arm, EndpointId};

const ARM: Arm = Arm(3);

/// A pool in which nothing is out of the ordinary: a minute before the trial and one of it, ten requests a second,
/// one of them the candidate's. `change` may alter what comes after the trial began.
fn evidence(split: Split, change: impl Fn(&mut Arm, &mut Sample)) -> Evidence {
    let windows = Windows::default();
    let rails = Guardrails::default();
    let mut trial = None;
    for number in 0..1_200_u32 {
        let at = SECOND + u64::from(number) * SECOND / 10;
        let mut arm = if number % 10 == 0 { ARM } else { Arm::BASE };
        let mut sample = Sample {
            at,
            endpoint: Some(EndpointId(number * 7 / 10 % 4)),
            session: 0,
            ended: Ended::Answered,
            ttft: Some(u64::from(50 + number * 13 % 100) * MILLI),
            prompt_tokens: 1_000,
            cached_tokens: Some(300 + number * 29 % 400),
        };
        match number {
            0..600 => arm = Arm::BASE,
            600 => trial = Some(Comparison::begin(&windows, &rails, ARM, split, at)),
            _ => change(&mut arm, &mut sample),
        }
        windows.arrived(at, sample.prompt_tokens);
        windows.note(arm, sample);
    }
    trial.unwrap().evidence(&windows, 121 * SECOND)
}

fn usual(change: impl Fn(&mut Arm, &mut Sample)) -> Evidence {
    evidence(Split::Requests, change)
}

/// What trips, by default and with one limit lifted.
fn tripped(evidence: &Evidence, off: impl Fn(&mut Guardrails)) -> Option<(Rail, Against)> {
    let mut rails = Guardrails::default();
    let told = judge(&rails, evidence);
    off(&mut rails);
    let lifted = judge(&rails, evidence);
    assert!(told.is_none() || told != lifted, "{told:?} trips although it is off");
    told.map(|tripped| {
        assert!(tripped.text.len() > 20 && tripped.was != tripped.is, "{tripped:?}");
        (tripped.rail, tripped.against)
    })
}

#[test]
fn nothing_trips_where_nothing_changes() {
    assert_eq!(judge(&Guardrails::default(), &usual(|_, _| ())), None);
    let all_of_it = usual(|arm, _| *arm = ARM);
    assert_eq!(judge(&Guardrails::default(), &all_of_it), None);
}

#[test]
fn the_arm_is_compared_with_the_version_in_force() {
    let fails = usual(|arm, sample| {
        if *arm == ARM && (sample.at / SECOND).is_multiple_of(2) {
            sample.ended = Ended::Refused;
        }
    });
    assert_eq!(tripped(&fails, |rails| rails.error_rate = 0.0), Some((Rail::Errors, Against::Base)));
    let slow = usual(|arm, sample| {
        if *arm == ARM {
            sample.ttft = sample.ttft.map(|ttft| ttft * 4);
        }
    });
    assert_eq!(tripped(&slow, |rails| rails.ttft_ratio = 0.0), Some((Rail::Ttft, Against::Base)));
    let forgets = usual(|arm, sample| {
        if *arm == ARM {
            sample.cached_tokens = Some(0);
        }
    });
    assert_eq!(tripped(&forgets, |rails| rails.hit_ratio_drop = 0.0), Some((Rail::HitRatio, Against::Base)));
    let herd = |arm: &mut Arm, sample: &mut Sample| {
        if *arm == ARM {
            sample.endpoint = Some(EndpointId(2));
        }
    };
    assert_eq!(tripped(&usual(herd), |rails| rails.herding = 0.0), Some((Rail::Herding, Against::Base)));
    assert_eq!(
        tripped(&evidence(Split::Endpoints, herd), |_| ()),
        None,
        "an arm with one endpoint has no other"
    );
}

#[test]
fn the_pool_is_compared_with_what_it_was_where_there_is_no_other_arm() {
    let slow = usual(|arm, sample| {
        *arm = ARM;
        sample.ttft = sample.ttft.map(|ttft| ttft * 4);
    });
    assert_eq!(tripped(&slow, |rails| rails.ttft_ratio = 0.0), Some((Rail::Ttft, Against::Before)));
    let fails = usual(|arm, sample| {
        *arm = ARM;
        if (sample.at / (SECOND / 10)).is_multiple_of(5) {
            sample.ended = Ended::Failed;
        }
    });
    assert_eq!(tripped(&fails, |rails| rails.error_rate = 0.0), Some((Rail::Errors, Against::Before)));
    let mut busier = slow;
    busier.pulse_now.prompt_tokens *= 2;
    assert_eq!(tripped(&busier, |_| ()), None, "more comes than did");
}

#[test]
fn preemptions_are_compared_by_request() {
    let mut evidence = usual(|_, _| ());
    let mut with = |before, now| {
        evidence.pulse_before.preemptions = before;
        evidence.pulse_now.preemptions = now;
        tripped(&evidence, |rails| rails.preemption_ratio = 0.0)
    };
    assert_eq!(with(Some(20.0), Some(400.0)), Some((Rail::Preemptions, Against::Before)));
    assert_eq!(with(Some(0.0), Some(400.0)), Some((Rail::Preemptions, Against::Before)));
    assert_eq!(with(Some(0.0), Some(8.0)), None, "so few may come together");
    assert_eq!(with(Some(300.0), Some(400.0)), None, "less than twice as many");
    assert_eq!(with(None, Some(400.0)), None, "nothing was known before");
}

#[test]
fn a_few_sessions_do_not_speak_for_many() {
    let one_talk = usual(|arm, sample| {
        sample.session = if *arm == ARM { 1 << 40 } else { 0 };
        if *arm == ARM {
            sample.endpoint = Some(EndpointId(1));
            sample.ttft = sample.ttft.map(|ttft| ttft * 4);
            sample.cached_tokens = Some(0);
        }
    });
    assert_eq!(judge(&Guardrails::default(), &one_talk), None);
}

#[test]
fn below_the_minimum_of_samples_nothing_but_herding_is_judged() {
    let rails = Guardrails { min_samples: 1_000, ..Guardrails::default() };
    let slow = usual(|arm, sample| {
        if *arm == ARM {
            sample.ttft = sample.ttft.map(|ttft| ttft * 4);
            sample.ended = Ended::Failed;
        }
    });
    assert_eq!(judge(&rails, &slow), None);
}
