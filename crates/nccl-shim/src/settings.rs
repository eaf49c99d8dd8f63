//! Settings of the environment.

use std::env;
use std::sync::OnceLock;
use std::time::Duration;

use zipwire_codec::{DType, Spec};
use zipwire_kernels::Coder;

use crate::exports::Op;
use crate::process::tell;

/// Path of the journal in mode `stats`, if the environment has none.
const LOG: &str = "zipwire-nccl.%h.%r.%p.jsonl";

/// Mode of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing is looked at.
    Off,
    /// Each call is a line of the journal, and nothing is changed.
    Stats,
    /// Messages are compressed, and calls wait for them.
    Sync,
}

impl Mode {
    /// Name in the environment.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Stats => "stats",
            Self::Sync => "sync",
        }
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    /// Path of the journal, with `%h`, `%p` and `%r` in it; none if there is no journal.
    pub(crate) log: Option<String>,
    /// Codec that compresses, or that the journal's ratios are of.
    pub(crate) spec: Spec,
    /// Bytes of the smallest message that is compressed.
    pub(crate) min_bytes: u64,
    /// Calls whose messages are compressed.
    pub(crate) ops: Vec<Op>,
    /// Type of values that come as bytes.
    pub(crate) assume: Option<DType>,
    /// One call in so many is sampled; none if it is 0.
    pub(crate) sample: u64,
    /// Time after which a wait is told of.
    pub(crate) timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Off,
            log: None,
            spec: "tiered".parse().expect("it is a codec"),
            min_bytes: 4 << 20,
            ops: FAMILIES.iter().flat_map(|(_, ops)| *ops).copied().collect(),
            assume: None,
            sample: 1000,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Settings of this process. Where the environment has a wrong value, it is told once, and the mode is [`Mode::Off`].
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let value = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        parse(value).unwrap_or_else(|why| {
            tell(&format!("{why}; NCCL's calls go on as they are"));
            Settings::default()
        })
    })
}

/// Parses the values that `value` has for names of variables.
fn parse(value: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
    let value = |name: &str| value(name).filter(|value| !value.is_empty());
    let mut settings = Settings { mode: mode(value("ZIPWIRE_NCCL").as_deref())?, ..Settings::default() };
    if settings.mode == Mode::Off {
        return Ok(settings);
    }
    settings.log = value("ZIPWIRE_NCCL_LOG").or((settings.mode == Mode::Stats).then(|| LOG.to_owned()));
    if let Some(codec) = value("ZIPWIRE_NCCL_CODEC") {
        zipwire_paper_codecs::register();
        let spec = codec.parse::<Spec>().and_then(Spec::complete);
        settings.spec = spec.map_err(|error| format!("ZIPWIRE_NCCL_CODEC: {error}").replace('\n', "; "))?;
    }
    if settings.mode == Mode::Sync
        && let Err(why) = Coder::check(&settings.spec, DType::Bf16)
    {
        return Err(format!("ZIPWIRE_NCCL_CODEC: {why}").replace('\n', "; "));
    }
    if let Some(bytes) = value("ZIPWIRE_NCCL_MIN_BYTES") {
        let text = "ZIPWIRE_NCCL_MIN_BYTES takes bytes such as `4MiB`, `512KiB` or `1000000`";
        settings.min_bytes = bytes_of(&bytes).ok_or_else(|| format!("{text}, and not `{bytes}`"))?;
    }
    if let Some(ops) = value("ZIPWIRE_NCCL_OPS") {
        settings.ops = ops_of(&ops)?;
    }
    settings.assume = match value("ZIPWIRE_NCCL_ASSUME").as_deref() {
        None => None,
        Some("bf16") => Some(DType::Bf16),
        Some(other) => return Err(format!("ZIPWIRE_NCCL_ASSUME takes `bf16`, and not `{other}`")),
    };
    if let Some(one_in) = value("ZIPWIRE_NCCL_SAMPLE") {
        let wrong = |_| format!("ZIPWIRE_NCCL_SAMPLE takes 0 or one in how many calls, and not `{one_in}`");
        settings.sample = one_in.parse().map_err(wrong)?;
    }
    if let Some(seconds) = value("ZIPWIRE_NCCL_TIMEOUT") {
        let parsed = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let wrong = || format!("ZIPWIRE_NCCL_TIMEOUT takes seconds, and not `{seconds}`");
        settings.timeout = parsed.ok_or_else(wrong)?;
    }
    Ok(settings)
}

