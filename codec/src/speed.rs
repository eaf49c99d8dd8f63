//! Speeds in the text of specs: `25 GB/s`, `400 Gb/s`, with the units of scenarios.

/// The fastest, in bytes per second: well within what a floating-point number holds exactly.
const FASTEST: u64 = 1_000_000_000_000_000;

/// A unit is `multiply` / `divide` bytes per second.
struct Unit {
    name: &'static str,
    multiply: u64,
    divide: u64,
}

const fn unit(name: &'static str, multiply: u64, divide: u64) -> Unit {
    Unit { name, multiply, divide }
}

const UNITS: [Unit; 13] = [
    unit("TB/s", 1_000_000_000_000, 1),
    unit("GB/s", 1_000_000_000, 1),
    unit("MB/s", 1_000_000, 1),
    unit("KB/s", 1_000, 1),
    unit("B/s", 1, 1),
    unit("KiB/s", 1 << 10, 1),
    unit("MiB/s", 1 << 20, 1),
    unit("GiB/s", 1 << 30, 1),
    unit("TiB/s", 1 << 40, 1),
    unit("kb/s", 1_000, 8),
    unit("Mb/s", 1_000_000, 8),
    unit("Gb/s", 1_000_000_000, 8),
    unit("Tb/s", 1_000_000_000_000, 8),
];
/// How many of them texts are written in: the first ones, in descending order.
const WRITTEN: usize = 5;

/// Bytes per second, rounded to whole ones; none if the text is no speed from a byte to a petabyte per second.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let end = text.bytes().position(|byte| !digits(byte)).unwrap_or(text.len());
    let (number, name) = text.split_at(end);
    let unit = UNITS.iter().find(|unit| unit.name == name.trim_start_matches(' '))?;
    let number: f64 = number.parse().ok()?;
    let speed = libm::round(number * unit.multiply as f64 / unit.divide as f64);
    (1.0..=FASTEST as f64).contains(&speed).then_some(speed as u64)
}

/// The text of a speed in the largest decimal unit that it reaches, exactly.
pub(crate) fn text(bytes_per_s: u64) -> String {
    let written = &UNITS[..WRITTEN];
    let unit = written.iter().find(|unit| bytes_per_s >= unit.multiply).unwrap_or(&written[WRITTEN - 1]);
    let (whole, rest) = (bytes_per_s / unit.multiply, bytes_per_s % unit.multiply);
    let places = unit.multiply.ilog10() as usize;
    let fraction = format!("{rest:0places$}");
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        format!("{whole} {}", unit.name)
    } else {
        format!("{whole}.{fraction} {}", unit.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_in_every_unit_and_written_in_one() {
        for (given, expected, written) in [
            ("25 GB/s", 25_000_000_000, "25 GB/s"),
            ("25GB/s", 25_000_000_000, "25 GB/s"),
            ("400 Gb/s", 50_000_000_000, "50 GB/s"),
            ("1.5 TB/s", 1_500_000_000_000, "1.5 TB/s"),
            ("0.25 GB/s", 250_000_000, "250 MB/s"),
            ("1 MiB/s", 1 << 20, "1.048576 MB/s"),
            ("1 KiB/s", 1024, "1.024 KB/s"),
            ("8 kb/s", 1000, "1 KB/s"),
            ("999 B/s", 999, "999 B/s"),
            ("1000 TB/s", FASTEST, "1000 TB/s"),
        ] {
            assert_eq!(parse(given), Some(expected), "{given}");
            assert_eq!(text(expected), written);
        }
        for speed in [1, 7, 1_001, 123_456_789_012_345, 999_999_999_999_999] {
            assert_eq!(parse(&text(speed)), Some(speed));
        }
    }

    #[test]
    fn anything_else_is_no_speed() {
        for text in
            ["", "25", "GB/s", "-1 GB/s", "+1 GB/s", "0 GB/s", "1e3 GB/s", "1 GBps", "1.2.3 GB/s", ". B/s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["inf GB/s", "1001 TB/s", "0.4 B/s", "25 GB/s ", " 25 GB/s", "25\tGB/s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
