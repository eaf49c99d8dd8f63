// The encoder of window7 in the layout compact.
//
// A whole tile is packed by the window that another one chose, as in `split`. The escapes, which are counted there to prove this window the best, say
// as well whether there is a value +0: its exponent is 0, and so outside of every window but the first. Only where there is one, zeros
// are counted. Where they are left out, all others go through shared memory to the threads that they then belong to, and are coded as a tile that is not whole.
//
// A body is put together in shared memory, part by part, since it begins at any byte, which is known only when all tiles before are packed.
// Lower halves of F32 stay in registers until then, and are left out if all of them are zero.

struct CompactEncodeShared {
    EncodeShared tile;
    u8 mask[TILE_VALUES / 8];
    u16 index[16];       // escapes before each 512 coded values
    u32 marked[WARPS];   // values that are not +0, by warp
};

// Which values of a lane are not +0: a byte for each piece.
DEVICE u32 mark_values(const uint4* v) { return marks_of(v[0]) | marks_of(v[1]) << 8 | marks_of(v[2]) << 16 | marks_of(v[3]) << 24; }

// Brings values, or halves of them, to the threads that have them in a tile of `coded` ones: those that are marked, of which `rows` are before
// each piece. Barriers are inside.
DEVICE void bring(uint4* v, const u32* rows, u32 marks, u32 coded, Stage* stage) {
    u16* kept = (u16*)stage->bytes;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 place = rows[j];
#pragma unroll 1
        for (u32 left = marks >> 8 * j & 0xffu; left; left &= left - 1) {
            const u32 i = (u32)__ffs((int)left) - 1;
            const u32 low = i & 2 ? words[1] : words[0], high = i & 2 ? words[3] : words[2];
            kept[place++] = (u16)((i & 4 ? high : low) >> 16 * (i & 1));
        }
    }
    // What is behind the last value, in pieces of which a lane has four.
    if (threadIdx.x < 32 && coded + threadIdx.x < TILE_VALUES) kept[coded + threadIdx.x] = 0;
    __syncthreads();
    const Pieces of_kept = Pieces::of(coded);
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
        v[j] = lane_id() < of_kept.lanes ? stage->bytes[(warp_id() * GROUP + of_kept.first(j)) / 8] : make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// Leaves out zeros: makes the mask, and brings the values that it marks to the threads that have them in a tile of `coded` values.
// Barriers are inside.
template <class Format> DEVICE void squeeze(uint4* v, uint4* lower, const Pieces& pieces, u32 marks, u32 coded, CompactEncodeShared* shared) {
    // Two rows in a register: a row has 256 values at most.
    u32 low = __popc(marks & 0xffu) | __popc(marks >> 8 & 0xffu) << 16, high = __popc(marks >> 16 & 0xffu) | __popc(marks >> 24) << 16, low_all, high_all;
    low = warp_scan(low, &low_all);
    high = warp_scan(high, &high_all);
    const u32 of_warp = lane_id() < warp_id() ? shared->marked[lane_id()] : 0;
    const u32 row0 = __reduce_add_sync(ALL, of_warp), row1 = row0 + (low_all & 0xffffu), row2 = row1 + (low_all >> 16), row3 = row2 + (high_all & 0xffffu);
    const u32 rows[4] = {row0 + (low & 0xffffu), row1 + (low >> 16), row2 + (high & 0xffffu), row3 + (high >> 16)};
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
        if (lane_id() < pieces.lanes) shared->mask[warp_id() * (GROUP / 8) + pieces.first(j) / 8] = (u8)(marks >> 8 * j);
    bring(v, rows, marks, coded, &shared->tile.stage);
    if constexpr (Format::LOWER != 0) bring(lower, rows, marks, coded, &shared->tile.stage);
}

// Writes what coded values have in front of the body's place in the frame: rests, codes, index, to shared memory.
template <bool FULL> DEVICE void stage_coded(const uint4* v, u32 coded, const Packed& packed, CompactEncodeShared* shared) {
    const Pieces pieces = Pieces::of(coded);
    u8* stage = (u8*)shared->tile.stage.bytes;
    store_coded<FULL, false>(v, pieces, packed, stage + warp_id() * GROUP, stage + CODES_AT + warp_id() * 384);
    if (lane_id() == 0) shared->index[2 * warp_id()] = (u16)packed.before;
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
        if (lane_id() < pieces.lanes && pieces.first(j) == 512) shared->index[2 * warp_id() + 1] = (u16)(packed.before + packed.rows[j]);
}

