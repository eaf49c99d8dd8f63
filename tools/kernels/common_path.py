"""The common path of each kernel: what is rare in the sources, how many values a thread has, how often loops turn."""

# What names of kernels end with.
DTYPES = ["bf16", "f16", "f32", "e4m3", "e5m2"]

# By module: values per thread, or by kernel, and what is taken out of the sources to leave the common path.
RARE = {
    "window7": (
        32,
        [
            ("    else encode_tile<Format, false>(frame, tile, count, &shared);\n", ""),
            ("    else decode_tile<false>(Format(), frame, tile, count, &shared);\n", ""),
            ("if (hint != OWN_WINDOWS)", "if (true)"),
            ("if (!is_final)", "if (false)"),
            # The first warp of eight only.
            ("look_back(at<u64>(frame->tiles_state), tile, length)", "0"),
            ("sum_before(at<u64>(frame->tiles_state), tile, length)", "0"),
            ("    if (warp_id() == 0) close_tile<Format>(frame, tile, of_values);\n", "    if (of_values == 1) *at<u32>(frame->state) = 0;\n"),
            ("const bool stored = !coded || in_body + own + escapes >= Format::WIDTH * count;", "const bool stored = false;"),
            ("if (mode == MODE_STORED)", "if (false)"),
            ("        if (windows) {", "        if (false) {"),
            # Lower halves that are left out.
            ("if (entry.lower == 0) return;\n", ""),
            # Compact frames: tiles that are not whole, have a mask, are zeros or stored.
            ("if (entry.coded == TILE_VALUES) {", "if (true) {"),
            ("const bool is_whole = count == TILE_VALUES;", "const bool is_whole = true;"),
            ("if (is_whole && hint != OWN_WINDOWS) {", "if (true) {"),
            ("    if (has_zeros) {\n", "    if (false) {\n"),
            ("        if (!is_known) escapes = ", "        if (false) escapes = "),
            ("if (entry.len<Format>(count) >= Format::WIDTH * count) entry", "if (false) entry"),
            ("if (entry.coded) write_body", "if (true) write_body"),
            # The first warp of eight only.
            ("        write_entry(front + HEADER_BYTES + COMPACT_ENTRY * (u64)tile, entry.start | mode << 8 | entry.escapes << 16, entry.coded);\n", ""),
            (
                "    if (warp_id() == 0) close_compact<Format>(frame, tile, compact_front_end(frame->tile_count), of_values);\n",
                "    if (of_values == 1) *at<u32>(frame->state) = 0;\n",
            ),
        ],
    ),
    "codebook16": (
        32,
        [
            ("    else encode_block<Format, false>(frame, block, count, &shared);\n", ""),
            ("    else decode_block<Format, false>(frame, block, count, &shared);\n", ""),
            # Books that are no run of exponents.
            ("if ((book.w >> 24) - first == BOOK_LEN - 1)", "if (true)"),
            # The first warp of a block only.
            ("sum_before(at<u64>(frame->tiles_state), block, of_block)", "0"),
            ("    if (warp_id() == 0) close_tile<Format>(frame, block, fold(sum));\n", "    if (sum == 1) *at<u32>(frame->state) = 0;\n"),
            ("!Format::CODED || Format::coded_len(count) + choice.length >= Format::WIDTH * count;", "!Format::CODED;"),
            ("const bool is_stored = mode == MODE_STORED;", "const bool is_stored = false;"),
            ("if (!FULL || __syncthreads_or(is_stored))", "if (!FULL)"),
            # Compact frames: tiles that are not whole, have a mask, are zeros or stored.
            ("if (__syncthreads_and(entry.coded == TILE_VALUES)) {", "if (true) {"),
            ("const bool is_whole = count == Format::TILE;", "const bool is_whole = true;"),
            ("    if (has_zeros) {\n", "    if (false) {\n"),
            ("        code_tiles<Format, false>(frame, block, seat, book, v, shared);\n", ""),
            ("if (Format::CODED && (book.w >> 24) - first == BOOK_LEN - 1) {", "if (Format::CODED) {"),
            ("is_stored = !is_zero && len >= Format::WIDTH * count;", "is_stored = !Format::CODED;"),
            # The first warp of a tile only.
            ("    if (seat.warp == 0 && seat.count)\n        write_entry", "    if (false)\n        write_entry"),
            (
                "    if (warp_id() == 0) close_compact<Format>(frame, block, compact_front_end(frame->count), fold(sum));\n",
                "    if (sum == 1) *at<u32>(frame->state) = 0;\n",
            ),
        ],
    ),
    "tiered": (
        64,
        [
            ("    else encode_tile<Format, false>(frame, tile, count, &shared);\n", ""),
            ("    else decode_tile<Format, false>(frame, tile, count, &shared);\n", ""),
            # The first warp of sixteen only.
            ("        if (warp_id() == 0) choose_bases(count, &shared->plan);\n", ""),
            ("look_back(at<u64>(frame->tiles_state), tile, length)", "0"),
            ("    if (warp_id() == 0) close_tile<Format>(frame, tile, of_values);\n", "    if (of_values == 1) *at<u32>(frame->state) = 0;\n"),
            ("if (found.dynamic_len(count) < length)", "if (true)"),
            ("    if (entry.form == FORM_STORED) {\n        copy_words", "    if (false) {\n        copy_words"),
            ("    if (entry.form == FORM_STORED) {\n        read_stored", "    if (false) {\n        read_stored"),
            # Compact frames: blocks that are not whole, have a mask or offsets of columns, zeros, stored ones.
            ("    if (count == Format::TILE) {\n        of_values = take_values", "    if (true) {\n        of_values = take_values"),
            ("const bool is_listed = count < Format::TILE || shared->is_masked;", "const bool is_listed = false;"),
            # Frames that begin at any byte.
            ("    if (((size_t)to & 7) == 0) {\n        store(to, bytes);\n    } else if (before == 0) {\n        store(to, bytes.x);\n        store(to + 4, bytes.y);\n    } else {\n", "    {\n"),
            ("    if (shared->coded_count) {\n", "    if (true) {\n"),
            ("    if (block.entry.form == FORM_STORED) copy_anywhere(to, values, Format::WIDTH * count, threadIdx.x, THREADS);\n    if (!block.is_coded()) return;\n", ""),
            ("        choose_bases(count, &tiers->plan);\n        __syncwarp();\n        choose_kept<Format>(count, shared);\n", ""),
            ("    if (warp_id() == 0) place_compact<Format>(frame, own_tile(frame), count, second, third, shared);\n", "    if (third == 1) *at<u32>(frame->state) = 0;\n"),
            ("    if (!block.is_masked && !block.has_columns && out->count == Format::TILE) is_wrong", "    is_wrong"),
            ("    else is_wrong = write_rows<Format, false>(block, body, out, columns, shared);\n", ""),
            ("    if (block.is_masked) is_wrong |= read_mask(*body, kept, all, shared);\n    else ", "    "),
            ("return block.has_columns ? Columns::read(at<const u8>(frame->fixed) + compact_front_len(frame->tile_count)) : Columns();", "return Columns();"),
            ("    if (!block.is_coded()) {\n        write_uncoded", "    if (false) {\n        write_uncoded"),
            # Byte planes of F32 that are not as they are.
            ("if (!has_forms<Format>() || plane.form == PLANE_RAW) {", "if (true) {"),
            ("    if (has_forms<Format>() && rank_sparse(body, entry.counts[0], shared)) return true;\n", ""),
            ("return add_planes(block, body, out, shared) || is_wrong;", "return is_wrong;"),
            # One thread, or the first warp.
            ("if (has_forms<Format>() && threadIdx.x == 0) shared", "if (false) shared"),
            ("    if (warp_id() == 0) close_compact<Format>(frame, tile, compact_front_len(frame->tile_count), of_values);\n", "    if (of_values == 1) *at<u32>(frame->state) = 0;\n"),
        ],
    ),
    "rans": (
        # A warp decodes a block of 32 768, and codes it; sixteen split and write it, and decode it in the layout compact.
        {
            f"rans_{work}_{dtype}": values
            for work, values in [("split", 64), ("chain", 1024), ("encode", 64), ("decode", 1024), ("decode_compact", 64)]
            for dtype in DTYPES
        },
        [
            # Once for each frame of a launch.
            ("const Frame* frame = frame_of(frames, frame_count, blockIdx.x);", "const Frame* frame = frames;"),
            ("const Frame* frame = frame_of(frames, frame_count, take_number(frames));", "const Frame* frame = frames;"),
            # The last rows of a frame, and rows with a residual that has no symbol.
            ("if (GROUP * (group + 1) <= count && stream.word + GROUP <= stream.readable) {", "if (true) {"),
            ("if (__any_sync(ALL, escapes)) {", "if (false) {"),
            # Blocks in tiers and stored ones.
            ("    if (count == Format::TILE) decode_tile<Format, true>(frame, tile, count, &shared.tiers);\n", ""),
            ("    else decode_tile<Format, false>(frame, tile, count, &shared.tiers);\n", ""),
            ("    if (entry.form == FORM_STORED) {\n        copy_words", "    if (false) {\n        copy_words"),
            ("        if (beyond) {", "        if (false) {"),
            ("if (listed && listed <= WORK_ESCAPES) write_escapes", "if (false) write_escapes"),
            # Blocks that are left to the threads of a block.
            ("if (is_split && write_worked<Format>(frame, tile, *work, &shared)) return;", "write_worked<Format>(frame, tile, *work, &shared);"),
            ("    encode_block_of<Format>(frame, tile, has_table, false, !is_split, &shared);\n", ""),
            ("if (words == ALL || length >= stored_len<Format>(count) || 64 * len > 24 * count) return false;", ""),
            ("const Frame* frame = frame_of(frames, frame_count, number);\n    const Scratch*", "const Frame* frame = frames;\n    const Scratch*"),
            # The first warp of sixteen only.
            ("    if (warp_id() == 0) choose_bases(count, &shared->plan, scratch->eighths);\n", ""),
            ("const u64 before = look_back(sums, tile, own);", "const u64 before = own;"),
            # Compact frames: blocks with a mask or offsets of columns, those in tiers, zeros, stored ones.
            ("            return write_block<Format>(block, body, out, shared);\n        });\n    if (warp_id() == 0) close", "            return true;\n        });\n    if (warp_id() == 0) close"),
            ("    if (block.is_masked) is_wrong |= read_mask(*body, kept, all, shared);\n    else ", "    "),
            ("    if (!PLAIN && is_masked) {", "    if (false) {"),
            ("    if (!PLAIN && block.has_columns) {", "    if (false) {"),
            # The last octet of a frame.
            ("        if (live == 0 || live == 8) return;\n", "        return;\n"),
            # Joint symbols, residuals that have no symbol, ends of rests.
            ("    if (!has_forms<Format>() && is_joint) is_wrong |= write_listed<Format, true>(block, body, rest, out, shared);\n    else ", "    "),
            ("const bool is_joint = window_of(head) != 0;", "const bool is_joint = false;"),
            ("const bool is_joint = window_of((u32)scratch->table[0]) != 0;", "const bool is_joint = false;"),
            ("if (__any_sync(ALL, is_escape)) {", "if (false) {"),
            ("        if (place + count <= stored) {\n            all", "        if (true) {\n            all"),
            # Byte planes of F32 that are not as they are.
            ("if (!has_forms<Format>() || plane.form == PLANE_RAW) {", "if (true) {"),
            ("    if (has_forms<Format>() && rank_sparse(body, all, shared)) return true;\n", ""),
            ("return add_planes(block, body, out, shared) || is_wrong;", "return is_wrong;"),
            # One thread, or the first warp.
            ("if (has_forms<Format>() && threadIdx.x == 0) shared", "if (false) shared"),
            ("    if (warp_id() == 0) close_compact<Format>(frame, tile, compact_front_len(frame->tile_count), of_values);\n", "    if (of_values == 1) *at<u32>(frame->state) = 0;\n"),
        ],
    ),
    "huffman": (
        # A block of a frame has 256 times 64 bits, 288 threads for them, and 2.59 bits are a Gaussian value's.
        256 * 64 / 2.59 / 288,
        [
            # Once for each frame of a launch, by one thread, or by the last warp only.
            ("const Frame* frame = frame_of(frames, frame_count, blockIdx.x);", "const Frame* frame = frames;"),
            ("const Frame* frame = frame_of(frames, frame_count, take_number(frames));", "const Frame* frame = frames;"),
            ("        if (threadIdx.x == 0) add_to_part(frame, tile, sum);\n", "        if (sum == 1) *at<u32>(frame->state) = 0;\n"),
            ("if (warp_id() == WARPS - 1) {", "if (false) {"),
            ("else if (before < len) is_wrong |= !is_end<Layout>(frame, thread, column, len - before);", ""),
            # Pairs of words with more than eleven bits, one in a hundred.
            (
                "            if (step == 0) {\n"
                "                const u32 one = any_word(code, bits.first);\n"
                "                bits.skip(one >> 8);\n"
                "                const u32 other = any_word(code, bits.first);\n"
                "                entries[k] = (one & 0xffu) | (other & 0xffu) << 8 | one >> 8 << 16;\n"
                "                at += one >> 8;\n"
                "                step = other >> 8;\n"
                "            }\n",
                "            if (step == 0) __trap();\n",
            ),
            # The last octet of a frame.
            ("left < 8 ? (u32)left : 8u", "8u"),
            ("if (coded.threads == 0) {", "if (false) {"),
            # The encoder: last and stored tiles; the ninth warp only; one thread; blocks of a frame, of which a tile begins one.
            ("    else encode_tile<Layout, false>(frame, tile, &shared);\n", ""),
            ("else if (!Layout::IS_ALIGNED) store_exponents", "else if (false) store_exponents"),
            ("if (is_stored) store_octet", "if (false) store_octet"),
            ("look_back(bits_of_tiles(frame), tile, of_tile)", "0"),
            ("    if (threadIdx.x == 0) pass_bits(frame, tile, place, shared);\n", ""),
            ("    if (tile == 0 && threadIdx.x < 4) ", "    if (false) "),
            ("    if (thread % BLOCK_THREADS != 0 || thread / BLOCK_THREADS >= coded.blocks) return;\n", "    return;\n"),
            ("    if (!is_last) return;\n", "    return;\n"),
            # Pairs of words with 32 bits or more.
            ("if (one.y + other.y < 32) {", "if (true) {"),
        ],
    ),
}

