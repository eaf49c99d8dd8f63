//! Proof that a process is of this job and meeting: it shows that it knows a key, and does not say it.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use serde::{Deserialize, Serialize};

use super::door::Hello;

/// Names what keys are derived for, as BLAKE3 asks for it.
const CONTEXT: &str = "zipwire 2026 meeting of processes over TCP";

/// Text that all processes of a job know and nobody else; empty where they share none. It is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Key of a job, or of one meeting of it.
pub(super) struct Key([u8; 32]);

impl Key {
    /// Key of a job with this secret, in a run, at the meeting with this number; 0 where a process does not know that yet.
    pub(super) fn new(secret: &Secret, run: &str, number: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        for part in [secret.0.as_str(), run] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Self(hasher.update(&number.to_le_bytes()).finalize().into())
    }
}

/// Random number that is known to whoever has it.
pub(super) fn random() -> u64 {
    // Zero stands for a number that is not known.
    RandomState::new().build_hasher().finish().max(1)
}

/// Introduction of a process, with the proof that it is one of the job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    hello: Hello,
    proof: [u8; 32],
}

impl Introduction {
    /// Answers the number with which a process has greeted this one. A proof is good for this number and this `hello` only.
    pub(super) fn new(hello: Hello, key: &Key, nonce: u64) -> Self {
        let proof = prove(&hello, key, nonce).into();
        Self { hello, proof }
    }

    /// Who it is, and whether it has proven that it knows the key.
    pub(super) fn check(self, key: &Key, nonce: u64) -> (Hello, bool) {
        // Hashes are compared in constant time.
        let is_proven = prove(&self.hello, key, nonce) == self.proof;
        (self.hello, is_proven)
    }
}

fn prove(hello: &Hello, key: &Key, nonce: u64) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(&nonce.to_le_bytes());
    hasher.update(&postcard::to_allocvec(hello).expect("it is plain data")).finalize()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn proofs_hold_for_one_secret_run_meeting_number_and_introduction() {
        let hello = Hello {
            version: "1".to_owned(),
            rank: 1,
            size: 2,
            host: "host".to_owned(),
            process: 3,
            address: IpAddr::from([127, 0, 0, 1]),
            port: 4,
        };
        let key = |secret: &str, run: &str, number| Key::new(&Secret(secret.to_owned()), run, number);
        let introduction = Introduction::new(hello.clone(), &key("secret", "run", 5), 6);
        let holds = |introduction: &Introduction, key: Key, nonce| introduction.clone().check(&key, nonce).1;
        assert!(holds(&introduction, key("secret", "run", 5), 6));
        for other in [
            key("other", "run", 5),
            key("", "run", 5),
            key("secret", "other", 5),
            key("secretr", "un", 5),
            key("secret", "run", 0),
        ] {
            assert!(!holds(&introduction, other, 6));
        }
        assert!(!holds(&introduction, key("secret", "run", 5), 7), "it was said before");
        let changed = Introduction { hello: Hello { port: 5, ..hello }, ..introduction };
        assert!(!holds(&changed, key("secret", "run", 5), 6), "somebody has changed it");
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", Secret("hidden".to_owned())), "Secret");
    }
}
