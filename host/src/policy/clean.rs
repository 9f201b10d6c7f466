//! What an answer must look like before the pipeline uses it.

use super::{CallError, Leg, Placement, Reason, Rejection, Verdict};

/// Bytes of a flow's name, and of a rejection's reason, that are kept. What is longer is cut and no failure: it may
/// be made of what a client sent.
const MAX_TEXT: usize = 1_024;
/// Legs of one request. Each is a request to an engine.
const MAX_LEGS: usize = 8;

/// Scores as they may be added up, and how many had to be clamped into 0..=1.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// One a candidate, each in 0..=1.
    pub values: Vec<f32>,
    /// How many lay outside.
    pub clamped: usize,
}

/// Checks a list of scores for `len` candidates.
///
/// # Errors
/// When the length is wrong or a score is not finite.
pub fn scores(mut values: Vec<f32>, len: usize) -> Result<Scores, CallError> {
    if values.len() != len {
        return Err(CallError::new(
            Reason::WrongLength,
            format!("{} scores for {len} candidates", values.len()),
        ));
    }
    let mut clamped = 0;
    for (position, value) in values.iter_mut().enumerate() {
        if !value.is_finite() {
            return Err(CallError::new(
                Reason::NotFinite,
                format!("the score at position {position} is {value}"),
            ));
        }
        if !(0.0..=1.0).contains(value) {
            *value = value.clamp(0.0, 1.0);
            clamped += 1;
        }
    }
    Ok(Scores { values, clamped })
}

/// Checks positions among `len` candidates, each named once.
///
/// # Errors
/// When a position is out of range or repeated.
pub fn positions(positions: Vec<u32>, len: usize) -> Result<Vec<u32>, CallError> {
    let mut seen = vec![false; len];
    for position in &positions {
        match usize::try_from(*position).ok().and_then(|index| seen.get_mut(index)) {
            None => {
                return Err(CallError::new(
                    Reason::OutOfRange,
                    format!("position {position} of {len} candidates"),
                ));
            }
            Some(seen) if *seen => {
                return Err(CallError::new(Reason::Repeated, format!("position {position} is named twice")));
            }
            Some(seen) => *seen = true,
        }
    }
    Ok(positions)
}

/// Checks legs among `len` candidates.
///
/// # Errors
/// When there are too many, or a position of one is out of range or repeated.
pub fn legs(legs: Vec<Leg>, len: usize) -> Result<Vec<Leg>, CallError> {
    if legs.len() > MAX_LEGS {
        return Err(CallError::new(
            Reason::Invalid,
            format!("{} legs; a request has up to {MAX_LEGS}", legs.len()),
        ));
    }
    legs.into_iter().map(|leg| Ok(Leg { candidates: positions(leg.candidates, len)?, ..leg })).collect()
}

/// Checks positions among `len` flows; a flow may be named more than once.
///
/// # Errors
/// When a position is out of range.
pub fn flows(chosen: Vec<u32>, len: usize) -> Result<Vec<u32>, CallError> {
    let outside = |position: &&u32| usize::try_from(**position).is_ok_and(|index| index >= len);
    match chosen.iter().find(outside) {
        Some(position) => {
            Err(CallError::new(Reason::OutOfRange, format!("position {position} of {len} flows")))
        }
        None => Ok(chosen),
    }
}

/// Checks a verdict.
///
/// # Errors
/// When a rejection's status is none of 400 to 599.
pub fn verdict(mut verdict: Verdict) -> Result<Verdict, CallError> {
    if let Verdict::Reject(Rejection { reason, .. }) = &mut verdict {
        reason.truncate(reason.floor_char_boundary(MAX_TEXT));
    }
    match &verdict {
        Verdict::Reject(Rejection { status, .. }) if !(400..=599).contains(status) => Err(CallError::new(
            Reason::Invalid,
            format!("a rejection with status {status}; 400 to 599 are allowed"),
        )),
        _ => Ok(verdict),
    }
}

/// Checks a placement. A ceiling is above 0: at an idle pool, and at one whose policy is not heard, nothing waits.
///
/// # Errors
/// When a number is not finite or the weight is not above 0.
pub fn placement(mut placement: Placement) -> Result<Placement, CallError> {
    let Placement { weight, rank, ceiling, .. } = placement;
    if !weight.is_finite() || !rank.is_finite() || !ceiling.is_finite() {
        return Err(CallError::new(
            Reason::NotFinite,
            format!("placement with weight {weight}, rank {rank}, ceiling {ceiling}"),
        ));
    }
    if weight <= 0.0 {
        return Err(CallError::new(
            Reason::Invalid,
            format!("placement with weight {weight}; it must be above 0"),
        ));
    }
    placement.ceiling = ceiling.max(f32::MIN_POSITIVE);
    if let Some(kept) = placement.flow.get(..placement.flow.floor_char_boundary(MAX_TEXT))
        && kept.len() < placement.flow.len()
    {
        placement.flow = kept.into();
    }
    Ok(placement)
}

/// Checks a saturation.
///
/// # Errors
/// When it is not finite.
pub fn saturation(value: f32) -> Result<f32, CallError> {
    if value.is_finite() {
        Ok(value.max(0.0))
    } else {
        Err(CallError::new(Reason::NotFinite, format!("saturation is {value}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_ceilings_raised_and_many_legs_refused() {
        let long = "é".repeat(MAX_TEXT);
        let placed = Placement {
            flow: long.clone().into(),
            band: 0,
            weight: 1.0,
            cost: 1,
            rank: 0.0,
            ceiling: 1.0,
            ttl_ms: None,
            kv_tokens: None,
        };
        assert_eq!(placement(placed.clone()).unwrap().flow.len(), MAX_TEXT);
        assert!(placement(Placement { ceiling: -1.0, ..placed }).unwrap().ceiling > 0.0);
        let rejection = Rejection { status: 429, reason: long, retry_after_ms: None };
        let Ok(Verdict::Reject(cut)) = verdict(Verdict::Reject(rejection)) else { panic!("no rejection") };
        assert_eq!(cut.reason.len(), MAX_TEXT);
        let leg = Leg { stage: crate::policy::LegStage::Prefill, candidates: vec![0] };
        assert_eq!(legs(vec![leg.clone(); MAX_LEGS], 1).unwrap().len(), MAX_LEGS);
        assert_eq!(legs(vec![leg; MAX_LEGS + 1], 1).unwrap_err().reason, Reason::Invalid);
    }

    #[test]
    fn scores_outside_are_clamped_and_counted() {
        assert_eq!(
            scores(vec![-1.0, 0.5, 7.0], 3).unwrap(),
            Scores { values: vec![0.0, 0.5, 1.0], clamped: 2 }
        );
    }

    #[test]
    fn unusable_scores_are_errors() {
        assert_eq!(scores(vec![0.0], 2).unwrap_err().reason, Reason::WrongLength);
        assert_eq!(scores(vec![f32::NAN], 1).unwrap_err().reason, Reason::NotFinite);
        assert_eq!(scores(vec![f32::INFINITY], 1).unwrap_err().reason, Reason::NotFinite);
    }

    #[test]
    fn positions_are_in_range_and_single() {
        assert_eq!(positions(vec![2, 0], 3).unwrap(), [2, 0]);
        assert_eq!(positions(vec![3], 3).unwrap_err().reason, Reason::OutOfRange);
        assert_eq!(positions(vec![1, 1], 3).unwrap_err().reason, Reason::Repeated);
    }
}
