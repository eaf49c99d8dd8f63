// Blocks of tiered in the layout compact, as a whole; and byte planes of F32 that are in tiers.

// ---- Byte planes in tiers ----------------------------------------------------------------------------------------

// Whether symbols of a plane are listed that no code names, or twice. `head` is in front of its words, which begin at `first`. Barriers are
// inside.
DEVICE bool are_symbols_wrong(const Body& body, const u8* head, u32 first, const u32* counts, CompactShared* shared) {
    u32 named[4][3], place = first;
    bool is_wrong = false;
#pragma unroll
    for (u32 tier = 0; tier < 4; ++tier) {
        u32 both = 0;
        if (64 * threadIdx.x < counts[tier])
            both = (u32)__popcll(wide(body.eight(place + 16 * threadIdx.x))) | (u32)__popcll(wide(body.eight(place + 16 * threadIdx.x + 8))) << 16;
        u32 all;
        scan_block(both, shared->totals[tier & 1], &all);
        // Code 3 has both bits.
        const u32 passed = counts[tier + 1], low = all & 0xffffu, high = all >> 16;
        named[tier][0] = counts[tier] + passed - low - high;
        named[tier][1] = low - passed;
        named[tier][2] = high - passed;
        place += codes_len(counts[tier]);
    }
    if (threadIdx.x == 0) {
#pragma unroll
        for (u32 i = 0; i < 12; ++i) {
            if (named[i / 3][i % 3] == 0) is_wrong |= head[i] != 0;
#pragma unroll
            for (u32 other = 0; other < i; ++other)
                is_wrong |= named[i / 3][i % 3] && named[other / 3][other % 3] && head[i] == head[other];
        }
    }
    return __syncthreads_or(is_wrong);
}

// Bytes of eight values of plane `number`, as they are in words of four bytes: the highest bit of the third is the sign.
DEVICE u32 placed(u32 byte, u32 number) { return number < 2 ? byte << 8 * number : (byte & 0x7fu) << 16 | (byte & 0x80u) << 24; }

// Adds plane `number`, which is in tiers, to values that have been written without it. Returns whether something is wrong.
template <class Format>
DEVICE bool add_plane(const Compact& block, const Body& body, Output<Format>* out, u32 number, CompactShared* shared) {
    __syncthreads();
    const Plane& plane = shared->planes[number];
    const u32 head = body.rest + plane.at, first = head + PLANE_HEAD, *counts = plane.counts;
    const uint2 names = body.eight(head);
    const u32 more = body.eight(head + 8).x;
    const Symbols symbols = {names.x & 0xffffffu, names.x >> 24 | (names.y & 0xffffu) << 8, names.y >> 16 | (more & 0xffu) << 16, more >> 8};
    if (!expand_lists(body, first, first + codes_len(counts[0]), counts, symbols, false, shared)) return true;
    if (are_symbols_wrong(body, body.bytes + head, first, counts, shared)) return true;
#pragma unroll 1
    for (u32 j = 0; j < ROWS; ++j) {
        const u32 live = live_of<false>(out->count, GROUP * (warp_id() * ROWS + j) + 8 * lane_id());
        const Coded coded = coded_of_row<false>(body, block.is_masked, out->count, j, shared);
        const uint2 bytes = Spreader::of(coded.bits).run(coded_symbols<false>(coded, symbols.first, list_at(2, counts[1]), shared));
        u32* values = (u32*)out->writer.values + GROUP * j;
#pragma unroll 1
        for (u32 i = 0; i < live; ++i) values[i] |= placed(byte_of(bytes, i), number);
    }
    return false;
}

// The sum over the values that this thread has written.
template <class Format> DEVICE u64 sum_again(const Output<Format>& out) {
    u64 sum = 0;
#pragma unroll 1
    for (u32 j = 0; j < ROWS; ++j) {
        const u32 live = live_of<false>(out.count, GROUP * (warp_id() * ROWS + j) + 8 * lane_id());
        const u32* values = (const u32*)out.writer.values + GROUP * j;
        u64 first = key_of_row<Format>(out.writer.key, j);
#pragma unroll 1
        for (u32 i = 0; i < live; i += 2) {
            sum += mix(word_of(values[i], i + 1 < live ? values[i + 1] : 0), first);
            first += KEY_STEP;
        }
    }
    return sum;
}

