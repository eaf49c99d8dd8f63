//! Seconds of `zipwire_models::tensor` for a file of BF16 values, as JSON: `tensor FILE SPEC THREADS`. `into` is memory that is there and was touched.

use std::env::args;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use zipwire_models::file::Watch;
use zipwire_models::tensor::{Description, Packed, Packing};

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = Instant::now();
    let done = work();
    (begin.elapsed().as_secs_f64(), done)
}

fn main() -> Result<(), Box<dyn Error>> {
    let [_, path, spec, threads] = args().collect::<Vec<_>>().try_into().map_err(|_| "FILE SPEC THREADS")?;
    zipwire_paper_codecs::register();
    let values = std::fs::read(path)?;
    let description = Description::new("BF16", [values.len() as u64 / 2]);
    let packing = Packing::new(&description, &spec.parse()?, None)?;
    let watch = Watch { threads: threads.parse()?, ..Watch::default() };
    let mut room = vec![1; packing.bound()];
    let (compress_into, len) = seconds(|| packing.pack_into(&values, &mut room, &watch));
    let frame = room[..len?].to_vec();
    let packed = Packed::open(&frame)?;
    let mut back = vec![1; values.len()];
    let (decompress_into, done) = seconds(|| packed.unpack_into(&mut back, None, &watch));
    done?;
    assert!(back == values, "it is lossless");
    drop((room, back));
    let (compress, _) =
        seconds(|| black_box(packing.pack_into(&values, &mut vec![0; packing.bound()], &watch)));
    let (decompress, _) = seconds(|| black_box(packed.unpack_into(&mut vec![0; packed.len()], None, &watch)));
    println!(
        r#"{{"compress": {compress}, "compress into": {compress_into}, "decompress": {decompress}, "decompress into": {decompress_into}}}"#
    );
    Ok(())
}