# Sums of values as they are: all of it is the common path.
RARE["sum"] = (16, [])

# Values per thread of kernels that have another number of them than the others of their module.
VALUES = {"huffman_encode_bf16": 8192 / 288, "huffman_encode_compact_bf16": 8192 / 288}

# How often the loops of a kernel's common path turn in a warp of a thread block on average, by their place in the code; the
# loops of all others are counted once. For blocks of a frame of Gaussian values.
LOOPS = {
    "huffman_encode_bf16": [
        # Words of the tile are cleared, by eight of nine warps.
        8192 * 2.59 / 32 / 288,
        # Those of its gaps.
        1,
        # Words are copied.
        8192 * 2.59 / 32 / 288,
        # Those of gaps.
        1,
    ],
    "huffman_decode_bf16": [
        # The table is copied, for 1.3 blocks of a frame.
        2 / 1.3,
        # A block of a frame.
        1,
        # Rows of four symbols, as many as the slowest of 32 threads has: 7.3 for eight warps, two for the ninth.
        (8 * 7.3 + 2) / 9,
        # Tiles that a block has a part of. Most warps have symbols of one only, and skip what moves them for the other: an upper bound.
        1 + 256 * 64 / 2.59 / 8192,
        # Four symbols that are moved; most threads have a part of one tile only.
        6 / (1 + 256 * 64 / 2.59 / 8192),
        # Octets.
        256 * 64 / 2.59 / 8 / 288 / (1 + 256 * 64 / 2.59 / 8192),
    ],
}

