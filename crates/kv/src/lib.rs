//! KV caches, coded for a transfer or a store: a *group* is what one layer has for up to 256 tokens, keys and values apart, and is coded and
//! decoded by itself, in any order and by any number of threads.
//!
//! Both ends make a [`KvCodec`] of the same [`Geometry`] and codec; [`KvCodec::compatibility`] is what a handshake compares. The sender writes
//! groups into buffers of its own, at most [`KvCodec::bound`] bytes each, and the receiver decodes them into its pages:
//!
//! ```
//! use zipwire_kv::{Geometry, KvCodec, Place};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Llama 3 8B: 32 layers, 8 heads of keys and values with 128 values each.
//! let geometry = Geometry::grouped(32, 8, 128, zipwire_kv::DType::Bf16)?;
//! let codec = KvCodec::new(geometry, "tiered".parse()?)?;
//! # let cache = |seed: u32| -> Vec<u8> { (0..100 * 1024).flat_map(|n: u32| (0x3c00 + ((n ^ seed) % 700) as u16).to_le_bytes()).collect() };
//! let (keys, values) = (cache(1), cache(2)); // 100 tokens of layer 7
//!
//! let mut buffer = vec![0; codec.bound(100)];
//! let len = codec.encode(Place { layer: 7, token: 512 }, &[&keys, &values], &mut buffer)?;
//!
//! let group = codec.peek(&buffer[..len])?;
//! assert_eq!((group.place.layer, group.place.token, group.tokens), (7, 512, 100));
//! let (mut new_keys, mut new_values) = (vec![0; group.plane_len], vec![0; group.plane_len]);
//! codec.decode(&buffer[..len], &mut [&mut new_keys, &mut new_values])?;
//! assert_eq!((new_keys, new_values), (keys, values));
//! # Ok(())
//! # }
//! ```
//!
//! Pages of an engine that do not lie one behind the other are gathered and scattered by [`KvCodec::encode_pages`] and [`KvCodec::decode_pages`].
//! Nothing here knows of threads, clocks or networks.

mod codec;
mod error;
mod geometry;
mod group;

pub use codec::{KvCodec, Scratch};
pub use error::KvError;
pub use geometry::{GROUP_TOKENS, Geometry, Order};
pub use group::{Group, HEADER_LEN, Place, VERSION};
pub use zipwire_codec::{DType, Spec};
