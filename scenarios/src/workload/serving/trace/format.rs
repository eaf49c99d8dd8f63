//! The formats: what a line or a row of each says of a request.

use serde::Deserialize;
use serde::de::IgnoredAny;
use zipwire_serving::Requests;

use super::date;
use crate::language::named;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Format {
        /// JSON lines of Mooncake: milliseconds, tokens, and ids of blocks of 512 tokens.
        Mooncake = "mooncake",
        /// JSON lines of Qwen and Bailian: seconds, tokens, and ids of blocks of 16 tokens.
        QwenBailian = "qwen-bailian",
        /// CSV of Azure: date and time, tokens.
        Azure = "azure",
        /// CSV of BurstGPT: seconds, tokens.
        BurstGpt = "burstgpt",
    }
}

/// A request as it is recorded. It may have no tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recorded {
    pub(super) at_s: f64,
    pub(super) input: u32,
    pub(super) output: u32,
    /// Ids of the blocks of the prompt; empty where nothing is known.
    pub(super) ids: Vec<u64>,
    /// Tokens of prompt and answer together, where the format has them beside both.
    pub(super) total: Option<u32>,
}

/// Columns of a CSV file by name: time, tokens of the prompt and of the answer; and both together, which it may lack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    names: [&'static str; 3],
    total: Option<&'static str>,
    /// The three, as the header of a file.
    pub(super) header: &'static str,
    /// Kind of the values of time, for messages.
    time: &'static str,
    seconds: fn(&str) -> Option<f64>,
}

const AZURE: Columns = Columns {
    names: ["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
    total: None,
    header: "TIMESTAMP,ContextTokens,GeneratedTokens",
    time: "date and time",
    seconds: date::seconds,
};

const BURST_GPT: Columns = Columns {
    names: ["Timestamp", "Request tokens", "Response tokens"],
    total: Some("Total tokens"),
    header: "Timestamp,Request tokens,Response tokens",
    time: "number of seconds",
    seconds: |text| text.parse().ok(),
};

impl Format {
    /// A line, or a row, as it should be.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Mooncake => {
                r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}"#
            }
            Self::QwenBailian => {
                r#"{"chat_id": 159, "timestamp": 61.114, "input_length": 521, "output_length": 132, "hash_ids": [1089, 1090]}"#
            }
            Self::Azure => "2023-11-16 18:15:46.6805900,374,44",
            Self::BurstGpt => "5,472,18",
        }
    }

    /// Columns of the file; `None` if it has JSON lines.
    pub(super) fn columns(self) -> Option<Columns> {
        match self {
            Self::Mooncake | Self::QwenBailian => None,
            Self::Azure => Some(AZURE),
            Self::BurstGpt => Some(BURST_GPT),
        }
    }

    /// Tokens of a block whose id a prompt has.
    pub(super) fn block_tokens(self) -> u32 {
        match self {
            Self::QwenBailian => 16,
            Self::Mooncake | Self::Azure | Self::BurstGpt => Requests::BLOCK_TOKENS,
        }
    }

    /// Unit that timestamps seem to have instead of the format's, if as many requests per second as in a file, or as few, are none that anybody
    /// serves; and the `scale` that makes up for it. Dates have no unit. BurstGPT's users were few, at first one in a minute and a half; those of
    /// Mooncake and Bailian are several in a second.
    pub(super) fn mistaken_unit(self, per_s: f64) -> Option<(&'static str, f64)> {
        match self {
            Self::Mooncake if per_s > 1000.0 => Some(("seconds and not milliseconds", 0.001)),
            Self::QwenBailian if per_s < 1.0 / 60.0 => Some(("milliseconds and not seconds", 1000.0)),
            Self::BurstGpt if per_s < 1.0 / 200.0 => Some(("milliseconds and not seconds", 1000.0)),
            _ => None,
        }
    }

    /// The request of a line of JSON.
    pub(super) fn parse(self, line: &str) -> Result<Recorded, String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let seconds = match (self, line.chat_id) {
            (Self::QwenBailian, Some(_)) => line.timestamp,
            (Self::QwenBailian, None) => {
                return Err("it has no `chat_id`: if it is one of Mooncake's, whose timestamps are milliseconds and whose blocks have \
                            512 tokens, its `format` is `mooncake`"
                    .to_owned());
            }
            (_, None) => line.timestamp / 1e3,
            (_, Some(_)) => {
                return Err("it has a `chat_id`, which traces of Qwen and Bailian have, with timestamps in seconds and blocks of 16 \
                            tokens: their `format` is `qwen-bailian`"
                    .to_owned());
            }
        };
        let (input, output, ids) = (line.input_length, line.output_length, line.hash_ids);
        Ok(Recorded { at_s: seconds, input, output, ids, total: None })
    }
}