// Copies lower halves to their place in a body, by shared memory. Barriers are inside.
DEVICE void write_lower(u8* to, const uint4* lower, u32 coded, Stage* stage) {
    const Pieces pieces = Pieces::of(coded);
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
        if (lane_id() < pieces.lanes) stage->bytes[(warp_id() * GROUP + pieces.first(j)) / 8] = lower[j];
    __syncthreads();
    copy_anywhere(to, (const u8*)stage->bytes, 2 * coded, threadIdx.x, THREADS);
    __syncthreads();
}

// Copies a coded body from shared memory to its place, but for lower halves.
template <class Format> DEVICE void write_body(u8* body, const Compact& entry, u32 count, const CompactEncodeShared* shared) {
    const u8* stage = (const u8*)shared->tile.stage.bytes;
    const u32 codes = codes_len(entry.coded), own = entry.windows(), of_index = entry.index_len(), of_lower = Format::LOWER ? entry.lower * entry.coded : 0;
    if (entry.coded == TILE_VALUES) {
        body += of_lower;
        copy_anywhere<(CODES_AT + 8 * 384) / (4 * THREADS)>(body, stage, CODES_AT + 8 * 384, threadIdx.x, THREADS);
        body += CODES_AT + 8 * 384;
    } else {
        if (entry.mode == MODE_MASKED) copy_anywhere(body, shared->mask, (count + 7) / 8, threadIdx.x, THREADS);
        body += tile_mask_len(entry.mode, count) + of_lower;
        copy_anywhere(body, stage, entry.coded, threadIdx.x, THREADS);
        copy_anywhere(body + entry.coded, stage + CODES_AT, codes, threadIdx.x, THREADS);
        body += entry.coded + codes;
    }
    if (threadIdx.x < own) body[threadIdx.x] = shared->tile.starts[threadIdx.x];
    if (threadIdx.x < of_index) body[own + threadIdx.x] = ((const u8*)shared->index)[2 + threadIdx.x];
    copy_anywhere(body + own + of_index, shared->tile.list, entry.escapes, threadIdx.x, THREADS);
}

// Loads the values of a tile, of F32 both halves; what is not there is zero. Returns the sum over them.
template <class Format, bool FULL>
DEVICE u64 take_halves(const u8* values, u32 count, const Pieces& pieces, u64 tile, uint4* v, uint4* lower, Stage* stage) {
    if constexpr (Format::LOWER == 0) {
        return take_values<Format, FULL>(values, nullptr, false, count, pieces, tile, v, stage);
    } else {
        u64 sum = 0;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            const Wide wide = load_wide<FULL>(values, pieces, j);
            v[j] = wide.upper();
            lower[j] = wide.lower();
            add_piece(&sum, wide, key_of_piece<Format>(pieces, tile, j), FULL ? 8 : pieces.live(j));
        }
        return sum;
    }
}

