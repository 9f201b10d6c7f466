//! A line through points.

/// Where the line of least squares begins and how steep it is; none where it does not rise.
pub(super) fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "a handful of points")]
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = together / spread;
    (slope.is_finite() && slope > 0.0).then_some((y - slope * x, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = [100.0, 400.0, 1_600.0].map(|x| (x, 9.0 + x * 0.05)).to_vec();
        let (fixed, slope) = line(&points).unwrap();
        assert!((fixed - 9.0).abs() < 1e-9 && (slope - 0.05).abs() < 1e-12);
    }

    #[test]
    fn what_does_not_rise_is_no_rate() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 1.0)]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, 2.0), (2.0, 1.0)]), None);
    }
}
