//! The one source of random numbers: a ChaCha stream per purpose.
//!
//! Every draw of a run comes from a stream that is named by what it is for, never from a generator that is
//! handed around; so adding a rank, a segment or a new consumer changes nobody else's numbers, and results
//! depend neither on the order of calls nor on the thread count.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The random stream for (`seed`, `domain`, `keys`), from its start.
///
/// `seed` is the scenario's, `domain` names the purpose (`"payload"`, `"skew"`), `keys` tell its instances apart
/// (segment, src, dst); unused keys are 0.
///
/// The 256-bit ChaCha key is `seed` and the three `keys`, little-endian, one after the other: this part is
/// injective. The 64-bit nonce is the FNV-1a hash of `domain`, so two domains collide only if their hashes do,
/// which for the handful of names in one program is a chance below 1e-17 per pair. ChaCha keeps streams apart
/// that differ in a single bit of key or nonce. A test pins the first words of some streams; they are part
/// of what "the same seed" means and must not change.
pub fn stream(seed: u64, domain: &str, keys: [u64; 3]) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip([seed, keys[0], keys[1], keys[2]]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(fnv1a(domain.as_bytes()));
    rng
}

/// 64-bit FNV-1a (Fowler, Noll, Vo; offset basis and prime of RFC 9923).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::Rng;

    use super::*;

    #[test]
    fn hash_agrees_with_the_published_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn streams_never_change() {
        let first = |seed, domain, keys| stream(seed, domain, keys).next_u64();
        // From a second implementation of ChaCha8 with a 64-bit nonce, written from RFC 8439.
        assert_eq!(first(0, "", [0; 3]), 0xcd0c_630a_0b6d_4650);
        assert_eq!(first(7, "payload", [0, 1, 2]), 0x1751_3740_7c5c_0789);
        assert_eq!(first(7, "skew", [0, 1, 2]), 0x6e8e_c1f8_24b2_8423);
    }

    #[test]
    fn every_input_matters() {
        let mut seen = HashSet::new();
        for seed in [0, 1, u64::MAX] {
            for domain in ["", "payload", "payloae", "skew"] {
                for keys in [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [u64::MAX, 0, 0]] {
                    assert!(seen.insert(stream(seed, domain, keys).next_u64()), "{seed} {domain} {keys:?}");
                }
            }
        }
    }
}
