//! Any bytes as a frame: of the layout, type and number of values that their header names, or of others.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_codec::{DType, Decoder, Layout};
use zipwire_fuzz::{check_decoded, check_unknown};

fuzz_target!(|input: (u8, u16, &[u8])| {
    zipwire_paper_codecs::register();
    let (choice, number, bytes) = input;
    let from_header = choice % 4 != 0;
    let field = |position: usize| usize::from(bytes.get(position).copied().unwrap_or(0));
    let dtype = if from_header { field(6) } else { usize::from(choice / 8) };
    let layout = if from_header { field(7) } else { usize::from(choice / 4) };
    let (dtype, layout) = (DType::ALL[dtype % DType::ALL.len()], Layout::ALL[layout % Layout::ALL.len()]);
    let count = match bytes.get(8..).and_then(|bytes| bytes.first_chunk()) {
        Some(count) if from_header => u64::from_le_bytes(*count) as usize,
        _ => usize::from(number) % 4096,
    };
    check_unknown(bytes);
    // Sections that a caller has cut anywhere, and room for values that is there already.
    if count <= 1 << 16 {
        let (static_section, dynamic_section) = bytes.split_at(usize::from(number) % (bytes.len() + 1));
        let _ = check_decoded(&Decoder::new(), layout, dtype, count, static_section, dynamic_section);
        if layout == Layout::Compact {
            let _ = check_decoded(&Decoder::new(), layout, dtype, count, &[], bytes);
        }
    }
});
