//! Pickles of Python, protocols 2 to 5, as far as they hold plain data.
//!
//! Nothing is executed: an opcode that would call or make an object of a class is an error. Values stand in one list and name each other by their
//! places, so what is referred to often is held once, and nesting costs no stack. The crate `serde-pickle` copies such values, and switches on a
//! feature of `num-traits` that this workspace needs to be off.

use std::collections::HashMap;
use std::io::Read;

use serde_json::{Map, Value};

use crate::error::ProfileError;
use crate::source::{Bytes, BytesError};

/// Longest pickle: dumps have some kilobytes for each of thousands of calls.
const MOST_BYTES: u64 = 256 << 20;

/// Values that are held at the most.
const MOST_VALUES: usize = 1 << 24;

/// Values of one entry at the most, those that it refers to several times counted each time.
const MOST_OF_ENTRY: usize = 1 << 20;

/// Bytes of text that count as a value.
const TEXT_OF_VALUE: usize = 16;

/// Levels of lists in each other that an entry has at the most.
const DEEPEST: u32 = 8;

/// Place of a value.
pub(super) type Id = u32;

#[derive(Clone, Debug)]
enum Item {
    None,
    Bool(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    /// Bytes and numbers beyond 64 bits, which no dump needs.
    Other,
    /// List or tuple.
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

/// Values of a pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    items: Vec<Item>,
    root: Id,
    bytes: u64,
}

/// Reasons for which a pickle cannot be read, with the byte.
#[derive(Debug)]
pub(super) enum PickleError {
    Bytes(BytesError, u64),
    Broken(&'static str, u64),
    Code(u8, u64),
}

impl PickleError {
    pub(super) fn at(self, file: &str) -> ProfileError {
        let file = file.to_owned();
        match self {
            Self::Bytes(BytesError::Read(source), _) => ProfileError::Read { file, source },
            Self::Bytes(BytesError::Ended, byte) => {
                ProfileError::Damaged { file, byte, reason: "the pickle ends in the middle".to_owned() }
            }
            Self::Broken(reason, byte) => ProfileError::Damaged { file, byte, reason: reason.to_owned() },
            Self::Code(opcode, byte) => {
                let opcode = match opcode {
                    b'!'..=b'~' => format!("`{}`", char::from(opcode)),
                    _ => format!("{opcode:#04x}"),
                };
                ProfileError::Code { file, byte, opcode }
            }
        }
    }
}

impl Pickle {
    /// Reads a pickle from its first opcode to the last.
    pub(super) fn read(reader: impl Read) -> Result<Self, PickleError> {
        let mut machine = Machine {
            bytes: Bytes::new(reader),
            items: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        loop {
            let at = machine.bytes.at();
            // Each byte may put something on a stack: longer pickles would take more memory than there is.
            if at > MOST_BYTES {
                return Err(PickleError::Broken("the pickle is longer than is held in memory", at));
            }
            let step = machine.bytes.byte().map_err(Step::Bytes).and_then(|opcode| machine.step(opcode));
            match step {
                Ok(()) => {}
                Err(Step::Stop(root)) => return Ok(Self { items: machine.items, root, bytes: at + 1 }),
                Err(Step::Bytes(error)) => return Err(PickleError::Bytes(error, machine.bytes.at())),
                Err(Step::Broken(reason)) => return Err(PickleError::Broken(reason, at)),
                Err(Step::Code(opcode)) => return Err(PickleError::Code(opcode, at)),
            }
        }
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// Length of the pickle.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Value of a key of a dict; the last one counts.
    pub(super) fn member(&self, dict: Id, key: &str) -> Option<Id> {
        let Item::Dict(members) = &self.items[dict as usize] else { return None };
        let is_key = |id: Id| matches!(&self.items[id as usize], Item::Text(text) if text == key);
        members.iter().rev().find(|(name, _)| is_key(*name)).map(|(_, value)| *value)
    }

    /// Values of a list or tuple; none of other values.
    pub(super) fn items(&self, list: Id) -> &[Id] {
        if let Item::List(items) = &self.items[list as usize] { items } else { &[] }
    }

    /// A value without frames of the stack, as JSON; none if it holds more than an entry does.
    pub(super) fn json(&self, id: Id) -> Option<Value> {
        self.value(id, DEEPEST, &mut MOST_OF_ENTRY.clone())
    }

    fn value(&self, id: Id, depth: u32, left: &mut usize) -> Option<Value> {
        *left = left.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        Some(match &self.items[id as usize] {
            Item::None | Item::Other => Value::Null,
            Item::Bool(is_true) => Value::Bool(*is_true),
            Item::Whole(number) => Value::from(*number),
            Item::Real(number) => Value::from(*number),
            Item::Text(text) => {
                *left = left.checked_sub(text.len() / TEXT_OF_VALUE)?;
                Value::String(text.clone())
            }
            Item::List(items) => {
                let items = items.iter().map(|item| self.value(*item, depth, left));
                Value::Array(items.collect::<Option<_>>()?)
            }
            Item::Dict(members) => {
                let mut object = Map::new();
                for (name, value) in members {
                    let Item::Text(name) = &self.items[*name as usize] else { continue };
                    if name != "frames" {
                        object.insert(name.clone(), self.value(*value, depth, left)?);
                    }
                }
                Value::Object(object)
            }
        })
    }
}

/// Reasons for which no further opcode is read.
enum Step {
    Stop(Id),
    Bytes(BytesError),
    Broken(&'static str),
    Code(u8),
}

impl From<BytesError> for Step {
    fn from(error: BytesError) -> Self {
        Self::Bytes(error)
    }
}

const EMPTY: Step = Step::Broken("an opcode takes a value that is not there");
const UNMARKED: Step = Step::Broken("an opcode takes values from a mark that is not there");

/// State of the reader: the stack, where marks are on it, and what is remembered.
struct Machine<R> {
    bytes: Bytes<R>,
    items: Vec<Item>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl<R: Read> Machine<R> {
    fn step(&mut self, opcode: u8) -> Result<(), Step> {
        match opcode {
            // PROTO and FRAME, STOP.
            0x80 => _ = self.bytes.byte()?,
            0x95 => _ = self.bytes.array::<8>()?,
            b'.' => return Err(self.stack.pop().map_or(EMPTY, Step::Stop)),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => _ = self.stack.pop().ok_or(EMPTY)?,
            b'1' => _ = self.marked()?,
            b'2' => self.stack.push(*self.stack.last().ok_or(EMPTY)?),
            b'N' => self.push(Item::None)?,
            0x88 => self.push(Item::Bool(true))?,
            0x89 => self.push(Item::Bool(false))?,
            b'J' | b'K' | b'M' | 0x8a | 0x8b => self.number(opcode)?,
            b'G' => {
                let bytes = self.bytes.array()?;
                self.push(Item::Real(f64::from_be_bytes(bytes)))?;
            }
            b'X' | 0x8c | 0x8d | b'T' | b'U' | b'B' | b'C' | 0x8e | 0x96 => self.text(opcode)?,
            b']' | b')' => self.push(Item::List(Vec::new()))?,
            b'}' => self.push(Item::Dict(Vec::new()))?,
            b'l' | b't' => {
                let items = self.marked()?;
                self.push(Item::List(items))?;
            }
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(opcode - 0x84)).ok_or(EMPTY)?;
                let items = self.stack.split_off(from);
                self.push(Item::List(items))?;
            }
            b'a' | b'e' | b's' | b'u' | b'd' => self.add(opcode)?,
            b'h' | b'j' | b'q' | b'r' | 0x94 => self.memory(opcode)?,
            // GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, identifiers, extensions: classes and calls.
            b'c' | b'R' | b'b' | b'i' | b'o' | b'P' | b'Q' | 0x81..=0x84 | 0x92 | 0x93 => {
                return Err(Step::Code(opcode));
            }
            _ => return Err(Step::Broken("there is no such opcode of pickles that hold plain data")),
        }
        Ok(())
    }

    fn push(&mut self, item: Item) -> Result<(), Step> {
        if self.items.len() >= MOST_VALUES {
            return Err(Step::Broken("more values than are held in memory"));
        }
        self.stack.push(self.items.len() as Id);
        self.items.push(item);
        Ok(())
    }

    /// Values from the last mark on, taken.
    fn marked(&mut self) -> Result<Vec<Id>, Step> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len()).ok_or(UNMARKED)?;
        Ok(self.stack.split_off(mark))
    }

