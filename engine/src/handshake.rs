//! Handshake before the first op: ranks check that they run the same plan with the same codec and version.

use zipwire_schedule::{Failure, FailureKind, Plan, Rank};

/// Version, plan and codec that a rank is about to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// Digest of the plan.
    pub plan: String,
    /// The codec with its options, the id of its table among them, and the version of its frames; empty without a codec.
    pub codec: String,
}

impl Hello {
    /// The handshake of this build for a plan.
    pub fn new(plan: &Plan) -> Self {
        let codec = plan.codec.as_ref();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: plan.digest(),
            codec: codec
                .map_or_else(String::new, |spec| format!("{spec}, frames v{}", zipwire_codec::FRAME_VERSION)),
        }
    }

    /// Encodes it as the word of a barrier.
    pub(crate) fn to_word(&self) -> Vec<u8> {
        let Self { version, plan, codec } = self;
        [version, plan, codec].map(String::as_str).join("\n").into_bytes()
    }

    /// Decodes a peer's word. Missing or unreadable parts become `(nothing)`, which equals no rank's own.
    pub(crate) fn of_word(word: &[u8]) -> Self {
        let text = String::from_utf8_lossy(word);
        let mut lines = text.splitn(3, '\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_else(|| "(nothing)".to_owned());
        Self { version: next(), plan: next(), codec: next() }
    }

    /// Compares what `peer` says with what `rank` says.
    ///
    /// # Errors
    /// [`FailureKind::Mismatch`], with what both say.
    pub fn check(&self, rank: Rank, peer: Rank, other: &Self) -> Result<(), Failure> {
        let pairs = [
            ("version", &self.version, &other.version),
            // Another codec, or another table of it, makes another plan; who reads this wants to know which.
            ("codec", &self.codec, &other.codec),
            ("plan", &self.plan, &other.plan),
        ];
        match pairs.into_iter().find(|(_, own, others)| own != others) {
            None => Ok(()),
            Some((what, own, others)) => {
                let detail = format!("its {what} is `{own}`, that of rank {peer} is `{others}`");
                Err(Failure::new(rank, None, FailureKind::Mismatch, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(plan: &str, codec: &str) -> Hello {
        Hello { version: "1".to_owned(), plan: plan.to_owned(), codec: codec.to_owned() }
    }

    #[test]
    fn equals_agree_and_both_sides_of_a_difference_are_named() {
        let (own, same) = (hello("a", "window7"), Hello::of_word(&hello("a", "window7").to_word()));
        assert_eq!(own.check(Rank(0), Rank(1), &same), Ok(()));
        for (other, both) in [
            (hello("b", "window7"), ["`a`", "`b`"]),
            (hello("a", "raw"), ["`window7`", "`raw`"]),
            (hello("b", "rans:table=0a1b2c3d"), ["`window7`", "`rans:table=0a1b2c3d`"]),
        ] {
            let failure = own.check(Rank(0), Rank(3), &other).unwrap_err();
            assert_eq!((failure.rank, failure.kind), (Rank(0), FailureKind::Mismatch));
            let text = failure.to_string();
            assert!(both.iter().all(|part| text.contains(part)) && text.contains("rank 3"), "{text}");
        }
    }
}
