//! Containers and ids of tables, read a second time from docs/format.md, and their bytes by hash.

use std::io::Write;

use crate::common::checksum::{behind, words};
use crate::common::content::Content;
use crate::common::reader::number;
use crate::common::tag_of;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{Codebook, DType, Table, WriterOptions, decompress};

/// The data of a container, every byte of which is looked at.
fn read(container: &[u8], dtype: DType, chunk_values: u32) -> Vec<u8> {
    assert_eq!(container[..4], [0x5a, 0x50, 0x57, 0x53]);
    assert_eq!(container[4..8], [1, tag_of(dtype), 0, 0]);
    assert_eq!(number(&container[8..12]), u64::from(chunk_values));
    assert_eq!(number(&container[12..16]), u64::from(words(&container[..12])));

    let end = container.len();
    assert_eq!(container[end - 4..], [0x5a, 0x50, 0x57, 0x45]);
    let chunks = number(&container[end - 24..end - 16]) as usize;
    let index = &container[end - 32 - 8 * chunks..];
    assert_eq!(index[..4], [0x5a, 0x50, 0x57, 0x49]);
    let sum_at = 24 + 8 * chunks;
    assert_eq!(number(&index[sum_at..sum_at + 4]), u64::from(words(&index[..sum_at])));

    let (mut at, mut data) = (16, Vec::new());
    for (chunk, entry) in index[8..].chunks(8).take(chunks).enumerate() {
        let (len, checksum) = (number(&entry[..4]) as usize, &entry[4..]);
        let frame = &container[at..at + len];
        // In `compact`, and the length of the whole frame.
        assert_eq!((frame[7], number(&frame[16..24])), (1, len as u64));
        assert_eq!(&frame[24..28], checksum);
        assert_eq!(data.len(), chunk * chunk_values as usize * dtype.width());
        data.extend(decompress(frame).unwrap());
        at += len;
    }
    assert_eq!(at, end - index.len(), "chunks have no gaps");
    let tail_len = usize::from(index[4]);
    data.extend(&index[5..5 + tail_len]);
    assert!(index[5 + tail_len..8].iter().all(|byte| *byte == 0));
    assert_eq!(number(&container[end - 16..end - 8]), data.len() as u64);
    assert_eq!(tail_len, data.len() % dtype.width());
    data
}

#[test]
fn containers_are_what_the_format_says_and_have_not_changed() {
    let golden = [
        (DType::Bf16, 0, 0xa833_c94a_77b5_34d7_u64),
        (DType::Bf16, 30_001, 0x8c21_fdab_e5ed_64df),
        (DType::F32, 30_003, 0xfe0a_4374_f85d_f8bb),
        (DType::F8E4M3, 4_000, 0xc448_dfe1_c41b_a1b1),
    ];
    let mut changed = String::new();
    for (dtype, len, expected) in golden {
        let mut data = Content::Rows.values(dtype, len / dtype.width() + 1, 7);
        data.truncate(len);
        let mut writer = WriterOptions::new(dtype).chunk_values(4_000).open(Vec::new()).unwrap();
        writer.write_all(&data).unwrap();
        let container = writer.finish().unwrap();
        assert!(read(&container, dtype, 4_000) == data, "{dtype} {len}");
        let found = xxh3_64(&container);
        if found != expected {
            changed += &format!("        (DType::{dtype:?}, {len}, {found:#018x}),\n");
        }
    }
    assert!(changed.is_empty(), "these containers are others now:\n{changed}");
}

#[test]
fn ids_of_tables_are_what_the_format_says() {
    let book = Codebook::from_exponents(DType::F8E5M2, std::array::from_fn(|i| 3 + i as u8)).unwrap();
    let bytes: Vec<u8> = [3, 4].into_iter().chain(3..19).collect();
    assert_eq!(book.table().as_bytes(), bytes);
    for bytes in [bytes, vec![], vec![0], vec![0, 0], vec![9; 100]] {
        let len = words(&(bytes.len() as u64).to_le_bytes());
        // Words from the second index on.
        let expected = behind(8, &bytes).wrapping_add(len).max(1);
        assert_eq!(Table::new(bytes).id(), expected);
    }
}
