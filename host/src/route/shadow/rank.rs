//! How alike two lists of scores order the same candidates.
//!
//! Spearman's rank correlation: policies score on scales of their own, and one that orders the candidates as the
//! other does gets 1 whatever the shape of its scores. What the shape does to the weighted sum shows in whether the
//! same endpoint comes out best, which is counted beside it.

/// -1..=1; none where one side's scores are all equal, or there are fewer than two.
pub(super) fn correlation(a: &[f32], b: &[f32]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let (a_mean, b_mean) = (mean(&a)?, mean(&b)?);
    let mut sums = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(&b) {
        let (a, b) = (a - a_mean, b - b_mean);
        sums = (sums.0 + a * b, sums.1 + a * a, sums.2 + b * b);
    }
    let spread = (sums.1 * sums.2).sqrt();
    (spread > 0.0).then(|| (sums.0 / spread).clamp(-1.0, 1.0))
}

/// The rank of each value; equal ones share the mean of theirs.
#[expect(clippy::cast_precision_loss, reason = "positions of candidates")]
fn ranks(values: &[f32]) -> Vec<f64> {
    let mut sorted: Vec<(f32, usize)> = values.iter().copied().zip(0..).collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let rank = start as f64 + (equal.len() - 1) as f64 / 2.0;
        for (_, position) in equal {
            if let Some(place) = ranks.get_mut(*position) {
                *place = rank;
            }
        }
        start += equal.len();
    }
    ranks
}

#[expect(clippy::cast_precision_loss, reason = "positions of candidates")]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    #[test]
    fn the_order_counts_and_not_the_shape() {
        assert!(close(correlation(&[0.1, 0.2, 0.9], &[0.0, 0.9, 1.0]), 1.0));
        assert!(close(correlation(&[0.1, 0.2, 0.9], &[0.9, 0.2, 0.1]), -1.0));
        assert!(close(correlation(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]), 0.6));
    }

    #[test]
    fn equal_scores_share_their_rank() {
        assert!(close(correlation(&[0.0, 0.0, 1.0], &[0.0, 0.0, 1.0]), 1.0));
        // Ranks 0.5 0.5 2 against 0 1 2: 1.5 / sqrt(1.5 · 2).
        assert!(close(correlation(&[0.0, 0.0, 1.0], &[0.0, 0.5, 1.0]), 1.5 / 3.0_f64.sqrt()));
    }

    #[test]
    fn constant_scores_say_nothing() {
        assert_eq!(correlation(&[0.5, 0.5], &[0.0, 1.0]), None);
        assert_eq!(correlation(&[0.5], &[0.5]), None);
        assert_eq!(correlation(&[], &[]), None);
    }
}
