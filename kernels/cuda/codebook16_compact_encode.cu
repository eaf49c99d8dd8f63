// The encoder of codebook16 in the layout compact, after `codebook16_book`.
//
// Whether a value of the tiles of a block of threads is +0 is known before they are packed. Where one is, zeros are counted; where they are left out, all
// others go through shared memory to the threads that then have them. A body is put together in shared memory, as it begins at any byte, which
// is known only when all tiles before are packed. What is shorter than its values fits in their place.

template <class Format> struct CompactEncodeShared {
    Stage stage;
    u8 mask[Format::TILES][TILE_VALUES / 8];
    u64 sums[Format::WARPS];
    u32 escapes[Format::WARPS]; // as in `EncodeShared`
    u32 marked[Format::WARPS];  // values that are not +0
    // Plans of tiles, as arrays: a struct that is loaded and then changed under a condition makes the compiler loop for ever.
    u32 modes[Format::TILES], coded[Format::TILES];
    u8 codes[256];              // of exponents, or NO_CODE
    u64 offset;
};

// Mode of a tile of `count` values of which `marked` are not +0: a mask pays if codes and rests of the zeros, and escapes if the book has no
// code for them, take more.
template <class Format> DEVICE u32 plan_tile(u32 count, u32 marked, bool zero_has_code) {
    const u32 bits = 4 + (Format::PLANES ? Format::PLANES : 8) + (zero_has_code ? 0 : 24);
    return marked == 0 ? MODE_ZERO : bits * (count - marked) > count ? MODE_MASKED : MODE_CODED;
}

// The entry of a tile of `count` values that is planned to be so; with the escapes of its warps, stored if it would not be shorter.
template <class Format> DEVICE Compact finish_tile(u32 mode, u32 coded, const u32* escapes_of_warps, u32 count) {
    const Choice choice = choose<Format>(escapes_of_warps, coded);
    const u32 len = tile_mask_len(mode, count) + Format::coded_len(coded) + Format::list_len(choice.form, coded, choice.escapes);
    const bool is_zero = mode == MODE_ZERO, is_stored = !is_zero && len >= Format::WIDTH * count;
    const Compact entry = {is_stored ? MODE_STORED : mode, is_zero || is_stored ? WIDE : choice.form, is_zero || is_stored ? 0 : choice.escapes,
                           is_stored ? 0 : coded};
    return entry;
}

// Leaves out zeros of tiles with a mask: makes the mask, and brings the values that it marks to the threads that then have them. `marked_before` are those
// of the warps before. Barriers are inside.
template <class Format>
DEVICE void squeeze(typename Format::Piece* v, const Seat& seat, bool is_masked, u32 coded, const u32* marks, u32 marked_before, u8* stage, u8* mask) {
    typedef typename Format::Piece Piece;
    typedef typename ValueOf<Format::WIDTH>::Type Value;
    Value* kept = (Value*)stage;
    u32 row = marked_before;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        u32 total;
        u32 place = row + warp_scan(__popc(marks[j]), &total);
        row += total;
        mask[seat.first(j) / 8] = (u8)marks[j];
        if (!is_masked) *(Piece*)(stage + Format::WIDTH * seat.first(j)) = v[j];
#pragma unroll 1
        for (u32 left = is_masked ? marks[j] : 0; left; left &= left - 1) {
            const u32 i = (u32)__ffs((int)left) - 1;
            kept[place++] = (Value)(word_with(v[j], i) >> 8 * Format::WIDTH * (i & (4 / Format::WIDTH - 1)));
        }
    }
    __syncthreads();
    Seat of_kept = seat;
    of_kept.count = coded;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) v[j] = *(const Piece*)(stage + Format::WIDTH * seat.first(j));
    keep_all_live(v, of_kept);
    __syncthreads();
}

// Where parts of a tile are in its stage: rests in front, then codes in whole words, then escapes.
template <class Format> DEVICE u32 staged_codes(u32 coded) { return (Format::rest_len(coded) + 7) / 8 * 8; }
template <class Format> DEVICE u32 staged_list(u32 coded) { return staged_codes<Format>(coded) + (coded + 7) / 8 * 4; }

// Writes rests and codes of a thread to the stage of its tile; `seat` has the coded values.
template <class Format, bool FULL> DEVICE void stage_coded(const typename Format::Piece* v, const Seat& seat, const Packed& packed, u8* stage) {
    u8* codes = stage + (FULL ? Format::FULL_REST : staged_codes<Format>(seat.count));
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        // A row of planes is that of 64 values, of which the last ones may be absent.
        if (FULL || seat.first(j) < (Format::PLANES ? (seat.count + 63) / 64 * 64 : seat.count)) store_rest<Format, false>(v[j], seat.first(j), stage);
        if (FULL || seat.live(j)) *(u32*)(codes + seat.first(j) / 2) = packed.codes[j];
    }
}

