// The decoder of window7 in the layout compact. Bodies begin at any byte, with a mask if zeros are left out.

#define COMPACT_ENTRY 6u
#define SHORT 0x80u // beside a mode: lower halves are all zero, and left out

struct Compact {
    u32 start, mode, escapes, coded;
    u32 lower; // bytes of a lower half in the body
    DEVICE uint2 bytes_of(const u8* front, u64 tile) { return eight_bytes(front + HEADER_BYTES + COMPACT_ENTRY * tile, COMPACT_ENTRY); }
    template <class Format> DEVICE Compact read(const u8* front, u64 tile) { return of<Format>(bytes_of(front, tile)); }
    template <class Format> DEVICE Compact of(uint2 bytes) {
        Compact entry = {bytes.x & 0xffu, bytes.x >> 8 & 0xffu, bytes.x >> 16, bytes.y & 0xffffu, Format::LOWER};
        if (Format::LOWER && entry.mode & SHORT) {
            entry.mode ^= SHORT;
            entry.lower = 0;
        }
        return entry;
    }
    __device__ __forceinline__ bool is_coded() const { return mode == MODE_CODED || mode == MODE_MASKED; }
    __device__ __forceinline__ u32 windows() const { return windows_len(start, coded); }
    __device__ __forceinline__ u32 index_len() const { return escapes ? 2 * ((coded + 511) / 512 - 1) : 0; }
    template <class Format> __device__ __forceinline__ u32 fault(u32 count) const {
        if (start > LAST_START && start != OWN_WINDOWS) return FAULT_TILE;
        return fault_of_counts(mode, coded, escapes, start | (Format::LOWER - lower), count);
    }
    template <class Format> __device__ __forceinline__ u32 len(u32 count) const {
        const u32 of_values = is_coded() ? (lower + 1) * coded + codes_len(coded) + windows() + index_len() + escapes : 0;
        return mode == MODE_STORED ? Format::WIDTH * count : tile_mask_len(mode, count) + of_values;
    }
};

DEVICE u64 compact_front_end(u64 tiles) { return HEADER_BYTES + COMPACT_ENTRY * tiles; }

// Runs before the decoder: as `open_frames`.
template <class Format> DEVICE void open_compact_frames(const Frame* frames) {
    __shared__ u32 totals[32];
    const Frame* frame = frames + blockIdx.x;
    const u8* front = at<const u8>(frame->fixed);
    const u64 end = compact_front_end(frame->tile_count);
    if (threadIdx.x == 0) open_state<Format, LAYOUT_COMPACT>(frame, front, 0, FAULT_NONE, (end + 7) / 8 - HEADER_BYTES / 8);
    __syncthreads();
    const u64 all = frame->count;
    const auto read = [=](u32 tile) { return Compact::bytes_of(front, tile); };
    place_tiles(frame, end, totals, read, [=](u32 tile, uint2 bytes) {
        const Compact entry = Compact::of<Format>(bytes);
        const u32 count = values_of_tile<Format>(all, tile), fault = entry.fault<Format>(count);
        if (fault) report(frame, fault);
        return fault ? 0u : entry.len<Format>(count);
    });
}

// Where parts of a body are, from the mask on.
struct Parts {
    const u8 *lower, *rest, *codes, *windows, *index, *escapes;
    DEVICE Parts of(const Compact& entry, const u8* lower) {
        const u8* rest = lower + entry.lower * entry.coded;
        const u8* codes = rest + entry.coded;
        const u8* windows = codes + codes_len(entry.coded);
        const u8* index = windows + entry.windows();
        const Parts parts = {lower, rest, codes, windows, index, index + entry.index_len()};
        return parts;
    }
    // Escapes before values `512 * part` on.
    __device__ __forceinline__ u32 before(const Compact& entry, u32 part) const {
        if (part == 0 || entry.escapes == 0) return 0;
        return index[2 * part - 2] | (u32)index[2 * part - 1] << 8;
    }
};

struct CompactShared {
    Stage stage;
    u64 parts[WARPS];
    u32 totals[WARPS];
};

// The coded values of a tile, or their upper halves, as a lane of `encode_tile` has them. Returns whether something is wrong; by whole
// warps.
template <bool FULL> DEVICE bool read_compact(const Compact& entry, const Parts& parts, uint4* v) {
    const Pieces pieces = Pieces::of(entry.coded);
    const u8 *rest = parts.rest + warp_id() * GROUP, *codes = parts.codes + warp_id() * 384;
    uint2 kept[4];
    u32 words[3];
    // Lanes without values read what others do.
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 live = FULL ? 8 : pieces.live(j);
        kept[j] = eight_bytes(live ? rest + pieces.first(j) : parts.rest, live ? live : 1);
    }
#pragma unroll
    for (u32 j = 0; j < 3; ++j) {
        const bool is_live = FULL || lane_id() < pieces.lanes;
        const u32 word = eight_bytes(is_live ? codes + 4 * (j * pieces.lanes + lane_id()) : parts.codes, 4).x;
        words[j] = is_live ? word : 0;
    }
    const auto before = [=](u32 part) { return parts.before(entry, part); };
    return join_coded<FULL>(entry.coded, entry.start, entry.escapes, kept, words, before, parts.windows, parts.escapes, v);
}

