//! Mistakes that are planted in the kernels are noticed by the comparison with the CPU.

use std::process::ExitCode;

use libtest_mimic::{Failed, Trial};
use zipwire_codec::DType;
use zipwire_emulation::{Controls, Emulation, Scene, scene};

use crate::bench::Bench;
use crate::content::Content;

/// A change of the sources: what is replaced, and by what.
struct Mistake {
    name: &'static str,
    codec: &'static str,
    from: &'static str,
    to: &'static str,
}

const MISTAKES: &[Mistake] = &[
    // The sums of the warps are read before they are there.
    Mistake {
        name: "a_missing_barrier_in_a_sum",
        codec: "window7",
        from: "if (lane_id() == 0) parts[warp_id()] = value;\n    __syncthreads();",
        to: "if (lane_id() == 0) parts[warp_id()] = value;",
    },
    // Escapes are placed by the numbers of other warps' escapes.
    Mistake {
        name: "a_missing_barrier_in_window7",
        codec: "window7",
        from: "shared->warp_escapes[warp_id()] = of_warp;\n    __syncthreads();",
        to: "shared->warp_escapes[warp_id()] = of_warp;",
    },
    Mistake {
        name: "a_wrong_size",
        codec: "window7",
        from: "*at<u64>(frame->size) = offset + length;",
        to: "*at<u64>(frame->size) = offset + length + 1;",
    },
    // The parts of the checksum that a tile of F32 is are summed before they are there.
    Mistake {
        name: "a_missing_barrier_in_two_parts",
        codec: "window7",
        from: "if (lane_id() == 0) parts[warp_id()] = sum;\n    __syncthreads();",
        to: "if (lane_id() == 0) parts[warp_id()] = sum;",
    },
    // Rows of escapes are counted before all threads have said how many they have.
    Mistake {
        name: "a_missing_barrier_in_codebook16",
        codec: "codebook16",
        from: "shared->escapes[warp_id()] = escapes;\n    }\n    __syncthreads();",
        to: "shared->escapes[warp_id()] = escapes;\n    }",
    },
    // The book is made of what some blocks have counted.
    Mistake {
        name: "a_book_of_a_part",
        codec: "codebook16",
        from: "found = atomicExch(all + mine, 0u);",
        to: "atomicExch(all + mine, 0u);",
    },
    // What a tier passes on goes where other warps have yet to read.
    Mistake {
        name: "a_missing_barrier_in_a_tier",
        codec: "tiered",
        from: "as far as this round, no further.\n        __syncthreads();",
        to: "as far as this round, no further.\n",
    },
    // Values that earlier tiers give replace those of later ones that are still to be read.
    Mistake {
        name: "a_list_that_is_overwritten",
        codec: "tiered",
        from: "            __syncthreads();\n            if (first < count) shared->list",
        to: "            if (first < count) shared->list",
    },
    // Values begin where those of other groups do.
    Mistake {
        name: "groups_that_are_not_left_out",
        codec: "tiered",
        from: "const u32 own = group < groups && !base.is_left_out ?",
        to: "const u32 own = group < groups ?",
    },
    // Residuals that are coded are not all in the list yet.
    Mistake {
        name: "a_missing_barrier_behind_a_mask",
        codec: "tiered",
        from: "of.number, tiers->selectors);\n    }\n    __syncthreads();",
        to: "of.number, tiers->selectors);\n    }",
    },
    // Rests are copied before all threads have put theirs into the list.
    Mistake {
        name: "rests_that_are_not_there_yet",
        codec: "tiered",
        from: "list[shared->coded_count + threadIdx.x] = 0;\n    __syncthreads();",
        to: "list[shared->coded_count + threadIdx.x] = 0;",
    },
    // What a mask marks is counted by some warps only.
    Mistake {
        name: "a_missing_barrier_in_a_mask",
        codec: "window7",
        from: "if (lane_id() == 0) totals[warp] = total;\n    const bool is_beyond = __syncthreads_or((kept.bits & ~there) != 0);",
        to: "const bool is_beyond = __syncthreads_or((kept.bits & ~there) != 0);\n    if (lane_id() == 0) totals[warp] = total;",
    },
    // Values move to other threads before all have said where theirs go.
    Mistake {
        name: "a_missing_barrier_where_zeros_are_left_out",
        codec: "window7",
        from: "kept[coded + threadIdx.x] = 0;\n    __syncthreads();",
        to: "kept[coded + threadIdx.x] = 0;",
    },
    // Values of other threads are coded before these have brought them to where they belong.
    Mistake {
        name: "a_missing_barrier_where_codebook16_leaves_out_zeros",
        codec: "codebook16",
        from: "    __syncthreads();\n    Seat of_kept = seat;",
        to: "    Seat of_kept = seat;",
    },
    // The last word of a part of a compact frame takes bytes of the next one.
    Mistake {
        name: "a_word_that_belongs_to_two",
        codec: "window7",
        from: "words = (count - head) / 4,",
        to: "words = (count - head + 3) / 4,",
    },
    // Slots are looked up before they are there.
    Mistake {
        name: "slots_that_are_not_there_yet",
        codec: "rans",
        from: "shared.slots[i] = slots[i];\n        __syncthreads();",
        to: "shared.slots[i] = slots[i];",
    },
    // Residuals are taken from the list before they are there.
    Mistake {
        name: "residuals_that_are_not_there_yet",
        codec: "rans",
        from: "carried != 0, shared);\n    if (__syncthreads_or(is_wrong)) return true;",
        to: "carried != 0, shared);",
    },
    // The words of a lane are where those of the lanes behind it belong.
    Mistake {
        name: "words_in_the_order_of_no_decoder",
        codec: "rans",
        from: "__popc(writers & before)",
        to: "__popc(writers & ~before) - 1",
    },
    // A warp codes a block for nothing: another launch looks for its states.
    Mistake {
        name: "states_that_are_not_kept",
        codec: "rans",
        from: "work->state[lane_id()] = state;",
        to: "",
    },
    // Blocks are looked for in some warps only, where a second launch codes what the first could not.
    Mistake {
        name: "blocks_that_no_thread_looks_for",
        codec: "rans",
        from: "if (lane_id() == 0) marks[warp_id()] = of_warp;",
        to: "if (threadIdx.x == 32) marks[1] = of_warp;",
    },
    // Words are copied before all threads have written theirs.
    Mistake {
        name: "a_missing_barrier_in_words_of_huffman",
        codec: "huffman",
        from: "    __syncthreads();\n    if (threadIdx.x == 0) pass_bits",
        to: "    if (threadIdx.x == 0) pass_bits",
    },
    // What one tile begins and another one ends is lost.
    Mistake {
        name: "bits_that_nobody_takes",
        codec: "huffman",
        from: "shared->out[place.first / 32] |= (u32)found;",
        to: "",
    },
    // Octets are joined before all threads have moved their symbols.
    Mistake {
        name: "a_missing_barrier_in_huffman",
        codec: "huffman",
        from: "shared->exponents);\n        __syncthreads();",
        to: "shared->exponents);",
    },
    // Words are looked up before the table is there.
    Mistake {
        name: "a_table_that_is_not_there_yet",
        codec: "huffman",
        from: "        __syncthreads();\n        decode_block",
        to: "        decode_block",
    },
    // Octets that end in the next block are not read to their ends.
    Mistake {
        name: "a_block_that_does_not_read_on",
        codec: "huffman",
        from: "#define ROWS_BEHIND 2u",
        to: "#define ROWS_BEHIND 1u",
    },
];

