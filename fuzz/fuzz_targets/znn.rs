//! Any bytes as a file of ZipNN.

#![no_main]

use std::fs;
use std::num::NonZero;

use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::scratch_file;
use zipwire_models::file::{Watch, Znn};

/// Files that are written are not longer.
const MOST: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let path = scratch_file(bytes);
    // Threads that have just ended look like leaks.
    let watch = Watch { threads: NonZero::<usize>::MIN, ..Watch::default() };
    match Znn::open(&path) {
        Ok(None) => assert!(!bytes.starts_with(b"ZN") || bytes.len() < 32),
        Ok(Some(znn)) => {
            let sound = znn.verify(&watch);
            if let Err(error) = &sound {
                assert!(!error.to_string().is_empty());
            }
            if znn.bytes() <= MOST {
                let out = path.with_extension("out");
                assert_eq!(znn.restore(&out, true, &watch).is_ok(), sound.is_ok());
                if sound.is_ok() {
                    let values = fs::read(&out).expect("it has been written");
                    assert_eq!(values.len() as u64, znn.bytes());
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
