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
    const u32 windows = Window7::windows(start, count);
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

// The values of a tile, as a lane of `encode_tile` has them; a report and any values if something is wrong.
template <bool FULL> DEVICE void read_tile(const Frame* frame, u32 tile, u32 count, uint4* v, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    const u8* fixed = at<const u8>(frame->fixed);
    const u8* body = fixed + front_len<Window7>(frame->count) + (u64)tile * Window7::static_body(Window7::TILE);
    u8* stage = (u8*)shared->stage.bytes;
    uint2 kept[4];
    u32 words[3];
    // Loads that depend on nothing come first.
    if (FULL) load_coded<FULL>(pieces, body + warp_id() * GROUP, body + count + warp_id() * 384, kept, words);
    const u16* entry = (const u16*)(fixed + Window7::table_at() + (u64)tile * Window7::ENTRY);
    const u32 start = entry[0] & 0xffu, mode = entry[0] >> 8, escapes = entry[1];
    const u64 offset = at<const u64>(frame->tiles_state)[tile];
    const u8* dynamic = at<const u8>(frame->dynamic) + offset;
    const u16* index = (const u16*)(fixed + Window7::index_at(frame->count)) + (u64)tile * (Window7::TILE / 512);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) v[j] = make_uint4(0, 0, 0, 0);
    if (is_refused_beside_loads(frame)) return;

    if (mode == MODE_STORED) {
        const u32 in_body = Window7::static_body(count);
        copy_bytes(stage, body, in_body);
        copy_bytes(stage + in_body, dynamic, 2 * count - in_body);
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (FULL || lane_id() < pieces.lanes) v[j] = shared->stage.bytes[(warp_id() * GROUP + pieces.first(j)) / 8];
        if (lane_id() < (pieces.count + 511) / 512 && index[2 * warp_id() + lane_id()] != 0) report(frame, FAULT_CODES);
        return;
    }
    if (!FULL) {
        copy_bytes(stage, body, count);
        copy_bytes(stage + CODES_AT, body + count, codes_len(count));
        load_coded<FULL>(pieces, stage + warp_id() * GROUP, stage + CODES_AT + warp_id() * 384, kept, words);
    }
    const auto before = [=](u32 part) { return (u32)index[part]; };
    const u8* list = dynamic + Window7::windows(start, count);
    if (join_coded<FULL>(count, start, escapes, kept, words, before, dynamic, list, v)) report(frame, FAULT_CODES);
}

// As `read_tile`, without what is absent, and with this block's share of the comparisons.
template <bool FULL> DEVICE void take_tile(const Frame* frame, u32 tile, u32 count, uint4* v, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    read_tile<FULL>(frame, tile, count, v, shared);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        if (FULL) continue;
        const u32 live = pieces.live(j);
        v[j].x = live_pair(v[j].x, 0, live);
        v[j].y = live_pair(v[j].y, 1, live);
        v[j].z = live_pair(v[j].z, 2, live);
        v[j].w = live_pair(v[j].w, 3, live);
    }
    const u64 sum = block_sum(mix_values<FULL>(v, pieces, tile), shared->parts);
    if (warp_id() == 0) close_tile<Window7>(frame, tile, fold(sum));
}

template <bool FULL> DEVICE void decode_tile(const Frame* frame, u32 tile, u32 count, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    uint4 v[4];
    take_tile<FULL>(frame, tile, count, v, shared);
    u8* values = at<u8>(frame->values) + (u64)tile * (2 * Window7::TILE);
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

extern "C" __global__ void __launch_bounds__(1024) window7_open_bf16(const Frame* frames) { open_frames<Window7>(frames); }

// Reads the frames of a batch, after `window7_open`. A block of 256 threads per tile.
extern "C" __global__ void __launch_bounds__(256, 4) window7_decode_bf16(const Frame* frames, u32 frame_count) {
    __shared__ DecodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    const u32 count = values_of_tile<Window7>(frame->count, tile);
    if (count == Window7::TILE) decode_tile<true>(frame, tile, count, &shared);
    else decode_tile<false>(frame, tile, count, &shared);
}
