//! One node of an execution trace, of protobuf or JSON: fields that are not known are passed over.

use std::io::Read;

use serde::Deserialize;
use serde_json::Value;

use crate::op::CollectiveOp;
use crate::source::{Bytes, BytesError};
use crate::trace::TraceGroup;

/// Kind of a node, after `NodeType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeKind {
    #[default]
    Other,
    Metadata,
    Memory,
    Compute,
    /// With the operation, if the node says one.
    Communication(Option<CollectiveOp>),
}

impl NodeKind {
    fn of(number: u64) -> Self {
        match number {
            1 => Self::Metadata,
            2 | 3 | 8..=10 => Self::Memory,
            4 => Self::Compute,
            5 => Self::Communication(Some(CollectiveOp::Send)),
            6 => Self::Communication(Some(CollectiveOp::Recv)),
            7 => Self::Communication(None),
            _ => Self::Other,
        }
    }

    fn named(name: &str) -> Self {
        let names =
            ["INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL"];
        let number = names.iter().position(|known| name.strip_suffix("_NODE") == Some(known));
        number.map_or(Self::Other, |number| Self::of(number as u64))
    }
}

/// Operation of a `CollectiveCommType`.
fn collective(number: u64) -> Option<CollectiveOp> {
    Some(match number {
        0 => CollectiveOp::AllReduce,
        1 => CollectiveOp::Reduce,
        2 => CollectiveOp::AllGather,
        3 => CollectiveOp::Gather,
        4 => CollectiveOp::Scatter,
        5 => CollectiveOp::Broadcast,
        6 => CollectiveOp::AllToAll,
        7 | 8 => CollectiveOp::ReduceScatter,
        9 => CollectiveOp::Barrier,
        _ => return None,
    })
}

/// Node, as far as it is read. Times are microseconds, 0 where there are none.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: NodeKind,
    pub(super) begin_us: u64,
    pub(super) duration_us: u64,
    /// Values of its inputs, as Python prints them.
    inputs: String,
    pub(super) is_cpu_op: bool,
    pub(super) group: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) src: Option<u32>,
    pub(super) dst: Option<u32>,
    pub(super) stream: u64,
}

impl Node {
    /// Node of a message of protobuf.
    pub(super) fn of(message: &[u8]) -> Result<Self, ()> {
        let mut node = Self::default();
        let mut attributes = Vec::new();
        for field in fields(message) {
            match field? {
                (2, Field::Bytes(name)) => node.name = String::from_utf8_lossy(name).into_owned(),
                (3, Field::Number(kind)) => node.kind = NodeKind::of(kind),
                (6, Field::Number(begin)) => node.begin_us = begin,
                (7, Field::Number(duration)) => node.duration_us = duration,
                (8, Field::Bytes(inputs)) => {
                    for field in fields(inputs) {
                        if let (1, Field::Bytes(values)) = field? {
                            node.inputs = String::from_utf8_lossy(values).into_owned();
                        }
                    }
                }
                (10, Field::Bytes(attribute)) => attributes.push(attribute),
                _ => {}
            }
        }
        // Only now is it known that this is a node.
        for attribute in attributes {
            let (name, value) = attribute_of(attribute)?;
            node.set(&name, value);
        }
        Ok(node)
    }

    /// Node of the JSON that protobuf has for it; none if it is something else.
    pub(super) fn of_json(value: &Value) -> Option<Self> {
        let kind = NodeKind::named(value.get("type")?.as_str()?);
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut node = Self {
            kind,
            name: text(&value["name"]),
            begin_us: number(&value["startTimeMicros"]).unwrap_or_default(),
            duration_us: number(&value["durationMicros"]).unwrap_or_default(),
            inputs: text(&value["inputs"]["values"]),
            ..Self::default()
        };
        for attribute in value["attr"].as_array().into_iter().flatten() {
            let members = attribute.as_object().into_iter().flatten();
            let found = members.filter(|(key, _)| key.ends_with("Val")).map(|(_, value)| value).next();
            let value = match found {
                Some(Value::Bool(is_true)) => AttributeValue::Number(u64::from(*is_true)),
                Some(value) => match number(value) {
                    Some(number) => AttributeValue::Number(number),
                    None => AttributeValue::Text(text(value)),
                },
                None => AttributeValue::Other,
            };
            node.set(attribute["name"].as_str().unwrap_or_default(), value);
        }
        Some(node)
    }

