//! Numbers with units: `25 GB/s`, `5 us`, `16 MiB`, `60 TFLOP/s`.

use zipwire_traces::nearest;

/// Dimension of a quantity, which decides the units that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Bytes per second.
    Bandwidth,
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// Floating-point operations per second.
    ComputeRate,
    /// Events per second.
    Rate,
}

/// Value in the base unit = number x `multiply` / `divide`; both are exact, so that one rounding remains.
struct Unit {
    name: &'static str,
    multiply: f64,
    divide: f64,
}

const fn unit(name: &'static str, multiply: f64, divide: f64) -> Unit {
    Unit { name, multiply, divide }
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;
const TIB: f64 = 1024.0 * GIB;

const BANDWIDTH: &[Unit] = &[
    unit("B/s", 1.0, 1.0),
    unit("KB/s", 1e3, 1.0),
    unit("MB/s", 1e6, 1.0),
    unit("GB/s", 1e9, 1.0),
    unit("TB/s", 1e12, 1.0),
    unit("KiB/s", KIB, 1.0),
    unit("MiB/s", MIB, 1.0),
    unit("GiB/s", GIB, 1.0),
    unit("TiB/s", TIB, 1.0),
    unit("kb/s", 1e3, 8.0),
    unit("Mb/s", 1e6, 8.0),
    unit("Gb/s", 1e9, 8.0),
    unit("Tb/s", 1e12, 8.0),
];

const TIME: &[Unit] = &[
    unit("ns", 1.0, 1e9),
    unit("us", 1.0, 1e6),
    unit("\u{b5}s", 1.0, 1e6),
    unit("\u{3bc}s", 1.0, 1e6),
    unit("ms", 1.0, 1e3),
    unit("s", 1.0, 1.0),
];

const BYTES: &[Unit] = &[
    unit("B", 1.0, 1.0),
    unit("KB", 1e3, 1.0),
    unit("MB", 1e6, 1.0),
    unit("GB", 1e9, 1.0),
    unit("TB", 1e12, 1.0),
    unit("KiB", KIB, 1.0),
    unit("MiB", MIB, 1.0),
    unit("GiB", GIB, 1.0),
    unit("TiB", TIB, 1.0),
];

const COMPUTE_RATE: &[Unit] =
    &[unit("GFLOP/s", 1e9, 1.0), unit("TFLOP/s", 1e12, 1.0), unit("PFLOP/s", 1e15, 1.0)];

const RATE: &[Unit] = &[unit("/s", 1.0, 1.0), unit("/min", 1.0, 60.0), unit("/h", 1.0, 3600.0)];

impl Dimension {
    /// Name with an article, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "a bandwidth",
            Self::Time => "a time",
            Self::Bytes => "a number of bytes",
            Self::ComputeRate => "a number of operations per second",
            Self::Rate => "a rate",
        }
    }

    /// A valid quantity, for messages.
    pub fn example(self) -> &'static str {
        match self {
            Self::Bandwidth => "25 GB/s",
            Self::Time => "5 us",
            Self::Bytes => "16 MiB",
            Self::ComputeRate => "60 TFLOP/s",
            Self::Rate => "2 /s",
        }
    }

    /// Names of its units, each spelling once.
    pub fn units(self) -> impl Iterator<Item = &'static str> {
        // The two code points of the micro sign look alike: one is enough in a list.
        self.table().iter().map(|unit| unit.name).filter(|&name| name != "\u{3bc}s")
    }

    /// The value of a text in the base unit (bytes per second, seconds, bytes, operations per second); `None` if it is no quantity. It may be
    /// negative or infinite.
    pub fn parse(self, text: &str) -> Option<f64> {
        parse(text, self).ok()
    }

    /// A regular expression of its quantities, for the schema: those that [`parse`] reads, without a minus sign, because
    /// none may be negative.
    pub(crate) fn pattern(self) -> String {
        let units: Vec<&str> = self.table().iter().map(|unit| unit.name).collect();
        format!(r"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*({})\s*$", units.join("|"))
    }

    /// The unit that a mistaken one was probably meant to be. Never one of bits for one of bytes, nor the other way round: where a
    /// word leaves that open, there is no answer.
    pub(crate) fn meant(self, word: &str) -> Option<&'static str> {
        let known = |name: &str| self.table().iter().map(|unit| unit.name).find(|&unit| unit == name);
        match self {
            Self::Bandwidth => known(&bandwidth_unit(word)?),
            Self::Time | Self::Bytes | Self::ComputeRate | Self::Rate => nearest(word, self.units()),
        }
    }

    fn table(self) -> &'static [Unit] {
        match self {
            Self::Bandwidth => BANDWIDTH,
            Self::Time => TIME,
            Self::Bytes => BYTES,
            Self::ComputeRate => COMPUTE_RATE,
            Self::Rate => RATE,
        }
    }
}

