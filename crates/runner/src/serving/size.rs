//! How small a codec makes caches: measured on groups of recorded rows.

use zipwire_codec::Spec;
use zipwire_kv::{KvCodec, KvError, Place};
use zipwire_payload::{Payload, stream};
use zipwire_scenarios::Serving;
use zipwire_schedule::SegmentId;

/// Groups that are coded: of 256 tokens of eight heads of 128 values they are 16 MiB.
const GROUPS: u64 = 16;

/// Coded bytes over raw ones, headers included: a mean over groups whose rows are drawn.
pub(super) fn measured(serving: &Serving, spec: &Spec, payload: &Payload, seed: u64) -> Result<f64, KvError> {
    let geometry = serving.geometry;
    let codec = KvCodec::new(geometry, spec.clone())?;
    let plane_len = geometry.row_len() * geometry.group_tokens() as usize;
    let mut planes = vec![vec![0; plane_len]; geometry.planes()];
    let mut out = vec![0; codec.bound(geometry.group_tokens())];
    let (mut raw, mut coded) = (0, 0);
    for group in 0..GROUPS {
        for (plane, bytes) in planes.iter_mut().enumerate() {
            let draws = stream(seed, "caches", [group, plane as u64, 0]);
            payload.source(SegmentId(plane as u32)).fill(draws, bytes);
        }
        let layer = group as u32 % geometry.layers();
        let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
        coded += codec.encode(Place { layer, token: 0 }, &planes, &mut out)?;
        raw += plane_len * geometry.planes();
    }
    Ok(coded as f64 / raw as f64)
}
