//! `strftime_now`: the date of today, as far as two machines agree on it.
//!
//! Engines take their own clock's local time; most run in UTC, as it is taken here. The time of day would differ
//! between here and there, and so a template that asks for it is not rendered.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A date in this format; none for what is no part of a date. `seconds` are those since 1970, UTC.
pub(super) fn strftime(format: &str, seconds: u64) -> Option<String> {
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let month_name = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let weekday = DAYS.get(usize::try_from(days % 7).ok()?)?;
    let short = |name: &str| name.get(..3).unwrap_or_default().to_owned();
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        out.push_str(&match chars.next()? {
            'd' => format!("{day:02}"),
            'm' => format!("{month:02}"),
            'y' => format!("{:02}", year % 100),
            'Y' => format!("{year:04}"),
            'B' => (*month_name).to_owned(),
            'b' | 'h' => short(month_name),
            'A' => (*weekday).to_owned(),
            'a' => short(weekday),
            'F' => format!("{year:04}-{month:02}-{day:02}"),
            '-' => match chars.next()? {
                'd' => day.to_string(),
                'm' => month.to_string(),
                _ => return None,
            },
            '%' => "%".to_owned(),
            _ => return None,
        });
    }
    Some(out)
}

/// Year, month and day of a number of days since 1970, by the calendar of today.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from the first of March of the year 0: leap days come last.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |seconds| strftime("%d %b %Y, %A %a %B %m %y %%", seconds).unwrap();
        assert_eq!(date(0), "01 Jan 1970, Thursday Thu January 01 70 %");
        assert_eq!(date(951_782_400), "29 Feb 2000, Tuesday Tue February 02 00 %");
        assert_eq!(date(1_796_083_199), "30 Nov 2026, Monday Mon November 11 26 %");
        assert_eq!(date(1_796_083_200), "01 Dec 2026, Tuesday Tue December 12 26 %");
        assert_eq!(strftime("%-d.%-m.", 951_782_400).unwrap(), "29.2.");
    }

    #[test]
    fn the_time_of_day_is_not_rendered() {
        for format in ["%H:%M", "%c", "%", "%-", "%-H", "%Z"] {
            assert_eq!(strftime(format, 0), None, "{format}");
        }
    }
}