/// `Gb/s` for `Gbps`, `Gbit/s`, `gb/s` and the like, `GB/s` for `GBps` and `GByte/s`; `None` where that is unclear.
fn bandwidth_unit(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let ends = ["/second", "/sec", "/s", "ps", "s"];
    let amount = &word[..ends.iter().find_map(|end| lower.strip_suffix(end)).unwrap_or(&lower).len()];
    let lower = amount.to_ascii_lowercase();
    // In capitals throughout, a `B` says nothing.
    let is_shouted = word.ends_with("PS");
    let (prefix, kind) = match [("bits", 'b'), ("bit", 'b'), ("bytes", 'B'), ("byte", 'B')]
        .into_iter()
        .find_map(|(name, kind)| Some((lower.strip_suffix(name)?, kind)))
    {
        Some(spelled_out) => spelled_out,
        None if amount.ends_with('b') => (lower.strip_suffix('b')?, 'b'),
        None if is_shouted => return None,
        None => (lower.strip_suffix('b')?, 'B'),
    };
    let prefix = match (prefix.trim_end_matches('-'), kind) {
        ("", _) => String::new(),
        ("k" | "kilo", 'b') => "k".to_owned(),
        ("ki" | "kibi", _) => "Ki".to_owned(),
        ("mi" | "mebi", _) => "Mi".to_owned(),
        ("gi" | "gibi", _) => "Gi".to_owned(),
        ("ti" | "tebi", _) => "Ti".to_owned(),
        ("k" | "kilo" | "m" | "mega" | "g" | "giga" | "t" | "tera", _) => prefix[..1].to_ascii_uppercase(),
        _ => return None,
    };
    Some(format!("{prefix}{kind}/s"))
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotQuantity {
    NoNumber,
    NoUnit,
    UnknownUnit(String),
}

/// The value in the base unit (bytes per second, seconds, bytes, operations per second). The sign and the range are the caller's
/// matter; the value may be infinite.
pub(crate) fn parse(text: &str, dimension: Dimension) -> Result<f64, NotQuantity> {
    let text = text.trim();
    let (number, unit) = text.split_at(number_length(text));
    let number: f64 = number.parse().map_err(|_| NotQuantity::NoNumber)?;
    let name = unit.trim_start();
    if name.is_empty() {
        return Err(NotQuantity::NoUnit);
    }
    let unit = dimension.table().iter().find(|unit| unit.name == name);
    let unit = unit.ok_or_else(|| NotQuantity::UnknownUnit(name.to_owned()))?;
    Ok(number * unit.multiply / unit.divide)
}

/// Bytes of `text` up to the end of the number that it begins with: sign, digits, fraction, exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    end += digits(end);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_what_it_says() {
        let bandwidth = |text| parse(text, Dimension::Bandwidth).unwrap();
        assert_eq!(bandwidth("25 GB/s"), 25e9);
        assert_eq!(bandwidth("200 Gb/s"), 25e9);
        assert_eq!(bandwidth("1GiB/s"), 1_073_741_824.0);
        assert_eq!(bandwidth("1.5e3 kb/s"), 187_500.0);
        let time = |text| parse(text, Dimension::Time).unwrap();
        assert_eq!(time("5 us"), 5e-6);
        assert_eq!(time("5 \u{b5}s"), 5e-6);
        assert_eq!(time("5 \u{3bc}s"), 5e-6);
        assert_eq!(time("0.5 ms"), 5e-4);
        assert_eq!(time("7 ns"), 7e-9);
        assert_eq!(time("-2 s"), -2.0);
        let bytes = |text| parse(text, Dimension::Bytes).unwrap();
        assert_eq!(bytes("16 MiB"), 16_777_216.0);
        assert_eq!(bytes("1.5 KB"), 1500.0);
        let rate = |text| parse(text, Dimension::ComputeRate).unwrap();
        assert_eq!(rate("60 TFLOP/s"), 6e13);
        assert_eq!(rate("989.5 TFLOP/s"), 9.895e14);
        assert_eq!(rate("2PFLOP/s"), 2e15);
        assert_eq!(rate("500 GFLOP/s"), 5e11);
        let events = |text| parse(text, Dimension::Rate).unwrap();
        assert_eq!((events("2 /s"), events("90/min"), events("1800 /h")), (2.0, 1.5, 0.5));
    }

    #[test]
    fn units_are_unique_and_read_back() {
        let all = [
            Dimension::Bandwidth,
            Dimension::Time,
            Dimension::Bytes,
            Dimension::ComputeRate,
            Dimension::Rate,
        ];
        for dimension in all {
            let names: Vec<&str> = dimension.units().collect();
            for (index, name) in names.iter().enumerate() {
                assert!(parse(&format!("3 {name}"), dimension).unwrap() > 0.0);
                assert!(!names[..index].contains(name), "`{name}` twice");
            }
            assert!(parse(dimension.example(), dimension).is_ok());
        }
    }

    #[test]
    fn bits_are_not_taken_for_bytes() {
        let meant = |word| Dimension::Bandwidth.meant(word);
        for word in
            ["Gbps", "gbps", "gb/s", "Gbit/s", "Gbits/s", "gigabit/s", "Gbit/sec", "Gb", "Gbs", "gbit"]
        {
            assert_eq!(meant(word), Some("Gb/s"), "{word}");
        }
        for word in ["GBps", "GBs", "GByte/s", "Gbytes/s", "gB/s", "GB", "gigabyte/second"] {
            assert_eq!(meant(word), Some("GB/s"), "{word}");
        }
        assert_eq!(meant("Kb/s"), Some("kb/s"));
        assert_eq!(meant("kB/s"), Some("KB/s"));
        assert_eq!(meant("gib/s"), None, "there is no unit of 2^30 bits");
        assert_eq!(meant("GiBps"), Some("GiB/s"));
        assert_eq!(meant("GBPS"), None, "nobody knows");
        assert_eq!(meant("furlongs"), None);
        assert_eq!(meant("\u{b5}"), None);
        assert_eq!(Dimension::Time.meant("usec"), None);
        assert_eq!(Dimension::Time.meant("uS"), Some("us"));
        assert_eq!(Dimension::Bytes.meant("mib"), Some("MiB"));
    }

    #[test]
    fn the_pattern_matches_what_is_read() {
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        let name = "https://zipwire.invalid/time";
        compiler.add_resource(name, serde_json::json!({ "pattern": Dimension::Time.pattern() })).unwrap();
        let index = compiler.compile(name, &mut schemas).unwrap();
        for number in [
            "5", "+5", "05", "5.", "5.25", ".5", "5e3", "5.e-3", ".5E+3", ".", "", "e3", "5e", "5e+", "0x5",
            "5 5",
        ] {
            for unit in ["us", " us", "\u{b5}s", "\u{3bc}s ", "s", "", "usec", " u s", "GB/s"] {
                let text = format!("{number}{unit}");
                let matches = schemas.validate(&text.as_str().into(), index).is_ok();
                assert_eq!(matches, parse(&text, Dimension::Time).is_ok(), "`{text}`");
            }
        }
    }

    #[test]
    fn says_what_is_missing() {
        let error = |text| parse(text, Dimension::Time).unwrap_err();
        assert_eq!(error("5"), NotQuantity::NoUnit);
        assert_eq!(error("5e3"), NotQuantity::NoUnit);
        assert_eq!(error("us"), NotQuantity::NoNumber);
        assert_eq!(error("inf us"), NotQuantity::NoNumber);
        assert_eq!(error(""), NotQuantity::NoNumber);
        assert_eq!(error("5 usec"), NotQuantity::UnknownUnit("usec".to_owned()));
        assert_eq!(error("5 e"), NotQuantity::UnknownUnit("e".to_owned()));
        assert_eq!(error("5e"), NotQuantity::UnknownUnit("e".to_owned()));
    }
}
