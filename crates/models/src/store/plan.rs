//! How an object is kept: as it is, coded by itself, or as differences, by what a sample of it takes.

use crate::file::{FOR_BYTES, FileError, LEAST_BYTES, LEAST_SAVING};
use zipwire_codec::{Base, DType, EncodeError, Layout, Spec, encode_to_vec};

use crate::store::address::NO_DTYPE;
use crate::store::chain::{Chain, Scratch};
use crate::store::encode::read_source;
use crate::store::input::{Item, Source};
use crate::store::object::{chunk_len, frame_dtype};
use crate::store::{Address, Store, StoreError};

/// Prefix of codecs that code differences from a base.
const DELTA: &str = "delta+";
/// The codec for differences where the codec for whole values has none.
const FOR_DELTAS: &str = "rans";
/// Chunks of a sample at the most.
const SAMPLES: u64 = 4;
/// Bytes beside the frames of a container.
const AROUND: usize = 48;

/// Codecs of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Codecs {
    pub(crate) plain: Spec,
    pub(crate) delta: Spec,
}

impl Codecs {
    /// Splits a spec, with or without `delta+` in front, into the codec for whole values and the one for differences.
    pub(crate) fn new(spec: &Spec) -> Result<Self, StoreError> {
        let text = spec.to_string();
        let unfit = |source| StoreError::Codec { spec: text.clone(), source };
        let plain: Spec = text.strip_prefix(DELTA).unwrap_or(&text).parse().map_err(unfit)?;
        let plain = plain.for_rows(1).complete().map_err(unfit)?;
        let plain_text = text.strip_prefix(DELTA).unwrap_or(&text);
        let delta = format!("{DELTA}{plain_text}").parse();
        let delta = match delta {
            Ok(delta) => delta,
            Err(_) => format!("{DELTA}{FOR_DELTAS}").parse().expect("this codec has differences"),
        };
        Ok(Self { plain: plain_text.parse().unwrap_or(plain), delta })
    }

    fn of(&self, item: &Item) -> Option<(Spec, DType)> {
        let dtype = DType::from_name(&item.dtype).filter(|_| item.dtype != NO_DTYPE);
        match dtype {
            Some(dtype) if self.plain.codec().supports(dtype) => {
                Some((self.plain.clone().for_rows(item.row), dtype))
            }
            Some(dtype) => Some((FOR_DELTAS.parse().expect("it is a codec"), dtype)),
            None if item.bytes >= LEAST_BYTES => {
                Some((FOR_BYTES.parse().expect("it is a codec"), frame_dtype(&item.dtype)))
            }
            None => None,
        }
    }
}

/// How the values of an item are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Codec and type of the frames; `None` if the values are stored as they are.
    pub(crate) coding: Option<(Spec, DType)>,
    /// The object that they are differences from, if they are.
    pub(crate) base: Option<Address>,
}

/// A frame of a chunk.
pub(crate) fn encode(
    spec: &Spec,
    dtype: DType,
    values: &[u8],
    base: Option<Vec<u8>>,
) -> Result<Vec<u8>, EncodeError> {
    let codec = match base {
        Some(base) => spec.clone().against(Base::new(dtype, base)).codec(),
        None => spec.codec(),
    };
    encode_to_vec(&*codec, Layout::Compact, dtype, values)
}