template <class Format> DEVICE bool add_planes(const Compact& block, const Body& body, Output<Format>* out, CompactShared* shared) {
    if (!has_forms<Format>()) return false;
    bool has_tiers = false;
#pragma unroll 1
    for (u32 number = 0; number < 3; ++number) {
        if (shared->planes[number].form != PLANE_TIERS) continue;
        has_tiers = true;
        if (add_plane(block, body, out, number, shared)) return true;
    }
    if (has_tiers) out->writer.sum = sum_again(*out);
    return false;
}

// ---- Blocks ------------------------------------------------------------------------------------------------------

// Reads bases and mask of a coded block and finds where its rest begins and ends. Returns whether something is wrong. Barriers are inside.
template <class Format> DEVICE bool read_head(const Compact& block, u32 count, Body* body, CompactShared* shared) {
    const Entry& entry = block.entry;
    const u32 all = entry.counts[0];
    u32 kept;
    bool is_wrong = read_compact_bases(body->bytes, entry, count, &kept, shared);
    body->mask = entry.bases_len(count);
    if (block.is_masked) is_wrong |= read_mask(*body, kept, all, shared);
    else is_wrong |= kept != all;
    body->first = body->mask + (block.is_masked ? mask_len(kept) : 0);
    body->rest = body->first + Format::first_len(all);
    // Its length has been looked at.
    if (has_forms<Format>() && threadIdx.x == 0) shared->rest_len = read_planes(body->bytes + body->rest, ~0ull, all, shared->planes);
    is_wrong = __syncthreads_or(is_wrong);
    body->later = body->rest + (has_forms<Format>() ? shared->rest_len : rest_len<Format>(all));
    return is_wrong;
}

DEVICE Columns columns_of(const Frame* frame, const Compact& block) {
    return block.has_columns ? Columns::read(at<const u8>(frame->fixed) + compact_front_len(frame->tile_count)) : Columns();
}

// Writes the values of a block in tiers, or without codes. Returns whether it contradicts itself. Barriers are inside.
template <class Format> DEVICE bool write_block(const Compact& block, Body body, Output<Format>* out, CompactShared* shared) {
    const Entry& entry = block.entry;
    if (!block.is_coded()) {
        write_uncoded<Format>(entry.form == FORM_STORED, body.bytes, out);
        return false;
    }
    if (read_head<Format>(block, out->count, &body, shared)) return true;
    if (!Format::FIRST_IN_BODY) {
        body.first = body.later;
        body.later += codes_len(entry.counts[0]);
    }
    bool is_wrong = is_rest_filled<Format>(body, entry.counts[0], shared);
    if (!expand_lists(body, body.first, body.later, entry.counts, Symbols::of(entry.order_of_tiers()), is_wrong, shared)) return true;
    if (has_forms<Format>() && rank_sparse(body, entry.counts[0], shared)) return true;
    const Columns columns = columns_of(out->frame, block);
    if (!block.is_masked && !block.has_columns && out->count == Format::TILE) is_wrong = write_rows<Format, true>(block, body, out, columns, shared);
    else is_wrong = write_rows<Format, false>(block, body, out, columns, shared);
    return add_planes(block, body, out, shared) || is_wrong;
}

// Decodes a block of a frame to where `values` points; the first thread has the sum over them, folded. `write` does as
// `write_block`. Barriers are inside.
template <class Format, class Write>
DEVICE u32 decode_compact_block(const Frame* frame, u32 tile, u8* values, CompactShared* shared, const Write& write) {
    Output<Format> out;
    out.frame = frame;
    out.tile = tile;
    out.count = values_of_tile<Format>(frame->count, tile);
    out.writer.start(tile);
    out.writer.values = values + Format::WIDTH * (warp_id() * (ROWS * GROUP) + 8 * lane_id());
    out.writer.tail = shared->tail;
    const u8* front = at<const u8>(frame->fixed);
    const Body body = Body::of(front + at<const u64>(frame->tiles_state)[tile]);
    if (write(Compact::read(front, tile), body, &out)) report(frame, FAULT_CODES);
    return fold_parts<Format, CHECKED>(out.writer.sum, shared->parts);
}
template <class Format> DEVICE u32 decode_compact_block(const Frame* frame, u32 tile, u8* values, CompactShared* shared) {
    return decode_compact_block<Format>(frame, tile, values, shared, [=](const Compact& block, const Body& body, Output<Format>* out) {
        return write_block<Format>(block, body, out, shared);
    });
}