    fn set(&mut self, name: &str, value: AttributeValue) {
        let number = match &value {
            AttributeValue::Number(number) => Some(*number),
            AttributeValue::Text(text) => text.parse().ok(),
            AttributeValue::Other => None,
        };
        let small = number.and_then(|number| u32::try_from(number).ok());
        match (name, value) {
            ("is_cpu_op", _) => self.is_cpu_op = number == Some(1),
            ("comm_type" | "collective_comm_type", value) => {
                let op = match value {
                    AttributeValue::Text(text) => {
                        number.map_or_else(|| CollectiveOp::within(&text), collective)
                    }
                    _ => number.and_then(collective),
                };
                if let NodeKind::Communication(known @ None) = &mut self.kind {
                    *known = op;
                }
            }
            ("comm_size", _) => self.bytes = number,
            ("comm_src", _) => self.src = small,
            ("comm_dst", _) => self.dst = small,
            ("stream", _) => self.stream = number.unwrap_or_default(),
            ("pg_name", AttributeValue::Text(name)) => {
                self.group = Some(name).filter(|name| !name.is_empty());
            }
            ("pg_name", AttributeValue::Number(name)) => self.group = Some(name.to_string()),
            _ => {}
        }
    }

    /// Groups of the job that the node of PyTorch's setup lists: JSON in a text in a list of Python.
    pub(super) fn groups(&self) -> Vec<TraceGroup> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Config {
            pg_name: String,
            pg_desc: String,
            pg_size: Option<u32>,
            ranks: Vec<u32>,
        }
        let list = self.inputs.find("[{").zip(self.inputs.rfind("}]"));
        let text = list.and_then(|(begin, end)| self.inputs.get(begin..end + 2)).unwrap_or_default();
        // Texts in texts have their quotes escaped.
        let configs = serde_json::from_str::<Vec<Config>>(text)
            .or_else(|_| serde_json::from_str(&text.replace("\\\"", "\"")))
            .unwrap_or_default();
        let group = |config: Config| TraceGroup {
            size: config.pg_size.or_else(|| u32::try_from(config.ranks.len()).ok()).filter(|size| *size > 0),
            name: config.pg_name,
            ranks: config.ranks,
            description: config.pg_desc,
        };
        configs.into_iter().map(group).collect()
    }
}

/// Value of an attribute: every kind of whole number is one.
enum AttributeValue {
    Number(u64),
    Text(String),
    Other,
}

fn attribute_of(message: &[u8]) -> Result<(String, AttributeValue), ()> {
    let (mut name, mut value) = (String::new(), AttributeValue::Other);
    for field in fields(message) {
        match field? {
            (1, Field::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
            (7 | 9 | 11 | 13 | 19 | 21 | 23 | 25 | 27, Field::Number(number)) => {
                value = AttributeValue::Number(number);
            }
            // Zigzag: the sign is the last bit.
            (15 | 17, Field::Number(number)) if number & 1 == 0 => {
                value = AttributeValue::Number(number >> 1);
            }
            (29, Field::Bytes(text)) => {
                value = AttributeValue::Text(String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
    }
    Ok((name, value))
}

/// Value of a field of protobuf.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Fields of a message with their numbers. An error is no message, and the last item.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<(u64, Field<'_>), ()>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = field(&mut rest).ok_or(());
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(rest)?;
    let number = Some(key >> 3).filter(|number| *number > 0)?;
    let value = match key & 7 {
        0 => Field::Number(varint(rest)?),
        1 => Field::Number(u64::from_le_bytes(*take(rest, 8)?.first_chunk()?)),
        2 => {
            let count = usize::try_from(varint(rest)?).ok()?;
            Field::Bytes(take(rest, count)?)
        }
        5 => Field::Number(u64::from(u32::from_le_bytes(*take(rest, 4)?.first_chunk()?))),
        _ => return None,
    };
    Some((number, value))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Length in front of a message; none if it is longer than any number.
pub(super) fn length(bytes: &mut Bytes<impl Read>) -> Result<Option<u64>, BytesError> {
    let mut digits = Vec::new();
    while digits.len() < 10 {
        digits.push(bytes.byte()?);
        if digits.last().is_some_and(|byte| *byte < 0x80) {
            return Ok(varint(&mut digits.as_slice()));
        }
    }
    Ok(None)
}