    fn number(&mut self, opcode: u8) -> Result<(), Step> {
        let number = match opcode {
            b'J' => Some(i64::from(i32::from_le_bytes(self.bytes.array()?))),
            b'K' => Some(i64::from(self.bytes.byte()?)),
            b'M' => Some(i64::from(u16::from_le_bytes(self.bytes.array()?))),
            _ => {
                let count = match opcode {
                    0x8a => u64::from(self.bytes.byte()?),
                    _ => u64::from(u32::from_le_bytes(self.bytes.array()?)),
                };
                let bytes = self.bytes.take(count)?;
                let is_negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
                let mut wide = [if is_negative { 0xff } else { 0 }; 8];
                (bytes.len() <= 8).then(|| {
                    wide[..bytes.len()].copy_from_slice(&bytes);
                    i64::from_le_bytes(wide)
                })
            }
        };
        self.push(number.map_or(Item::Other, Item::Whole))
    }

    fn text(&mut self, opcode: u8) -> Result<(), Step> {
        let bytes = match opcode {
            0x8c | b'U' | b'C' => {
                let count = self.bytes.byte()?;
                self.bytes.take(u64::from(count))?
            }
            0x8d | 0x8e | 0x96 => {
                let count = u64::from_le_bytes(self.bytes.array()?);
                self.bytes.take(count)?
            }
            _ => {
                let count = u32::from_le_bytes(self.bytes.array()?);
                self.bytes.take(u64::from(count))?
            }
        };
        let is_text = !matches!(opcode, b'B' | b'C' | 0x8e | 0x96);
        self.push(if is_text {
            Item::Text(String::from_utf8_lossy(&bytes).into_owned())
        } else {
            Item::Other
        })
    }