// Copies a coded body from the stage of its tile to its place.
template <class Format, bool FULL> DEVICE void write_body(u8* body, const Compact& entry, u32 count, const Seat& seat, const u8* stage, const u8* mask) {
    const u32 of_list = Format::list_len(entry.form, entry.coded, entry.escapes);
    if (FULL) {
        copy_anywhere<Format::FULL_CODED / (4 * TILE_THREADS)>(body, stage, Format::FULL_CODED, seat.thread, TILE_THREADS);
        copy_anywhere(body + Format::FULL_CODED, stage + Format::FULL_CODED, of_list, seat.thread, TILE_THREADS);
        return;
    }
    const u32 rest = Format::rest_len(entry.coded), codes = (entry.coded + 1) / 2;
    if (entry.mode == MODE_MASKED) copy_anywhere(body, mask, (count + 7) / 8, seat.thread, TILE_THREADS);
    body += tile_mask_len(entry.mode, count);
    copy_anywhere(body, stage, rest, seat.thread, TILE_THREADS);
    copy_anywhere(body + rest, stage + staged_codes<Format>(entry.coded), codes, seat.thread, TILE_THREADS);
    copy_anywhere(body + rest + codes, stage + staged_list<Format>(entry.coded), of_list, seat.thread, TILE_THREADS);
}

// Codes the tiles of a block of threads, and writes them to the frame. `v` are the values that `shared` says are coded; FULL if those are all, of all tiles.
// Barriers are inside.
template <class Format, bool FULL>
DEVICE void code_tiles(const Frame* frame, u32 block, const Seat& seat, const uint4& book, const typename Format::Piece* v, CompactEncodeShared<Format>* shared) {
    u8* front = at<u8>(frame->fixed);
    u8* stage = (u8*)shared->stage.bytes + seat.tile * (Format::WIDTH * TILE_VALUES);
    Seat coded = seat;
    if (!FULL) coded.count = shared->coded[seat.tile];
    Packed packed = {};
    if (!FULL || Format::CODED) {
        const u32 first = book.x & 0xffu;
        if (Format::CODED && (book.w >> 24) - first == BOOK_LEN - 1) {
            pack<Format, FULL, true>(v, coded, first, shared->codes, &packed);
        } else {
            if (threadIdx.x < 256) shared->codes[threadIdx.x] = NO_CODE;
            __syncthreads();
            if (threadIdx.x < BOOK_LEN) shared->codes[front[BOOK_AT + threadIdx.x]] = (u8)threadIdx.x;
            __syncthreads();
            pack<Format, FULL, false>(v, coded, first, shared->codes, &packed);
        }
        count_escapes(&packed);
    }
    if (lane_id() == 0) {
        u32 escapes = 0;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) escapes = (escapes + row_total(packed, j)) | (row_total(packed, j) == CHUNK ? ROW_IS_FULL : 0);
        shared->escapes[warp_id()] = escapes;
    }
    __syncthreads();
    const u32 block_values = values_of_tile<Format>(frame->count, block);
    const u32* escapes = shared->escapes + seat.tile * TILE_WARPS;
    const Compact entry = finish_tile<Format>(FULL ? MODE_CODED : shared->modes[seat.tile], coded.count, escapes, seat.count);
    const u32 length = entry.len<Format>(seat.count);
    u32 before_tile = 0, of_block = length;
    if (Format::TILES == 2) {
        const u32 other = seat.tile ^ 1, count = Format::values_of(block_values, other);
        const u32 mode = FULL ? MODE_CODED : shared->modes[other], of_other_tile = FULL ? count : shared->coded[other];
        const Compact of_tile = finish_tile<Format>(mode, of_other_tile, shared->escapes + other * TILE_WARPS, count);
        const u32 of_other = of_tile.len<Format>(count);
        before_tile = seat.tile ? of_other : 0;
        of_block += of_other;
    }
    // Others wait for the length, so it comes first; the body is put together while theirs come.
    if (threadIdx.x == 0) publish_length(at<u64>(frame->tiles_state), block, of_block);
    if (entry.is_coded()) {
        const Choice choice = {entry.escapes, entry.form, 0, false};
        u8* list = stage + (FULL ? Format::FULL_CODED : staged_list<Format>(entry.coded));
        if (entry.escapes) write_list<Format>(v, coded, packed, choice, escapes, list);
        stage_coded<Format, FULL>(v, coded, packed, stage);
    } else if (FULL && !Format::CODED) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) *(typename Format::Piece*)(stage + Format::WIDTH * seat.first(j)) = v[j];
    }
    __syncwarp();
    if (warp_id() == 0) {
        const u64 offset = compact_front_end(frame->count) + sum_before(at<u64>(frame->tiles_state), block, of_block);
        if (lane_id() == 0) {
            shared->offset = offset;
            if (block == frame->tile_count - 1) *at<u64>(frame->size) = offset + of_block;
        }
    }
    const u64 tile = (u64)block * Format::TILES + seat.tile;
    if (seat.warp == 0 && seat.count)
        write_entry(front + TABLE_AT + ENTRY_LEN * tile, entry.mode | entry.form << 8 | entry.escapes << 16, entry.coded);
    __syncthreads();
    u8* body = front + shared->offset + before_tile;
    if (entry.is_coded()) {
        write_body<Format, FULL>(body, entry, seat.count, seat, stage, shared->mask[seat.tile]);
    } else if (FULL && !Format::CODED) {
        copy_anywhere<Format::WIDTH * TILE_VALUES / (4 * TILE_THREADS)>(body, stage, Format::WIDTH * TILE_VALUES, seat.thread, TILE_THREADS);
    } else if (entry.mode == MODE_STORED) {
        copy_anywhere(body, at<const u8>(frame->values) + tile * (Format::WIDTH * TILE_VALUES), length, seat.thread, TILE_THREADS);
    }
}