for dtype in DTYPES:
    # Slots, bases, groups of 256 values, a block's share of the front matter.
    LOOPS[f"rans_decode_{dtype}"] = [2, 4, 128, 1]
    # Rows of 128 values.
    LOOPS[f"rans_chain_{dtype}"] = [256]
    # Words that are copied, 2.6 bits for a Gaussian value; residuals that have no symbol.
    LOOPS[f"rans_encode_{dtype}"] = [32768 * 2.6 / 64 / 512, 0]
# The search of a frame, escapes, tiers, rounds of a tier: once, as in the layout `split`. Rows of a warp; of F32, planes.
LOOPS |= {f"tiered_decode_compact_{dtype}": [1, 1, 1, 1, 8] for dtype in ["bf16", "f16", "e4m3", "e5m2"]}
# The search of a frame, a tier, what is passed on, the codes of tier 2, two tiers, escapes: once; and four rows of a warp, whose rests are written.
LOOPS["tiered_encode_compact_bf16"] = [1, 1, 1, 1, 1, 1, 1, 2]
# Rows of 128 values, by one warp of sixteen, and rows of a warp; of F32, planes between them.
LOOPS |= {f"rans_decode_compact_{dtype}": [256 / 16, 8] for dtype in ["bf16", "f16", "e4m3", "e5m2"]}
LOOPS["rans_decode_compact_f32"] = [256 / 16, 3, 8]
LOOPS["tiered_decode_compact_f32"] = [1, 3, 1, 1, 1, 8]
LOOPS["huffman_encode_compact_bf16"] = LOOPS["huffman_encode_bf16"]
LOOPS["huffman_decode_compact_bf16"] = LOOPS["huffman_decode_bf16"]
# The search of a sum, two terms of a whole tile; values one by one are not the common path.
LOOPS["sum_add"] = [1, 2, 0, 0, 0]