// Lower halves of a lane, of a tile of which all values are coded; zeros if they are left out.
DEVICE void read_lower(const Compact& entry, const Parts& parts, const Pieces& pieces, uint4* lower) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) lower[j] = make_uint4(0, 0, 0, 0);
    if (entry.lower == 0) return;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u8* from = parts.lower + 2 * (warp_id() * GROUP + pieces.first(j));
        const uint2 low = eight_bytes(from), high = eight_bytes(from + 8);
        lower[j] = make_uint4(low.x, low.y, high.x, high.y);
    }
}

// Decodes a tile of which all values are coded; returns the sum over the values of a lane.
DEVICE u64 decode_whole(Bf16, const Frame* frame, u32 tile, const Compact& entry, const Parts& parts, const Pieces& pieces, u8* values) {
    uint4 v[4];
    if (read_compact<true>(entry, parts, v)) report(frame, FAULT_CODES);
    else
        for (u32 j = 0; j < 4; ++j) __stcs((uint4*)(values + 2 * (warp_id() * GROUP + pieces.first(j))), v[j]);
    return mix_values<true>(v, pieces, tile);
}
DEVICE u64 decode_whole(F32, const Frame* frame, u32 tile, const Compact& entry, const Parts& parts, const Pieces& pieces, u8* values) {
    uint4 v[4], lower[4];
    read_lower(entry, parts, pieces, lower);
    if (read_compact<true>(entry, parts, v)) report(frame, FAULT_CODES);
    return write_wide<true>(values, pieces, tile, v, lower);
}

// Value `place` of those that are not left out: the stage has it, or of F32 its upper half where it is coded.
DEVICE u16 kept_value(Bf16, const Compact&, const u8*, const u16* stage, u32 place) { return stage[place]; }
DEVICE u32 kept_value(F32, const Compact& entry, const u8* body, const u16* stage, u32 place) {
    if (entry.mode == MODE_STORED) return eight_bytes(body + 4 * place, 4).x;
    const u32 lower = entry.lower ? eight_bytes(body + 2 * place, 2).x & 0xffffu : 0u;
    return (u32)stage[place] << 16 | lower;
}

template <u32 WIDTH> struct ValueOf;
template <> struct ValueOf<2> { typedef u16 Type; };
template <> struct ValueOf<4> { typedef u32 Type; };

// Decodes a tile; the first warp has its part of the checksum. Barriers are inside.
template <class Format> DEVICE u32 decode_compact(const Frame* frame, u32 tile, u32 count, CompactShared* shared) {
    typedef typename ValueOf<Format::WIDTH>::Type Value;
    const u8* front = at<const u8>(frame->fixed);
    const Compact entry = Compact::read<Format>(front, tile);
    const u8* body = front + at<const u64>(frame->tiles_state)[tile];
    u8* values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * TILE_VALUES);
    if (entry.coded == TILE_VALUES) {
        const u64 sum = decode_whole(Format(), frame, tile, entry, Parts::of(entry, body), Pieces::of(TILE_VALUES), values);
        return fold_tile<Format, CHECKED>(sum, shared->parts);
    }
    u32 marked;
    Kept kept = read_marks(body, entry.mode == MODE_MASKED, count, threadIdx.x, warp_id(), shared->totals, &marked);
    bool is_wrong = entry.mode == MODE_MASKED && marked != entry.coded;
    if (entry.mode == MODE_ZERO) kept.bits = 0;
    const u8* coded = body + tile_mask_len(entry.mode, count);
    if (entry.mode == MODE_STORED) {
        if (!Format::LOWER) stage_bytes((u8*)shared->stage.bytes, body, 2 * count, threadIdx.x, THREADS);
    } else if (entry.is_coded() && !is_wrong) {
        const Pieces pieces = Pieces::of(entry.coded);
        uint4 v[4];
        is_wrong = read_compact<false>(entry, Parts::of(entry, coded), v);
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (lane_id() < pieces.lanes) shared->stage.bytes[(warp_id() * GROUP + pieces.first(j)) / 8] = v[j];
    }
    if (__syncthreads_or(is_wrong)) {
        if (is_wrong) report(frame, FAULT_CODES);
        return 0;
    }
    const u32 first = 32 * threadIdx.x, live = first >= count ? 0 : count - first < 32 ? count - first : 32;
    const u64 word = ((u64)tile * TILE_VALUES + first) / 8 * Format::WIDTH;
    const u16* stage = (const u16*)shared->stage.bytes;
    const auto from = [=](u32 place) { return kept_value(Format(), entry, coded, stage, place); };
    return fold_tile<Format, CHECKED>(write_kept(kept, from, (Value*)values + first, live, word), shared->parts);
}

// Reads the frames of a batch, after `open_compact_frames`. A block of 256 threads per tile.
template <class Format> DEVICE void decode_compact_frames(const Frame* frames, u32 frame_count) {
    __shared__ CompactShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 tile = blockIdx.x - frame->first_tile;
    const u32 of_values = decode_compact<Format>(frame, tile, values_of_tile<Format>(frame->count, tile), &shared);
    if (warp_id() == 0) close_compact<Format>(frame, tile, compact_front_end(frame->tile_count), of_values);
}