/// Each mistake takes a compilation; these stand for the others in a plain `cargo test`.
const SHORT: [&str; 3] = ["a_wrong_size", "a_book_of_a_part", "a_list_that_is_overwritten"];

/// Comparisons that run with mistaken kernels, each in a process of its own.
pub(crate) const SCENES: &[Scene] = &[
    Scene { name: "window7", run: window7 },
    // Several blocks make the book, and what they count differs.
    Scene { name: "codebook16", run: || parity("codebook16", DType::Bf16, &BY_TURNS) },
    Scene { name: "tiered", run: || parity("tiered", DType::Bf16, &[Content::SomeZeros, Content::Rows]) },
    Scene { name: "rans", run: || parity("rans", DType::Bf16, &[Content::Gaussian]) },
    Scene { name: "huffman", run: || parity("huffman", DType::Bf16, &[Content::Gaussian]) },
];
const BY_TURNS: [Content; 6] = [
    Content::Gaussian,
    Content::Noise,
    Content::Gaussian,
    Content::Noise,
    Content::Gaussian,
    Content::SomeZeros,
];

pub(crate) fn trials() -> Vec<Trial> {
    MISTAKES
        .iter()
        .map(|mistake| {
            let is_short = SHORT.contains(&mistake.name);
            let extent = if is_short { "" } else { "wide::" };
            Trial::test(format!("planted::{extent}{}", mistake.name), move || is_noticed(mistake))
                .with_ignored_flag(!is_short)
        })
        .collect()
}

/// Whether the scene of a codec compares frames of this type.
fn is_compared(codec: &str, dtype: DType) -> bool {
    dtype == DType::Bf16 || codec == "window7"
}

/// The comparison passes with the kernels as they are, and fails with the mistake.
fn is_noticed(mistake: &Mistake) -> Result<(), Failed> {
    for (planted, passes) in [(false, true), (true, false)] {
        let mut texts: Vec<String> = zipwire_kernels::sources()
            .into_iter()
            .filter(|source| {
                source.name == mistake.codec
                    && source.dtype.is_some_and(|dtype| is_compared(mistake.codec, dtype))
            })
            .map(|source| source.text)
            .collect();
        for text in &mut texts {
            assert!(text.contains(mistake.from), "the sources have changed: `{}`", mistake.from);
            if planted {
                *text = text.replace(mistake.from, mistake.to);
            }
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        // Unchanged kernels are those that the harness has compiled.
        let emulation = Emulation::build(&texts, if planted { mistake.name } else { "tests" })?;
        let output = scene(mistake.codec).envs(emulation.environment()).output()?;
        if output.status.success() != passes {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(
                format!("planted: {planted}; the comparison ends with {}: {text}", output.status).into()
            );
        }
    }
    Ok(())
}

/// Compares frames of both types.
fn window7() -> ExitCode {
    for dtype in [DType::Bf16, DType::F32] {
        parity("window7", dtype, &[Content::Rows, Content::SomeZeros]);
    }
    ExitCode::SUCCESS
}

/// Compares frames under several orders of threads.
fn parity(spec: &str, dtype: DType, parts: &[Content]) -> ExitCode {
    let controls = Controls::find().expect("scenes run below the emulation");
    let bench = Bench::new(spec, dtype);
    let long = parts.iter().flat_map(|part| part.values(dtype, 32_768, 2)).collect();
    let values = [long, Content::Gaussian.values(dtype, 10_000, 3)];
    for seed in 0..8 {
        controls.set_seed(seed);
        bench.check(&values, &format!("seed {seed}"));
    }
    ExitCode::SUCCESS
}
