//! What to do about a problem.

use zipwire_codec::DType;
use zipwire_schedule::{Form, Protocol};

use crate::nearest::{list, nearest};
use crate::problem::Problem;

/// Errors of other crates carry their hint on a line of its own.
pub(crate) const HINT: &str = "\nhint: ";

impl Problem {
    /// What would be right, where the message does not say so already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownKey { key, valid, .. } => Some(choose(key, valid, "the valid keys are")),
            Self::UnknownName { name, valid, .. } => Some(choose(name, valid, "it must be one of")),
            Self::NoSuchPath { path, valid } => {
                let last = path.rsplit('.').next().unwrap_or(path);
                Some(choose(last, valid, "there are"))
            }
            Self::MissingKey { key, table, example } if table.is_empty() => {
                Some(format!("add `{key} = {example}` before the first table"))
            }
            Self::MissingKey { key, table, example } => Some(format!("add `{key} = {example}` to `{table}`")),
            Self::MissingUnit { number, dimension, .. } => Some(format!(
                "write it as a string with a unit, like `\"{number} {}\"`; the units are {}",
                dimension.example().rsplit(' ').next().unwrap_or_default(),
                list(dimension.units())
            )),
            Self::UnknownUnit { unit, dimension, .. } => {
                Some(choose(unit, &dimension.units().collect::<Vec<_>>(), "the units are"))
            }
            Self::NotQuantity { dimension, .. } => Some(format!("like `\"{}\"`", dimension.example())),
            Self::OutOfRange { limits, .. } => Some(format!("it must be {limits}")),
            Self::BadName { .. } => Some(
                "1 to 100 letters, digits, `-`, `_` and `.`, with a letter or digit first: it names output files"
                    .to_owned(),
            ),
            Self::DuplicateVariant { .. } => Some("give each variant a name of its own".to_owned()),
            Self::UnknownLink { nearest, gpus, nics, .. } => {
                let meant = nearest.as_ref().map_or(String::new(), |name| format!("did you mean `{name}`? "));
                let counted = |kind, count: &u32| match count {
                    1 => format!("`{kind} 0`"),
                    _ => format!("`{kind} 0` to `{kind} {}`", count - 1),
                };
                let (gpus, nics) = (counted("gpu", gpus), counted("nic", nics));
                Some(format!("{meant}there are {gpus} and {nics}, each `up` and `down`"))
            }
            Self::NotAssignment { flag } => Some(format!("like `{flag} \"cluster.host_sync=60 us\"`")),
            Self::NotPath { .. } => Some("like `\"cluster.nodes\" = [2, 4]`".to_owned()),
            Self::BarePath { key } => Some(format!("write `\"{key}.KEY\" = [...]`")),
            Self::AtPoint { problem, .. } => problem.help(),
            Self::NotOneRecord { available, .. } => Some(format!("the file has {}", shortened(available))),
            Self::ExpertCount { found, .. } => Some(format!("set `experts = {found}`, or name another record")),
            Self::NoCodec { .. } => {
                let speed = "{ encode = \"180 GB/s\", decode = \"260 GB/s\" }";
                Some(format!("add a table `[codec]` with `id = \"window7\"` and `speed = {speed}`"))
            }
            // Payloads are BF16: other values have only the ratio.
            Self::NoPayload { dtype, .. } if *dtype != DType::Bf16.name() => {
                Some("state the ratio here, `ratio = 1.3`".to_owned())
            }
            Self::NoPayload { .. } => Some(
                "give the workload data to compress, `payload = { gaussian = 0.02 }`, or state the ratio here, \
                 `ratio = 1.3`"
                    .to_owned(),
            ),
            Self::PayloadType { .. } => Some("leave `payload` out, or send `dtype = \"BF16\"`".to_owned()),
            Self::CodedFlows { .. } => Some("leave `protocol` out, or set it to `native`".to_owned()),
            Self::NoForms { path } => Some(format!("leave `{path}` out")),
            Self::FixedOrder { path, .. } => {
                Some(format!("leave `{path}` out, or set `form = \"{}\"`", Form::Grouped.name()))
            }
            Self::PaddedValues { .. } => Some(format!(
                "set `form = \"{}\"`, in which each block has its own length, or a protocol with frames: {}",
                Form::Exact.name(),
                list(Protocol::ALL.iter().filter(|protocol| protocol.is_coded()).map(|protocol| protocol.name()))
            )),
            Self::Codec(error) => hint(&error.to_string()),
            Self::Recording(error) => hint(&error.to_string()),
            _ => None,
        }
    }
}

fn hint(text: &str) -> Option<String> {
    text.split_once(HINT).map(|(_, hint)| hint.to_owned())
}

fn choose(word: &str, valid: &[impl AsRef<str>], lead: &str) -> String {
    let names = || valid.iter().map(AsRef::as_ref);
    if let [only] = valid {
        return format!("it must be `{}`", only.as_ref());
    }
    match nearest(word, names()) {
        Some(near) => format!("did you mean `{near}`? {lead} {}", list(names())),
        None => format!("{lead} {}", list(names())),
    }
}

fn shortened(records: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = records.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    if records.len() > SHOWN {
        text.push_str(&format!("; and {} more", records.len() - SHOWN));
    }
    text
}
