//! Quantities for people.

/// Seconds with a fitting unit.
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        0.0 => return "0".to_owned(),
        s if s < 1e-3 => (seconds * 1e6, "us"),
        s if s < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    format!("{value:.3} {unit}")
}

/// Bytes in decimal units.
pub fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        b if b < 1e3 => format!("{bytes} B"),
        b if b < 1e6 => format!("{:.1} kB", bytes / 1e3),
        b if b < 1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.2} GB", bytes / 1e9),
    }
}

/// A part as percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

/// Percent with its sign.
pub(crate) fn signed_percent(percent: f64) -> String {
    format!("{percent:+.1} %")
}

/// Bytes per second.
pub(crate) fn speed(bytes_per_s: f64) -> String {
    format!("{:.1} GB/s", bytes_per_s / 1e9)
}

/// A factor, such as a speedup or a ratio.
pub(crate) fn factor(factor: f64) -> String {
    format!("{factor:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        assert_eq!(seconds(0.0), "0");
        assert_eq!(seconds(12.5e-6), "12.500 us");
        assert_eq!(seconds(0.0125), "12.500 ms");
        assert_eq!(seconds(1.5), "1.500 s");
        assert_eq!(bytes(8.0), "8 B");
        assert_eq!(bytes(12_345.0), "12.3 kB");
        assert_eq!(bytes(251_658_240.0), "251.7 MB");
        assert_eq!(speed(2.5e10), "25.0 GB/s");
        assert_eq!([percent(0.5), signed_percent(-2.04), factor(1.0 / 3.0)], ["50.0 %", "-2.0 %", "0.333"]);
    }
}