    /// Puts values into the list or dict below them.
    fn add(&mut self, opcode: u8) -> Result<(), Step> {
        let values = match opcode {
            b'a' => vec![self.stack.pop().ok_or(EMPTY)?],
            b's' => {
                let value = self.stack.pop().ok_or(EMPTY)?;
                vec![self.stack.pop().ok_or(EMPTY)?, value]
            }
            _ => self.marked()?,
        };
        if opcode == b'd' {
            self.push(Item::Dict(Vec::new()))?;
        }
        let below = *self.stack.last().ok_or(EMPTY)?;
        match (&mut self.items[below as usize], opcode) {
            (Item::List(items), b'a' | b'e') => items.extend(values),
            (Item::Dict(members), b's' | b'u' | b'd') if values.len().is_multiple_of(2) => {
                members.extend(values.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            _ => return Err(Step::Broken("values are put into something that is no list or dict of them")),
        }
        Ok(())
    }

    fn memory(&mut self, opcode: u8) -> Result<(), Step> {
        let key = match opcode {
            b'h' | b'q' => u64::from(self.bytes.byte()?),
            b'j' | b'r' => u64::from(u32::from_le_bytes(self.bytes.array()?)),
            _ => self.memo.len() as u64,
        };
        if matches!(opcode, b'h' | b'j') {
            let id =
                self.memo.get(&key).ok_or(Step::Broken("it refers to something that was not remembered"))?;
            self.stack.push(*id);
        } else {
            self.memo.insert(key, *self.stack.last().ok_or(EMPTY)?);
        }
        Ok(())
    }
}
