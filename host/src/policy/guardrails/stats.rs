//! Exact tests of counts.
//!
//! Each gives the probability that chance alone brings what was seen, or more, when both sides are alike.

use libm::lgamma;

/// ln of n over k.
fn ln_choose(n: f64, k: f64) -> f64 {
    lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
}

/// Some of a number of things, marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) marked: u64,
    pub(super) of: u64,
}

/// ln of the chance that `is` holds as many marked things as it does, or more, when the marks of both sides are
/// dealt out at random: Fisher's exact test, one-sided (R. A. Fisher, "Statistical Methods for Research Workers",
/// 5th ed. 1934, §21.02). Nothing has to be known of the true share, and no count is too small.
pub(super) fn ln_more_often(is: Marked, was: Marked) -> f64 {
    let (n, m) = (real(is.of), real(was.of));
    let marks = real(is.marked.min(is.of)) + real(was.marked.min(was.of));
    let term = |x: f64| ln_choose(n, x) + ln_choose(m, marks - x) - ln_choose(n + m, marks);
    let most = n.min(marks);
    tail(is.marked.min(is.of), most, marks * n / (n + m), term)
}

/// ln of the chance of `x` or more successes among `n`, each with probability `p`.
pub(super) fn ln_binomial(x: u64, n: u64, p: f64) -> f64 {
    let n = real(n);
    let term = |x: f64| ln_choose(n, x) + x * p.ln() + (n - x) * (1.0 - p).ln();
    tail(x, n, n * p, term)
}

/// ln of the sum of the terms from `from` to `most`. Below the mean the sum is near 1 and of no interest: 0.
fn tail(from: u64, most: f64, mean: f64, ln_term: impl Fn(f64) -> f64) -> f64 {
    /// A term that adds less than this to the sum is one of those that fall ever faster.
    const NEGLIGIBLE: f64 = 1e-12;
    let from = real(from);
    if from <= mean {
        return 0.0;
    }
    let first = ln_term(from);
    let (mut sum, mut x) = (1.0, from + 1.0);
    while x <= most {
        let term = (ln_term(x) - first).exp();
        sum += term;
        if term < NEGLIGIBLE {
            break;
        }
        x += 1.0;
    }
    (first + sum.ln()).min(0.0)
}

/// ln of the number of sets of `k` among `n`.
pub(super) fn ln_sets(n: u32, k: u32) -> f64 {
    if k < n { ln_choose(f64::from(n), f64::from(k)) } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^53")]
pub(super) fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(marked: u64, of: u64) -> Marked {
        Marked { marked, of }
    }

    #[test]
    fn fisher_s_own_example() {
        // Tea, milk first or last: all four right has a chance of 1 in 70, three or more of 17 in 70.
        assert!((ln_more_often(marked(4, 4), marked(0, 4)).exp() - 1.0 / 70.0).abs() < 1e-12);
        assert!((ln_more_often(marked(3, 4), marked(1, 4)).exp() - 17.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn no_side_may_be_empty_of_sense() {
        for (is, was) in
            [(marked(0, 0), marked(0, 0)), (marked(0, 5), marked(0, 5)), (marked(5, 5), marked(5, 5))]
        {
            assert_eq!(ln_more_often(is, was), 0.0, "{is:?} {was:?}");
        }
        assert!((ln_binomial(3, 3, 0.5).exp() - 0.125).abs() < 1e-12);
    }

    proptest! {
        /// The tails are those that adding up all cases gives.
        #[test]
        fn tails_are_sums(n in 1..12_u64, m in 1..12_u64, seed in any::<u64>(), p in 0.05..0.95_f64) {
            let marks = seed % (n + m + 1);
            let least = marks.saturating_sub(m);
            let choose = |n: u64, k: u64| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
            let x = least + (seed >> 32) % (n.min(marks) - least + 1);
            let all = choose(n + m, marks);
            let exact: f64 = (x..=n.min(marks)).map(|x| choose(n, x) * choose(m, marks - x) / all).sum();
            let tail = ln_more_often(marked(x, n), marked(marks - x, m)).exp();
            let above = x as f64 > marks as f64 * n as f64 / (n + m) as f64;
            prop_assert!((tail - if above { exact } else { 1.0 }).abs() < 1e-9, "{tail} {exact}");

            let exact: f64 = (x..=n).map(|x| choose(n, x) * p.powi(x as i32) * (1.0 - p).powi((n - x) as i32)).sum();
            let tail = ln_binomial(x, n, p).exp();
            prop_assert!((tail - if x as f64 > n as f64 * p { exact } else { 1.0 }).abs() < 1e-9, "{tail} {exact}");
        }
    }
}