template <class Format> DEVICE void encode_compact(const Frame* frame, u32 tile, u32 count, CompactEncodeShared* shared) {
    EncodeShared* of_tile = &shared->tile;
    State* state = state_of(frame);
    const Pieces pieces = Pieces::of(count);
    const u8* values = at<const u8>(frame->values) + (u64)tile * (Format::WIDTH * TILE_VALUES);
    const bool is_whole = count == TILE_VALUES;
    uint4 v[4], lower[Format::LOWER ? 4 : 1];
    const u64 sum = is_whole ? take_halves<Format, true>(values, count, pieces, tile, v, lower, &of_tile->stage)
                             : take_halves<Format, false>(values, count, pieces, tile, v, lower, &of_tile->stage);
    take_hint(state, of_tile);
    const u32 of_values = fold_tile<Format>(sum, of_tile->parts);
    if (threadIdx.x == 0) atomicAdd(&state->values, of_values);

    Packed packed = {};
    u32 escapes = 0;
    const u32 hint = of_tile->start;
    bool is_known = false, has_zeros = true;
    if (is_whole && hint != OWN_WINDOWS) {
        pack<true>(v, pieces, of_tile->starts, &packed);
        count_edges<true>(pieces, packed, of_tile);
        escapes = collect<true>(v, pieces, &packed, of_tile);
        judge(hint, count, escapes, of_tile);
        is_known = of_tile->verdict == BEST && OUTSIDE * escapes <= count;
        has_zeros = hint == 0 || of_tile->counts[3] != 0;
    }
    Compact entry = {0, MODE_CODED, 0, count, Format::LOWER};
    if (has_zeros) {
        u32 marks = mark_values(v);
        if constexpr (Format::LOWER != 0) marks |= mark_values(lower);
        const u32 of_warp = __reduce_add_sync(ALL, __popc(marks));
        if (lane_id() == 0) shared->marked[warp_id()] = of_warp;
        __syncthreads();
        const u32 marked = __reduce_add_sync(ALL, lane_id() < WARPS ? shared->marked[lane_id()] : 0);
        if (marked == 0) {
            entry.mode = MODE_ZERO;
            entry.coded = 0;
        } else if ((8 * Format::WIDTH + 3) * (count - marked) > count) {
            entry.mode = MODE_MASKED;
            entry.coded = marked;
            is_known = false;
            squeeze<Format>(v, lower, pieces, marks, marked, shared);
        }
    }
    if (entry.coded == TILE_VALUES) {
        if (!is_known) escapes = choose_window<true>(state, v, Pieces::of(entry.coded), entry.coded, of_tile, &packed);
    } else if (entry.coded) {
        escapes = choose_window<false>(state, v, Pieces::of(entry.coded), entry.coded, of_tile, &packed);
    }
    if (entry.coded) {
        entry.start = of_tile->start;
        entry.escapes = escapes;
        if constexpr (Format::LOWER != 0) {
            u32 some = 0;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) some |= lower[j].x | lower[j].y | lower[j].z | lower[j].w;
            if (!__syncthreads_or(some != 0)) entry.lower = 0;
        }
        if (entry.len<Format>(count) >= Format::WIDTH * count) entry = Compact{0, MODE_STORED, 0, 0, Format::LOWER};
    }
    const u32 length = entry.len<Format>(count);
    u8* front = at<u8>(frame->fixed);
    const u64 front_end = compact_front_end(frame->tile_count);
    if (warp_id() == 0) {
        const u64 offset = front_end + look_back(at<u64>(frame->tiles_state), tile, length);
        if (lane_id() == 0) {
            of_tile->offset = offset;
            if (tile == frame->tile_count - 1) *at<u64>(frame->size) = offset + length;
        }
        const u32 mode = Format::LOWER && entry.lower == 0 ? entry.mode | SHORT : entry.mode;
        write_entry(front + HEADER_BYTES + COMPACT_ENTRY * (u64)tile, entry.start | mode << 8 | entry.escapes << 16, entry.coded);
    }
    if constexpr (Format::LOWER != 0) {
        // The place is known to the first warp only.
        __syncthreads();
        u8* to = front + of_tile->offset + tile_mask_len(entry.mode, count);
        if (entry.coded && entry.lower) write_lower(to, lower, entry.coded, &of_tile->stage);
    }
    if (entry.coded == TILE_VALUES) {
        stage_coded<true>(v, entry.coded, packed, shared);
    } else if (entry.coded) {
        stage_coded<false>(v, entry.coded, packed, shared);
    }
    __syncthreads();
    u8* body = front + of_tile->offset;
    if (entry.coded) write_body<Format>(body, entry, count, shared);
    else if (entry.mode == MODE_STORED) copy_anywhere(body, values, length, threadIdx.x, THREADS);
}

// Writes the frames of a batch, but for what `seal_compact_frames` adds. A block of 256 threads per tile.
template <class Format> DEVICE void encode_compact_frames(const Frame* frames, u32 frame_count) {
    __shared__ CompactEncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 tile = own_number() - frame->first_tile;
    encode_compact<Format>(frame, tile, values_of_tile<Format>(frame->count, tile), &shared);
}

template <class Format> DEVICE void seal_compact_frames(const Frame* frames) {
    const Frame* frame = frames + blockIdx.y;
    seal_compact<Format>(frame, compact_front_end(frame->tile_count));
}

extern "C" __global__ void __launch_bounds__(256, Dtype::WIDTH == 2 ? 3 : 2)
window7_encode_compact_dtype(const Frame* frames, u32 frame_count) { encode_compact_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) window7_seal_compact_dtype(const Frame* frames) { seal_compact_frames<Dtype>(frames); }
