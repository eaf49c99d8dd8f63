//! Dates and times of day, as seconds.

/// Days from the beginning of the year 1 to that of 2000: nearer days leave more digits to seconds.
const EPOCH_DAYS: i64 = 730_119;

/// Seconds since the beginning of the year 2000 in UTC of a text like `2023-11-16 18:15:46.6805900`, or with `Z` or an offset like `+00:00` behind
/// it. Without an offset it is UTC.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let date: Vec<u64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (time, offset_s) = match time.find(['+', '-', 'Z']) {
        Some(at) => (&time[..at], offset(&time[at..])?),
        None => (time, 0),
    };
    let parts: Vec<&str> = time.split(':').collect();
    let (&[year, month, day], &[hour, minute, second]) = (date.as_slice(), parts.as_slice()) else {
        return None;
    };
    let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
    let second: f64 = second.parse().ok()?;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_date = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=*lengths.get(month as usize - 1)?).contains(&day);
    if !is_date || hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let years = year - 1;
    let days = years * 365 + years / 4 - years / 100
        + years / 400
        + lengths[..month as usize - 1].iter().sum::<u64>()
        + day
        - 1;
    let clock = (hour * 3600 + minute * 60) as i64;
    Some(((days as i64 - EPOCH_DAYS) * 86_400 + clock - offset_s) as f64 + second)
}

/// Seconds by which clocks with this offset, `Z` or like `+05:30` or `-0800`, are ahead of UTC.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.split_at(1) {
        ("Z", "") => return Some(0),
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':').or_else(|| digits.split_at_checked(2))?;
    let number = |text: &str, limit: i64| {
        let is_number = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
        text.parse().ok().filter(|&number: &i64| is_number && number < limit)
    };
    Some(sign * (number(hours, 24)? * 3600 + number(minutes, 60)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let at = |text| seconds(text).unwrap();
        assert_eq!(at("2024-03-01 00:00:00") - at("2024-02-28 00:00:00"), 2.0 * 86_400.0);
        assert_eq!(at("2023-03-01 00:00:00") - at("2023-02-28 23:59:59.5"), 0.5);
        assert_eq!(at("1970-01-01T00:00:00Z"), -10_957.0 * 86_400.0);
        assert_eq!(seconds("2023-02-29 00:00:00"), None);
        assert_eq!(seconds("2023-02-28"), None);
        assert_eq!(seconds("2023-00-10 00:00:00"), None);
    }

    #[test]
    fn offsets_are_taken_off() {
        let utc = seconds("2024-05-10 12:00:00.25").unwrap();
        for text in [
            "2024-05-10 12:00:00.25+00:00",
            "2024-05-10T12:00:00.25Z",
            "2024-05-10 14:00:00.25+02:00",
            "2024-05-10 17:30:00.25+0530",
            "2024-05-10 04:00:00.25-08:00",
            "2024-05-11 01:00:00.25+13:00",
        ] {
            assert_eq!(seconds(text), Some(utc), "{text}");
        }
        for offset in ["+1", "+24:00", "+00:60", "Z1", "+0:000", "+", "+aa:bb", "+\u{e9}00"] {
            assert_eq!(seconds(&format!("2024-05-10 12:00:00{offset}")), None, "{offset}");
        }
    }
}
