//! Seconds in which a checkpoint is restored, beside those in which all frames of its chains are decoded:
//! `cargo run --release -p zipwire-models --example restore -- STORE ID OUT [TURNS]`.
//!
//! Both on as many threads as the machine has. What decoding takes is all frames in memory, from the ones that are by themselves to those of the checkpoint, nothing
//! hashed and nothing written; beside it is what as many bytes take to be written. `OUT` is a new folder, in memory if the disk is to be left out.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that fails has no result")]

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use zipwire_codec::{Base, ContainerIndex, Decoder};
use zipwire_models::file::Watch;
use zipwire_models::store::{Address, ObjectHeader, Store, restore};

const HEADER: usize = 160;

/// An object in memory.
struct Link {
    header: ObjectHeader,
    kept: Vec<u8>,
    index: Option<ContainerIndex>,
}

fn main() {
    zipwire_paper_codecs::register();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [root, id, out] = [0, 1, 2].map(|at| args.get(at).expect("STORE ID OUT [TURNS]"));
    let turns = args.get(3).map_or(5, |turns| turns.parse().unwrap());
    let (store, out) = (Store::open(Path::new(root)).unwrap(), PathBuf::from(out));
    let manifest = store.manifest(id).unwrap();
    let objects: BTreeSet<Address> = manifest.objects().collect();
    let chains: Vec<Vec<Link>> = objects.iter().map(|address| chain(Path::new(root), *address)).collect();
    let chunks: Vec<(usize, usize)> = chains
        .iter()
        .enumerate()
        .flat_map(|(number, chain)| {
            let count = chain[0].index.as_ref().map_or(0, ContainerIndex::chunk_count);
            (0..count).map(move |chunk| (number, chunk))
        })
        .collect();
    let longest = chains.iter().map(Vec::len).max().unwrap();
    println!("{} objects, longest chain {longest}, {} MB", objects.len(), manifest.bytes_raw() / 1_000_000);
    let mut ratios = Vec::new();
    for _ in 0..turns {
        let begun = Instant::now();
        let sum = Mutex::new(0);
        Watch::default()
            .for_each(chunks.len(), |task, _| {
                let (number, chunk) = chunks[task];
                *sum.lock().unwrap() += decode(&chains[number], chunk);
                Ok::<_, zipwire_models::file::FileError>(())
            })
            .unwrap();
        let decoded = begun.elapsed().as_secs_f64();
        assert!(*sum.lock().unwrap() as u64 <= manifest.bytes_raw());
        let begun = Instant::now();
        write(&out, manifest.bytes_raw());
        let written = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        restore(&store, id, &out, false, &Watch::default()).unwrap();
        let restored = begun.elapsed().as_secs_f64();
        std::fs::remove_dir_all(&out).unwrap();
        println!(
            "decoded in {decoded:.3} s, as many bytes written in {written:.3} s, restored in {restored:.3} s"
        );
        ratios.push([restored / decoded, restored / (decoded + written)]);
    }
    for (number, what) in ["decoding", "decoding and writing"].into_iter().enumerate() {
        ratios.sort_by(|a, b| a[number].total_cmp(&b[number]));
        println!("{:.2} of {what}, the middle of {turns} turns", ratios[ratios.len() / 2][number]);
    }
}

/// Writes a file of `bytes` bytes, the size of a checkpoint, and removes it: the speed of the disk alone.
fn write(out: &Path, bytes: u64) {
    let piece = vec![7; 1 << 20];
    let file = std::fs::File::create(out).unwrap();
    Watch::default()
        .for_each((bytes >> 20) as usize, |number, _| {
            zipwire_models::file::at::write_all(&file, &piece, (number as u64) << 20).unwrap();
            Ok::<_, zipwire_models::file::FileError>(())
        })
        .unwrap();
    file.sync_all().unwrap();
    std::fs::remove_file(out).unwrap();
}

/// An object and its bases, from the one that is by itself on.
fn chain(root: &Path, address: Address) -> Vec<Link> {
    let (mut links, mut next) = (Vec::new(), Some(address));
    while let Some(address) = next {
        let text = address.to_string();
        let path = root.join("objects").join(&text[..2]).join(&text[2..]);
        let bytes = std::fs::read(&path).unwrap();
        let header = ObjectHeader::parse(bytes.first_chunk::<HEADER>().unwrap(), &path, address).unwrap();
        let kept = bytes[HEADER..].to_vec();
        let index = header.is_coded.then(|| ContainerIndex::read(&mut Cursor::new(&kept)).unwrap());
        next = header.base;
        links.push(Link { header, kept, index });
    }
    links.reverse();
    links
}

/// Decodes a chunk of all links, and gives its length.
fn decode(chain: &[Link], chunk: usize) -> usize {
    let mut values: Option<Vec<u8>> = None;
    for Link { header, kept, index } in chain {
        let index = index.as_ref().unwrap();
        let (place, data) = (index.frame(chunk), index.data(chunk));
        let mut decoder = Decoder::new();
        if let Some(base) = values.take().filter(|_| header.base.is_some()) {
            decoder.add_base(Base::new(index.dtype(), base)).unwrap();
        }
        let mut out = vec![0; (data.end - data.start) as usize];
        decoder.decompress_into(&kept[place.start as usize..place.end as usize], &mut out).unwrap();
        values = Some(out);
    }
    values.map_or(0, |values| values.len())
}