/// A line of Mooncake, or of Qwen and Bailian, whose other keys say nothing about the request's cost.
#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
    chat_id: Option<IgnoredAny>,
}

/// Places of the columns in the rows of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    columns: Columns,
    count: usize,
    places: [usize; 3],
    total: Option<usize>,
}

impl Columns {
    /// Finds the columns in the header of a file; `None` if it lacks one.
    pub(super) fn find(self, header: &str) -> Option<Layout> {
        let found: Vec<&str> = header.split(',').map(str::trim).collect();
        let place = |name: &str| found.iter().position(|other| *other == name);
        let [Some(at), Some(input), Some(output)] = self.names.map(place) else { return None };
        let total = self.total.and_then(place);
        Some(Layout { columns: self, count: found.len(), places: [at, input, output], total })
    }
}

impl Layout {
    /// The request of a row. Fields are not quoted.
    pub(super) fn parse(&self, row: &str) -> Result<Recorded, String> {
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        if fields.len() != self.count {
            return Err(format!("{} columns where there are {}", fields.len(), self.count));
        }
        let [at, input, output] = self.places.map(|place| fields[place]);
        let tokens = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number of tokens"));
        let Columns { time, seconds, .. } = self.columns;
        Ok(Recorded {
            at_s: seconds(at).ok_or_else(|| format!("`{at}` is no {time}"))?,
            input: tokens(input)?,
            output: tokens(output)?,
            ids: Vec::new(),
            total: self.total.map(|place| tokens(fields[place])).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(recorded: &Recorded) -> (f64, u32, u32) {
        (recorded.at_s, recorded.input, recorded.output)
    }

    #[test]
    fn lines_are_requests() {
        let request = Format::Mooncake.parse(Format::Mooncake.example()).unwrap();
        assert_eq!((numbers(&request), request.ids), ((27.482, 6955, 52), vec![46, 47]));
        assert!(Format::Mooncake.parse("{}").is_err());
        let request = Format::QwenBailian.parse(Format::QwenBailian.example()).unwrap();
        assert_eq!((numbers(&request), request.ids), ((61.114, 521, 132), vec![1089, 1090]));
        for [format, other] in
            [[Format::Mooncake, Format::QwenBailian], [Format::QwenBailian, Format::Mooncake]]
        {
            let error = format.parse(other.example()).unwrap_err();
            assert!(error.contains(&format!("`{}`", other.name())), "{error}");
        }
    }

    #[test]
    fn rows_are_requests_wherever_their_columns_are() {
        let layout = AZURE.find(AZURE.header).unwrap();
        let request = layout.parse(Format::Azure.example()).unwrap();
        assert_eq!((request.input, request.output, request.total), (374, 44, None));
        assert!(layout.parse("2023-11-16 18:15:46,374").is_err());
        let header =
            "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type";
        let layout = BURST_GPT.find(header).unwrap();
        let request = layout.parse("0.6,,0.5,ChatGPT,3245,160,3405,Conversation log").unwrap();
        assert_eq!((numbers(&request), request.total), ((0.6, 3245, 160), Some(3405)));
        assert_eq!(
            layout.parse("0.6,ChatGPT,3245,160,3405,Conversation log").unwrap_err(),
            "6 columns where there are 8"
        );
        assert!(BURST_GPT.find(AZURE.header).is_none());
        for format in [Format::Azure, Format::BurstGpt] {
            let columns = format.columns().unwrap();
            columns.find(columns.header).unwrap().parse(format.example()).unwrap();
        }
    }
}
