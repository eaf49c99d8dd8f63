//! A store of checkpoints: each tensor is kept once, by itself or as what changed since the checkpoint before, and every checkpoint comes
//! back byte for byte.
//!
//! A store is a folder. Tensors are objects, files that are called by a hash of their values; a checkpoint is a manifest that says of
//! which objects its files consist. One process writes at a time ([`Writer`]), any number read. `docs/files.md` has recipes,
//! `docs/format.md` every byte.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (first, second, out) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("out"));
//! # for (path, step) in [(&first, 0_u16), (&second, 1)] {
//! #     let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700 + step * (i % 3)).to_le_bytes()).collect();
//! #     let view = safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, vec![20_000], &values)?;
//! #     std::fs::create_dir(path)?;
//! #     safetensors::serialize_to_file([("w", view)], None, &path.join("model.safetensors"))?;
//! # }
//! use zipwire_models::store::{Addition, DEFAULT_CHAIN, Parent, Store, Writer, add, list, restore};
//! use zipwire_models::file::Watch;
//!
//! let store = Store::init(&folder.path().join("store"))?;
//! let writer = Writer::begin(&store)?;
//! for (id, path) in [("step-1", &first), ("step-2", &second)] {
//!     let addition = Addition {
//!         id: id.to_owned(),
//!         parent: Parent::Auto,
//!         spec: "rans".parse()?,
//!         chain: DEFAULT_CHAIN,
//!         allow_missing: false, keep_trailing: false,
//!     };
//!     add(&writer, std::slice::from_ref(path), &addition, &Watch::default())?;
//! }
//! let listed = list(&store)?.checkpoints;
//! assert!(listed[1].bytes_stored < listed[0].bytes_stored);
//!
//! restore(&store, "step-2", &out, false, &Watch::default())?;
//! assert_eq!(std::fs::read(out.join("model.safetensors"))?, std::fs::read(second.join("model.safetensors"))?);
//! # Ok(())
//! # }
//! ```

mod add;
mod address;
mod encode;
mod error;
mod layout;
mod list;
mod manifest;
mod object;
mod prune;
mod rebase;
mod restore;
mod rounded;
mod verify;
mod writer;

pub use add::{Added, Addition, DEFAULT_CHAIN, Parent, Parts, add};
pub use address::{Address, AddressError};
pub use error::StoreError;
pub use layout::{FORMAT_VERSION, Store};
pub use list::{Listed, Listing, Stats, Unread, list, stats};
pub use manifest::{Manifest, Part, StoredFile, check_id};
pub use object::ObjectHeader;
pub use prune::{Keep, Pruned, Selection, plan_prune, prune, set_pinned};
pub use restore::{Missing, Salvaged, check, restore, salvage};
pub use verify::{Lost, Verdict, Verified, verify};
pub use writer::{Swept, Writer};
