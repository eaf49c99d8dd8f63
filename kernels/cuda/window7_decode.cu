// The decoder of window7.

struct DecodeShared {
    Stage stage;
    u64 parts[WARPS];
};

// Puts the exponents of the escapes of a row in their places.
DEVICE void patch(uint4* v, u32 escaped, const u8* escapes) {
    u32 place = 0; // A pointer that moves makes the compiler loop for ever.
#pragma unroll 1
    for (u32 left = value_order(escaped); left; left &= left - 1) {
        const u32 bit = (u32)__ffs((int)left) - 1;
        const u32 shift = 16 * (bit & 1) + 7, mask = 0xffu << shift, bits = (u32)escapes[place++] << shift;
        v->x = merge(bit / 4 == 0 ? mask : 0, bits, v->x);
        v->y = merge(bit / 4 == 1 ? mask : 0, bits, v->y);
        v->z = merge(bit / 4 == 2 ? mask : 0, bits, v->z);
        v->w = merge(bit / 4 == 3 ? mask : 0, bits, v->w);
    }
}

// Eight values from their sign-mantissa bytes and codes.
DEVICE uint4 join(uint2 rest, u32 nibbles, u32 start) {
    // The exponents of the codes 0 to 6 are a table in two registers, and nibbles select from it.
    const u32 low = start * 0x01010101u + 0x03020100u, high = start * 0x00010101u + 0x00060504u;
    const u32 even = __byte_perm(low, high, nibbles), odd = __byte_perm(low, high, nibbles >> 16);
    const u32 kept = 0x807f807fu;
    uint4 v;
    v.x = merge(kept, __byte_perm(rest.x, 0, 0x1100), __byte_perm(even, odd, 0x4400) << 7);
    v.y = merge(kept, __byte_perm(rest.x, 0, 0x3322), __byte_perm(even, odd, 0x5511) << 7);
    v.z = merge(kept, __byte_perm(rest.y, 0, 0x1100), __byte_perm(even, odd, 0x6622) << 7);
    v.w = merge(kept, __byte_perm(rest.y, 0, 0x3322), __byte_perm(even, odd, 0x7733) << 7);
    return v;
}

// Sign-mantissa bytes and words of codes of a lane.
template <bool FULL> DEVICE void load_coded(const Pieces& pieces, const u8* rest, const u8* codes, uint2* kept, u32* words) {
    const bool is_live = FULL || lane_id() < pieces.lanes;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const uint2* from = (const uint2*)(rest + pieces.first(j));
        kept[j] = FULL ? __ldcs(from) : is_live ? *from : make_uint2(0, 0);
    }
#pragma unroll
    for (u32 j = 0; j < 3; ++j) {
        const u32* from = (const u32*)(codes + 4 * (j * pieces.lanes + lane_id()));
        words[j] = FULL ? __ldcs(from) : is_live ? *from : 0u;
    }
}

