//! One event of a trace, as it is written.

use std::borrow::Cow;

use crate::scan::{members, unquoted};

/// Kinds of events that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Kernel,
    Copy,
    /// Arguments of a call, which the CPU recorded.
    Recorded,
}

/// Event of a kind that is read; its values as they are written.
#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) kind: EventKind,
    pub(super) name: &'a [u8],
    pub(super) ts: &'a [u8],
    pub(super) dur: &'a [u8],
    pub(super) args: &'a [u8],
    pid: &'a [u8],
    tid: &'a [u8],
}

impl<'a> Event<'a> {
    /// Event of a text, none if it is of another kind; an error if it is no object.
    pub(super) fn of(text: &'a [u8]) -> Result<Option<Self>, ()> {
        let mut event =
            Self { kind: EventKind::Copy, name: b"", ts: b"", dur: b"", args: b"{}", pid: b"", tid: b"" };
        let mut category: &[u8] = b"";
        for member in members(text) {
            let (key, value) = member?;
            match key {
                b"cat" => {
                    category = unquoted(value).unwrap_or_default();
                    // Most events are of no interest, and not looked into any further.
                    if !is_read(category) {
                        return Ok(None);
                    }
                }
                b"name" => event.name = value,
                b"ts" => event.ts = value,
                b"dur" => event.dur = value,
                b"args" => event.args = value,
                b"pid" => event.pid = value,
                b"tid" => event.tid = value,
                _ => {}
            }
            if is_of_cpu(category) && !event.name.is_empty() && event.name != b"\"record_param_comms\"" {
                return Ok(None);
            }
        }
        event.kind = match category {
            _ if category.eq_ignore_ascii_case(b"kernel") => EventKind::Kernel,
            _ if is_of_cpu(category) => EventKind::Recorded,
            _ if is_read(category) => EventKind::Copy,
            _ => return Ok(None),
        };
        Ok(Some(event))
    }

    /// Number of its GPU, if its process is called by that.
    pub(super) fn device(&self) -> Option<u64> {
        whole(self.pid)
    }

    /// Number of its stream, if its thread is called by that.
    pub(super) fn stream(&self) -> Option<u64> {
        whole(self.tid)
    }
}

fn is_of_cpu(category: &[u8]) -> bool {
    category.eq_ignore_ascii_case(b"cpu_op") || category.eq_ignore_ascii_case(b"operator")
}

fn is_read(category: &[u8]) -> bool {
    const COPIES: [&[u8]; 4] = [b"gpu_memcpy", b"gpu_memset", b"memcpy", b"memset"];
    category.eq_ignore_ascii_case(b"kernel")
        || is_of_cpu(category)
        || COPIES.iter().any(|name| category.eq_ignore_ascii_case(name))
}

/// A whole number, or text that is one.
pub(super) fn whole(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(unquoted(value).unwrap_or(value)).ok()?.trim().parse().ok()
}

/// A string, and whether it had to be repaired: control characters, which JSON forbids, become blanks, and bytes that are no UTF-8 their replacement.
pub(super) fn string(value: &[u8]) -> (Cow<'_, str>, bool) {
    if let Ok(text) = serde_json::from_slice::<Cow<'_, str>>(value) {
        return (text, false);
    }
    let plain: Vec<u8> = value.iter().map(|byte| if *byte < b' ' { b' ' } else { *byte }).collect();
    let plain = String::from_utf8_lossy(&plain);
    match serde_json::from_str::<String>(&plain) {
        Ok(text) => (Cow::Owned(text), true),
        // An escape that is none: shown as it is written.
        Err(_) => (Cow::Owned(plain.trim_matches('"').to_owned()), true),
    }
}

/// Nanoseconds of a number of microseconds, exact to the nanosecond however large it is, and whether it is text; none if it is no number.
pub(super) fn decimal_ns(value: &[u8]) -> (Option<i64>, bool) {
    let inner = unquoted(value);
    let text = std::str::from_utf8(inner.unwrap_or(value)).unwrap_or_default().trim();
    (microseconds(text), inner.is_some())
}

fn microseconds(text: &str) -> Option<i64> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.contains(['e', 'E']) {
        let ns = 1e3 * text.parse::<f64>().ok()?;
        return (ns.abs() < 9e18).then_some(ns.round() as i64);
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digit = |index: usize| fraction.as_bytes().get(index).map_or(0, |byte| i64::from(byte - b'0'));
    let rounded = 100 * digit(0) + 10 * digit(1) + digit(2) + i64::from(digit(3) >= 5);
    let ns = whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(rounded)?;
    Some(if is_negative { -ns } else { ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        for (text, ns) in [
            ("4458676524670.502", Some(4_458_676_524_670_502)),
            // Microseconds since 1970, which a double does not hold to the nanosecond.
            ("1711964646123456.789", Some(1_711_964_646_123_456_789)),
            ("\"12.5\"", Some(12_500)),
            ("7", Some(7000)),
            ("-0.0006", Some(-1)),
            ("1.5e3", Some(1_500_000)),
            ("99999999999999999999", None),
            ("NaN", None),
            ("", None),
            ("\"soon\"", None),
        ] {
            assert_eq!(decimal_ns(text.as_bytes()).0, ns, "{text}");
        }
    }

    #[test]
    fn strings_with_what_json_forbids_are_read() {
        assert_eq!(string(br#""a\nb""#), ("a\nb".into(), false));
        assert_eq!(string(b"\"a\x01b\n\""), ("a b ".into(), true));
        assert_eq!(string(b"\"a\xff\""), ("a\u{fffd}".into(), true));
        assert_eq!(string(br#""\q""#), (r"\q".into(), true));
    }
}