/// Chooses the plan that takes the fewest bytes on a sample of an item's chunks. `parent` has the same tensor as it was before.
///
/// # Errors
/// If the file cannot be read. A parent that is damaged is none; then its error is given beside.
pub(crate) fn choose(
    store: &Store,
    (source, item): (&Source, &Item),
    parent: Option<Address>,
    codecs: &Codecs,
    longest: usize,
) -> Result<(Plan, Option<StoreError>), StoreError> {
    let Some((plain, dtype)) = codecs.of(item).filter(|_| item.bytes > 0) else {
        return Ok((Plan::default(), None));
    };
    let mut scratch = Scratch::default();
    let mut trouble = None;
    let mut chain = match parent.map(|parent| Chain::open(store, parent)).transpose() {
        Ok(chain) => chain,
        Err(error) => {
            trouble = Some(error);
            None
        }
    };
    let chunk_len = chunk_len(dtype);
    let chunks = item.bytes.div_ceil(chunk_len);
    let count = SAMPLES.min(chunks);
    let (mut raw, mut full) = (0, AROUND);
    // By the number of the link that differences are taken from.
    let mut differing = vec![AROUND; chain.as_ref().map_or(0, Chain::len)];
    for number in 0..count {
        let chunk = (2 * number + 1) * chunks / (2 * count);
        let start = chunk * chunk_len;
        let mut values = vec![0; chunk_len.min(item.bytes - start) as usize];
        read_source(&source.path, item.at + start, &mut values)?;
        let unfit = |error| FileError::Encode { path: source.path.clone(), source: error };
        raw += values.len();
        full += encode(&plain, dtype, &values, None).map_err(unfit)?.len();
        let Some(open) = &chain else { continue };
        let mut failed = None;
        let last = open.len() - 1;
        let is_full = open.len() >= longest;
        let visited = open.visit_chunk(chunk, &mut scratch, |link, base| {
            // All of a chain matter where it takes no more behind its last one.
            if link == last || (is_full && link + 1 < longest) {
                match encode(&codecs.delta, dtype, &values, Some(base.to_vec())) {
                    Ok(frame) => differing[link] += frame.len(),
                    Err(error) => failed = Some(error),
                }
            }
        });
        if let Some(error) = failed {
            return Err(unfit(error).into());
        }
        if let Err(error) = visited {
            trouble = Some(error);
            chain = None;
        }
    }
    let base = chain.as_ref().and_then(|chain| {
        let addresses: Vec<Address> = chain.addresses().collect();
        pick(full, &differing, longest).map(|link| (addresses[link], differing[link]))
    });
    let (base, taken) = base.map_or((None, full), |(base, taken)| (Some(base), taken));
    if taken as f64 > (1.0 - LEAST_SAVING) * raw as f64 {
        return Ok((Plan::default(), trouble));
    }
    let spec = if base.is_some() { codecs.delta.clone() } else { plain };
    Ok((Plan { coding: Some((spec, dtype)), base }, trouble))
}

/// Which link of a chain to take differences from, if any: `full` is the size without, and `differing` that of the differences from each link.
///
/// While the chain has room, that is its last link or none. A chain that is full is left at a link before: one near the end costs
/// little now and leaves little room, so what counts is the mean over the checkpoints until the chain is full again, if their
/// differences are like those from the last link.
fn pick(full: usize, differing: &[usize], longest: usize) -> Option<usize> {
    let last = differing.len().checked_sub(1)?;
    let usual = differing[last] as f64;
    if differing.len() < longest {
        return (differing[last] < full).then_some(last);
    }
    // With `links` of them in front, as many more fit behind it.
    let mean = |size: usize, links: usize| {
        let more = (longest - links - 1) as f64;
        (size as f64 + more * usual) / (1.0 + more)
    };
    let links = 0..last.min(longest.saturating_sub(1));
    let best = links.map(|link| (mean(differing[link], link + 1), link)).min_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(size, link)| *size < mean(full, 0) && differing[*link] < full).map(|(_, link)| link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_grows_until_it_is_full() {
        assert_eq!(pick(66, &[], 8), None);
        assert_eq!(pick(66, &[15], 8), Some(0));
        assert_eq!(pick(66, &[70], 8), None);
        assert_eq!(pick(66, &[40, 30, 20, 15], 5), Some(3));
        // Full: from the first one, behind which as many fit as behind a full one but one.
        assert_eq!(pick(66, &[30, 28, 26, 24, 22, 20, 18, 15], 8), Some(0));
        // If values have run away, a new chain begins.
        assert_eq!(pick(66, &[65, 64, 64, 63, 63, 62, 60, 15], 8), None);
        // Little grows with distance: one in the middle is as good as any, and none is better than the first.
        assert_eq!(pick(66, &[15; 8], 8), Some(0));
        assert_eq!(pick(66, &[15], 1), None);
        assert_eq!(pick(66, &[15, 15], 1), None);
    }
}