// The values of a tile from what `load_coded` gives, of `count` values. `index` gives how many escapes are before each 512 of them, `windows_at` has
// windows of their own, if there are any, and `list` the escapes. Returns whether something is wrong; by whole warps.
template <bool FULL, class Index>
DEVICE bool join_coded(u32 count, u32 start, u32 escapes, const uint2* kept, const u32* words, const Index& index, const u8* windows_at,
                       const u8* list, uint4* v) {
    const Pieces pieces = Pieces::of(count);
    bool is_wrong = false;
    u32 nibbles[4], escaped[4];
#pragma unroll
    for (u32 j = 0; j < 3; ++j) nibbles[j] = words[j] & 0x77777777u;
    nibbles[3] = (words[0] >> 3 & 0x11111111u) | (words[1] >> 2 & 0x22222222u) | (words[2] >> 1 & 0x44444444u);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        if (!FULL) is_wrong |= (nibbles[j] & ~(live_nibbles(pieces.live(j)) * 15u)) != 0;
        escaped[j] = sevens(nibbles[j]);
    }
    u32 low = __popc(escaped[0]) | __popc(escaped[1]) << 16, high = __popc(escaped[2]) | __popc(escaped[3]) << 16, low_all, high_all;
    low = warp_scan(low, &low_all);
    high = warp_scan(high, &high_all);
    const u32 row1 = low_all & 0xffffu, row2 = row1 + (low_all >> 16), row3 = row2 + (high_all & 0xffffu);
    const u32 rows[4] = {low & 0xffffu, row1 + (low >> 16), row2 + (high & 0xffffu), row3 + (high >> 16)};
    const u32 of_warp = row3 + (high_all >> 16);

    // The index must be what the codes say, at this warp's end as well: then all escapes are where they are looked for.
    const u32 before = pieces.count > 0 ? index(2 * warp_id()) : escapes;
    const bool is_end = count <= (warp_id() + 1) * GROUP;
    if (pieces.count > 0) {
        is_wrong |= before + of_warp != (is_end ? escapes : index(2 * warp_id() + 2)) || before + of_warp > escapes;
        if (warp_id() == 0) is_wrong |= before != 0;
    }
    if (pieces.count > 512) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (lane_id() < pieces.lanes && pieces.first(j) == 512) is_wrong |= index(2 * warp_id() + 1) != before + rows[j];
    }
    const u32 windows = windows_len(start, count);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        u32 first = start;
        if (windows) {
            const u32 part = 2 * warp_id() + (FULL ? j / 2 : pieces.first(j) / 512);
            first = part < windows ? windows_at[part] : 0;
            is_wrong |= first > LAST_START;
        }
        v[j] = join(kept[j], nibbles[j], first);
    }
    if (__any_sync(ALL, is_wrong)) return true;
    if (of_warp) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) patch(v + j, escaped[j], list + before + rows[j]);
    }
    return false;
}

// Lower halves of a lane, from the front of a body.
template <bool FULL> DEVICE void load_lower(const Pieces& pieces, const u8* body, uint4* lower) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 first = warp_id() * GROUP + pieces.first(j);
        if (FULL) {
            lower[j] = __ldcs((const uint4*)(body + 2 * first));
            continue;
        }
        u32 words[4] = {0, 0, 0, 0};
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            if (i < pieces.live(j)) words[i / 2] |= (u32)((const u16*)body)[first + i] << 16 * (i & 1);
        lower[j] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// The values of a tile, as a lane of `encode_tile` has them; a report and any values if something is wrong.
template <class Format, bool FULL>
DEVICE void read_tile(const Frame* frame, u32 tile, u32 count, uint4* v, uint4* lower, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    const u8* fixed = at<const u8>(frame->fixed);
    const u8* body = fixed + front_len<Format>(frame->count) + (u64)tile * Format::static_body(TILE_VALUES);
    const u8* coded = body + Format::LOWER * count;
    u8* stage = (u8*)shared->stage.bytes;
    uint2 kept[4];
    u32 words[3];
    // Loads that depend on nothing come first.
    if (FULL) load_coded<FULL>(pieces, coded + warp_id() * GROUP, coded + count + warp_id() * 384, kept, words);
    if (FULL && Format::LOWER) load_lower<FULL>(pieces, body, lower);
    const u16* entry = (const u16*)(fixed + Format::table_at() + (u64)tile * Format::ENTRY);
    const u32 start = entry[0] & 0xffu, mode = entry[0] >> 8, escapes = entry[1];
    const u64 offset = at<const u64>(frame->tiles_state)[tile];
    const u8* dynamic = at<const u8>(frame->dynamic) + offset;
    const u16* index = (const u16*)(fixed + Format::index_at(frame->count)) + (u64)tile * (TILE_VALUES / 512);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) v[j] = make_uint4(0, 0, 0, 0);
    if (!FULL && Format::LOWER) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) lower[j] = make_uint4(0, 0, 0, 0);
    }
    if (is_refused_beside_loads(frame)) return;

    if (mode == MODE_STORED) {
        // Values of two bytes are put together in the stage, longer ones where they belong.
        u8* whole = Format::LOWER ? at<u8>(frame->values) + (u64)tile * (Format::WIDTH * TILE_VALUES) : stage;
        const u32 in_body = Format::static_body(count);
        copy_bytes(whole, body, in_body);
        copy_bytes(whole + in_body, dynamic, Format::WIDTH * count - in_body);
        if (Format::LOWER) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const Wide wide = load_wide<FULL>(whole, pieces, j);
                v[j] = wide.upper();
                lower[j] = wide.lower();
            }
        } else {
#pragma unroll
            for (u32 j = 0; j < 4; ++j)
                if (FULL || lane_id() < pieces.lanes) v[j] = shared->stage.bytes[(warp_id() * GROUP + pieces.first(j)) / 8];
        }
        if (lane_id() < (pieces.count + 511) / 512 && index[2 * warp_id() + lane_id()] != 0) report(frame, FAULT_CODES);
        return;
    }
    if (!FULL) {
        copy_bytes(stage, coded, count);
        copy_bytes(stage + CODES_AT, coded + count, codes_len(count));
        load_coded<FULL>(pieces, stage + warp_id() * GROUP, stage + CODES_AT + warp_id() * 384, kept, words);
    }
    const auto before = [=](u32 part) { return (u32)index[part]; };
    const u8* list = dynamic + windows_len(start, count);
    if (join_coded<FULL>(count, start, escapes, kept, words, before, dynamic, list, v)) report(frame, FAULT_CODES);
    if (!FULL && Format::LOWER) load_lower<FULL>(pieces, body, lower);
}