fn mode(value: Option<&str>) -> Result<Mode, String> {
    match value {
        None | Some("off" | "0") => Ok(Mode::Off),
        Some("stats") => Ok(Mode::Stats),
        Some("sync") => Ok(Mode::Sync),
        Some("on") => Err("ZIPWIRE_NCCL=on is no mode: write `sync`, which says that calls of compressed messages wait until these \
             have arrived. To compress without waiting, a stream would have to wait for a word that another stream writes, which CUDA may never run"
            .to_owned()),
        Some(other) => Err(format!("ZIPWIRE_NCCL takes `off`, `stats` or `sync`, and not `{other}`")),
    }
}

/// Bytes of a number with a unit of 1024 or without one.
fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

/// Calls of the names in `ZIPWIRE_NCCL_OPS`.
const FAMILIES: [(&str, &[Op]); 4] = [
    ("all_gather", &[Op::AllGather]),
    ("broadcast", &[Op::Broadcast, Op::Bcast]),
    ("all_to_all", &[Op::AlltoAll]),
    // Messages have both ends or none.
    ("send_recv", &[Op::Send, Op::Recv]),
];

fn ops_of(text: &str) -> Result<Vec<Op>, String> {
    let ops_of = |name: &str| {
        let found = FAMILIES.iter().find(|(known, _)| *known == name);
        let known = FAMILIES.map(|(known, _)| known).join("`, `");
        found
            .map(|(_, ops)| *ops)
            .ok_or_else(|| format!("ZIPWIRE_NCCL_OPS takes a list of `{known}`, and not `{name}`"))
    };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(ops_of).collect::<Result<Vec<_>, _>>()?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, &str)]) -> Result<Settings, String> {
        parse(|asked| {
            let found = values.iter().find(|(name, _)| format!("ZIPWIRE_NCCL{name}") == asked);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn values_are_read() {
        let settings = of(&[
            ("", "stats"),
            ("_LOG", "log.%r"),
            ("_CODEC", "window7"),
            ("_MIN_BYTES", "64KiB"),
            ("_OPS", "all_gather, send_recv"),
            ("_ASSUME", "bf16"),
            ("_SAMPLE", "0"),
            ("_TIMEOUT", "0.5"),
        ])
        .unwrap();
        assert_eq!((settings.mode, settings.log.as_deref()), (Mode::Stats, Some("log.%r")));
        assert_eq!((settings.spec.to_string().as_str(), settings.min_bytes), ("window7", 65536));
        assert_eq!(settings.ops, [Op::AllGather, Op::Send, Op::Recv]);
        assert_eq!((settings.assume, settings.sample), (Some(DType::Bf16), 0));
        assert_eq!(settings.timeout, Duration::from_millis(500));
        assert_eq!(of(&[]).unwrap().mode, Mode::Off);
    }

    #[test]
    fn wrong_values_are_told_in_one_line() {
        let wrong = [
            ("", "on", "`sync`"),
            ("", "yes", "`stats`"),
            ("_CODEC", "zip", "ZIPWIRE_NCCL_CODEC"),
            ("_CODEC", "dedup+tiered", "ZIPWIRE_NCCL_CODEC"),
            ("_MIN_BYTES", "4 apples", "`4 apples`"),
            ("_MIN_BYTES", "99999999999GiB", "_MIN_BYTES"),
            ("_OPS", "all_reduce", "`all_gather`"),
            ("_ASSUME", "f32", "`bf16`"),
            ("_SAMPLE", "-1", "`-1`"),
            ("_TIMEOUT", "soon", "seconds"),
        ];
        for (name, value, expected) in wrong {
            let mode = if name.is_empty() { value } else { "stats" };
            let why = of(&[("", mode), (name, value)]).unwrap_err();
            assert!(why.contains(expected) && !why.contains('\n'), "{name}={value}: {why}");
        }
        // Kernels are needed to compress only.
        assert!(of(&[("", "sync"), ("_CODEC", "raw")]).unwrap_err().contains("GPU kernels"));
        assert_eq!(of(&[("", "stats"), ("_CODEC", "raw")]).unwrap().mode, Mode::Stats);
        assert_eq!(of(&[("", "sync")]).unwrap().log, None);
        // Nothing is looked at while it is off.
        assert_eq!(of(&[("_MIN_BYTES", "x")]).unwrap().mode, Mode::Off);
    }
}