template <class Format> DEVICE void encode_compact(const Frame* frame, u32 block, u32 count, CompactEncodeShared<Format>* shared) {
    typedef typename Format::Piece Piece;
    const Seat seat = Seat::of<Format>(count);
    const u32 tile_bytes = Format::WIDTH * TILE_VALUES;
    const u8* front = at<const u8>(frame->fixed);
    const u8* values = at<const u8>(frame->values) + ((u64)block * Format::TILES + seat.tile) * tile_bytes;
    u8* stage = (u8*)shared->stage.bytes + seat.tile * tile_bytes;
    const bool is_whole = count == Format::TILE;
    Piece v[4];
    u64 sum;
    if (is_whole) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) v[j] = __ldcs((const Piece*)(values + Format::WIDTH * seat.first(j)));
        sum = mix_values<Format, true>(v, seat, block);
    } else {
#pragma unroll 1
        for (u32 i = seat.thread; i < tile_bytes; i += TILE_THREADS) stage[i] = i < Format::WIDTH * seat.count ? values[i] : 0;
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < 4; ++j) v[j] = *(const Piece*)(stage + Format::WIDTH * seat.first(j));
        sum = mix_values<Format, false>(v, seat, block);
    }
    sum = warp_sum(sum);
    if (lane_id() == 0) shared->sums[warp_id()] = sum;
    const uint2 low = eight_bytes(front + BOOK_AT), high = eight_bytes(front + BOOK_AT + 8);
    const uint4 book = make_uint4(low.x, low.y, high.x, high.y);
    const bool has_zeros = __syncthreads_or(!is_whole || has_zero(v[0]) || has_zero(v[1]) || has_zero(v[2]) || has_zero(v[3]));
    add_sums<Format>(state_of(frame), shared->sums);
    bool is_full = true;
    if (has_zeros) {
        u32 marks[4], of_thread = 0;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            marks[j] = marks_of(v[j]);
            of_thread += __popc(marks[j]);
        }
        const u32 of_warp = __reduce_add_sync(ALL, of_thread);
        if (lane_id() == 0) shared->marked[warp_id()] = of_warp;
        __syncthreads();
        const u32 of_lane = lane_id() < TILE_WARPS ? shared->marked[seat.tile * TILE_WARPS + lane_id()] : 0;
        const u32 before = __reduce_add_sync(ALL, lane_id() < seat.warp ? of_lane : 0);
        // The lowest exponent of the book has the code 0.
        const u32 marked = __reduce_add_sync(ALL, of_lane), mode = plan_tile<Format>(seat.count, marked, (book.x & 0xffu) == 0);
        const u32 coded = mode == MODE_CODED ? seat.count : marked;
        if (seat.thread == 0) {
            shared->modes[seat.tile] = mode;
            shared->coded[seat.tile] = coded;
        }
        if (__syncthreads_or(mode == MODE_MASKED)) squeeze<Format>(v, seat, mode == MODE_MASKED, coded, marks, before, stage, shared->mask[seat.tile]);
        is_full = __syncthreads_and(coded == TILE_VALUES);
    }
    if (is_full) {
        code_tiles<Format, true>(frame, block, seat, book, v, shared);
    } else {
        code_tiles<Format, false>(frame, block, seat, book, v, shared);
    }
}

// Writes the frames of a batch, but for what `codebook16_seal_compact` adds. A block of threads per 16 KiB of values.
template <class Type> DEVICE void encode_compact_frames(const Frame* frames, u32 frame_count) {
    typedef Codebook16<Type> Format;
    __shared__ CompactEncodeShared<Format> shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 block = own_number() - frame->first_tile;
    encode_compact<Format>(frame, block, values_of_tile<Format>(frame->count, block), &shared);
}

template <class Type> DEVICE void seal_compact_frames(const Frame* frames) {
    const Frame* frame = frames + blockIdx.y;
    seal_compact<Codebook16<Type>>(frame, compact_front_end(frame->count));
}

extern "C" __global__ void __launch_bounds__(512 / Dtype::WIDTH, 2 * Dtype::WIDTH)
codebook16_encode_compact_dtype(const Frame* frames, u32 frame_count) { encode_compact_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_compact_dtype(const Frame* frames) { seal_compact_frames<Dtype>(frames); }