// This block's share of the comparisons, from the sums over the values of its lanes.
template <class Format> DEVICE void check_tile(const Frame* frame, u32 tile, u64 sum, DecodeShared* shared) {
    const u32 of_values = fold_tile<Format, CHECKED>(sum, shared->parts);
    if (warp_id() == 0) close_tile<Format>(frame, tile, of_values);
}

template <bool FULL> DEVICE void decode_tile(Bf16, const Frame* frame, u32 tile, u32 count, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    uint4 v[4], none[4];
    read_tile<Bf16, FULL>(frame, tile, count, v, none, shared);
    if (!FULL) keep_live(v, pieces);
    check_tile<Bf16>(frame, tile, mix_values<FULL>(v, pieces, tile), shared);
    u8* values = at<u8>(frame->values) + (u64)tile * (2 * TILE_VALUES);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 first = warp_id() * GROUP + pieces.first(j);
        if (FULL) __stcs((uint4*)(values + 2 * first), v[j]);
        else if (lane_id() < pieces.lanes) shared->stage.bytes[first / 8] = v[j];
    }
    if (FULL) return;
    __syncthreads();
    copy_bytes(values, (const u8*)shared->stage.bytes, 2 * count);
}

// Puts halves together, writes them and returns the sum over the values.
template <bool FULL> DEVICE u64 write_wide(u8* values, const Pieces& pieces, u64 tile, const uint4* v, const uint4* lower) {
    u64 sum = 0;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const Wide wide = Wide::of(v[j], lower[j]);
        store_wide<FULL>(values, pieces, j, wide);
        add_piece(&sum, wide, key_of_piece<F32>(pieces, tile, j), FULL ? 8 : pieces.live(j));
    }
    return sum;
}

template <bool FULL> DEVICE void decode_tile(F32, const Frame* frame, u32 tile, u32 count, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    uint4 v[4], lower[4];
    read_tile<F32, FULL>(frame, tile, count, v, lower, shared);
    if (!FULL) keep_live(v, pieces);
    u8* values = at<u8>(frame->values) + (u64)tile * (4 * TILE_VALUES);
    check_tile<F32>(frame, tile, write_wide<FULL>(values, pieces, tile, v, lower), shared);
}

// Reads the frames of a batch, after `open_frames`. A block of 256 threads per tile.
template <class Format> DEVICE void decode_frames(const Frame* frames, u32 frame_count) {
    __shared__ DecodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    const u32 count = values_of_tile<Format>(frame->count, tile);
    if (count == TILE_VALUES) decode_tile<true>(Format(), frame, tile, count, &shared);
    else decode_tile<false>(Format(), frame, tile, count, &shared);
}
