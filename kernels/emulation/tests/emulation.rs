//! Toy kernels through cudarc.
#![allow(unsafe_code)]
use std::process::ExitCode;
use libtest_mimic::Trial;
use zipwire_emulation::{harness, Controls};
mod gpu;
use gpu::Gpu;

fn main() -> ExitCode {
    harness(&[include_str!("toys.cu")], || vec![Trial::test("reduction", || { reduction(); Ok(()) })], &[])
}
fn reduction() {
    let gpu = Gpu::open(0);
    let values: Vec<u32> = (0..256 * 40).map(|i| i * 7 % 1000).collect();
    let input = gpu.upload(&values);
    let output = gpu.zeros::<u32>(40);
    gpu.launch("block_sums", 40, 256, 0, &mut [gpu::arg(&mut input.pointer.clone()), gpu::arg(&mut output.pointer.clone())]);
    let sums = gpu.download(&output);
    let want: Vec<u32> = values.chunks(256).map(|c| c.iter().sum()).collect();
    assert_eq!(sums, want);
    assert_eq!(Controls::find().unwrap().launches(), 1);
}
