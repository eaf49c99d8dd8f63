// The decoder of window7 in the layout compact. Bodies begin at any byte, with a mask if zeros are left out.

#define COMPACT_ENTRY 6u

struct Compact {
    u32 start, mode, escapes, coded;
    DEVICE Compact read(const u8* front, u64 tile) {
        const uint2 bytes = eight_bytes(front + HEADER_BYTES + COMPACT_ENTRY * tile, COMPACT_ENTRY);
        const Compact entry = {bytes.x & 0xffu, bytes.x >> 8 & 0xffu, bytes.x >> 16, bytes.y & 0xffffu};
        return entry;
    }
    __device__ __forceinline__ bool is_coded() const { return mode == MODE_CODED || mode == MODE_MASKED; }
    __device__ __forceinline__ u32 windows() const { return Window7::windows(start, coded); }
    __device__ __forceinline__ u32 index_len() const { return escapes ? 2 * ((coded + 511) / 512 - 1) : 0; }
    __device__ __forceinline__ u32 fault(u32 count) const {
        if (start > LAST_START && start != OWN_WINDOWS) return FAULT_TILE;
        return fault_of_counts(mode, coded, escapes, start, count);
    }
    __device__ __forceinline__ u32 len(u32 count) const {
        const u32 of_values = is_coded() ? coded + codes_len(coded) + windows() + index_len() + escapes : 0;
        return mode == MODE_STORED ? 2 * count : tile_mask_len(mode, count) + of_values;
    }
};

DEVICE u64 compact_front_end(u64 tiles) { return HEADER_BYTES + COMPACT_ENTRY * tiles; }

// Runs before the decoder: as `open_frames`.
extern "C" __global__ void __launch_bounds__(1024) window7_open_compact_bf16(const Frame* frames) {
    __shared__ u32 totals[32];
    const Frame* frame = frames + blockIdx.x;
    const u8* front = at<const u8>(frame->fixed);
    const u64 end = compact_front_end(frame->tile_count);
    if (threadIdx.x == 0) open_state<Window7, LAYOUT_COMPACT>(frame, front, 0, FAULT_NONE, (end + 7) / 8 - HEADER_BYTES / 8);
    __syncthreads();
    place_tiles(frame, end, totals, [=](u32 tile) {
        const Compact entry = Compact::read(front, tile);
        const u32 count = values_of_tile<Window7>(frame->count, tile), fault = entry.fault(count);
        if (fault) report(frame, fault);
        return fault ? 0u : entry.len(count);
    });
}

// Where parts of a body are, from the mask on.
struct Parts {
    const u8 *rest, *codes, *windows, *index, *escapes;
    DEVICE Parts of(const Compact& entry, const u8* rest) {
        const u8* codes = rest + entry.coded;
        const u8* windows = codes + codes_len(entry.coded);
        const u8* index = windows + entry.windows();
        const Parts parts = {rest, codes, windows, index, index + entry.index_len()};
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

// The coded values of a tile, as a lane of `encode_tile` has them. Returns whether something is wrong; by whole warps.
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

// Decodes a tile; the first warp has the sum over its values. Barriers are inside.
DEVICE u64 decode_compact(const Frame* frame, u32 tile, u32 count, CompactShared* shared) {
    const u8* front = at<const u8>(frame->fixed);
    const Compact entry = Compact::read(front, tile);
    const u8* body = front + at<const u64>(frame->tiles_state)[tile];
    u8* values = at<u8>(frame->values) + (u64)tile * (2 * Window7::TILE);
    uint4 v[4];
    if (entry.coded == Window7::TILE) {
        const Pieces pieces = Pieces::of(count);
        if (read_compact<true>(entry, Parts::of(entry, body), v)) report(frame, FAULT_CODES);
        else
            for (u32 j = 0; j < 4; ++j) __stcs((uint4*)(values + 2 * (warp_id() * GROUP + pieces.first(j))), v[j]);
        return block_sum(mix_values<true>(v, pieces, tile), shared->parts);
    }
    u32 marked;
    Kept kept = read_marks(body, entry.mode == MODE_MASKED, count, threadIdx.x, warp_id(), shared->totals, &marked);
    bool is_wrong = entry.mode == MODE_MASKED && marked != entry.coded;
    if (entry.mode == MODE_ZERO) kept.bits = 0;
    if (entry.mode == MODE_STORED) {
        stage_bytes((u8*)shared->stage.bytes, body, 2 * count, threadIdx.x, THREADS);
    } else if (entry.is_coded() && !is_wrong) {
        const Pieces pieces = Pieces::of(entry.coded);
        is_wrong = read_compact<false>(entry, Parts::of(entry, body + tile_mask_len(entry.mode, count)), v);
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (lane_id() < pieces.lanes) shared->stage.bytes[(warp_id() * GROUP + pieces.first(j)) / 8] = v[j];
    }
    if (__syncthreads_or(is_wrong)) {
        if (is_wrong) report(frame, FAULT_CODES);
        return 0;
    }
    const u32 first = 32 * threadIdx.x, live = first >= count ? 0 : count - first < 32 ? count - first : 32;
    const u64 word = (u64)tile * (Window7::TILE / 4) + 8 * threadIdx.x;
    return block_sum(write_kept(kept, (const u16*)shared->stage.bytes, (u16*)values + first, live, word), shared->parts);
}

// Reads the frames of a batch, after `window7_open_compact`. A block of 256 threads per tile.
extern "C" __global__ void __launch_bounds__(256, 4) window7_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    __shared__ CompactShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 tile = blockIdx.x - frame->first_tile;
    const u64 sum = decode_compact(frame, tile, values_of_tile<Window7>(frame->count, tile), &shared);
    if (warp_id() == 0) close_compact<Window7>(frame, tile, compact_front_end(frame->tile_count), fold(sum));
}
