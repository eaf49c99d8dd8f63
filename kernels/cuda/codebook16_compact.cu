// The decoder of codebook16 in the layout compact. Bodies begin at any byte, with a mask if zeros are left out.

// Entry of a tile; `form` is that of its escapes.
struct Compact {
    u32 mode, form, escapes, coded;
    DEVICE uint2 bytes_of(const u8* front, u64 tile) { return eight_bytes(front + TABLE_AT + ENTRY_LEN * tile, ENTRY_LEN); }
    DEVICE Compact read(const u8* front, u64 tile) { return of(bytes_of(front, tile)); }
    DEVICE Compact of(uint2 bytes) {
        const Compact entry = {bytes.x & 0xffu, bytes.x >> 8 & 0xffu, bytes.x >> 16, bytes.y & 0xffffu};
        return entry;
    }
    __device__ __forceinline__ bool is_coded() const { return mode == MODE_CODED || mode == MODE_MASKED; }
    __device__ __forceinline__ u32 fault(u32 count) const {
        if (form > NARROW || (form == NARROW && escapes == 0)) return FAULT_TILE;
        return fault_of_counts(mode, coded, escapes, form, count);
    }
    template <class Format> __device__ __forceinline__ u32 len(u32 count) const {
        const u32 of_values = is_coded() ? Format::coded_len(coded) + Format::list_len(form, coded, escapes) : 0;
        return mode == MODE_STORED ? Format::WIDTH * count : tile_mask_len(mode, count) + of_values;
    }
};

DEVICE u64 compact_front_end(u64 count) { return TABLE_AT + ENTRY_LEN * ((count + TILE_VALUES - 1) / TILE_VALUES); }

// Runs before the decoder: as `open_frames`, and `open_books`. A block of 1024 threads per frame.
template <class Type> DEVICE void open_compact_frames(const Frame* frames) {
    typedef Codebook16<Type> Format;
    __shared__ u32 totals[32];
    const Frame* frame = frames + blockIdx.x;
    const u8* front = at<const u8>(frame->fixed);
    const u64 end = compact_front_end(frame->count);
    if (threadIdx.x == 0) {
        const u8* book = front + BOOK_AT;
        bool is_right = book[BOOK_LEN - 1] < Type::EXPONENTS;
        for (u32 i = 1; i < BOOK_LEN; ++i) is_right &= book[i - 1] < book[i];
        open_state<Format, LAYOUT_COMPACT>(frame, front, 0, is_right ? FAULT_NONE : FAULT_BOOK, (end + 7) / 8 - HEADER_BYTES / 8);
    }
    __syncthreads();
    const u64 all = frame->count;
    // Entries of the tiles of a block; of a second one that is not there, those of the first.
    struct Entries {
        uint2 bytes[Format::TILES];
    };
    const auto read = [=](u32 block) {
        const u64 first = (u64)block * Format::TILES, last = (all - 1) / TILE_VALUES;
        Entries entries;
#pragma unroll
        for (u32 tile = 0; tile < Format::TILES; ++tile) entries.bytes[tile] = Compact::bytes_of(front, first + tile < last ? first + tile : last);
        return entries;
    };
    place_tiles(frame, end, totals, read, [=](u32 block, const Entries& entries) {
        u32 sum = 0, fault = FAULT_NONE;
#pragma unroll
        for (u32 tile = 0; tile < Format::TILES; ++tile) {
            const u32 count = Format::values_of(values_of_tile<Format>(all, block), tile);
            if (count == 0) continue;
            const Compact entry = Compact::of(entries.bytes[tile]);
            const u32 of_tile = entry.fault(count);
            if (of_tile) fault = of_tile;
            else sum += entry.len<Format>(count);
        }
        if (fault) report(frame, fault);
        return fault ? 0u : sum;
    });
}

template <class Format> struct CompactShared {
    Stage stage;
    u32 escaped[Format::THREADS]; // as in `DecodeShared`
    u64 parts[Format::WARPS];
    u32 totals[Format::WARPS];
};

template <u32 WIDTH> struct ValueOf;
template <> struct ValueOf<1> { typedef u8 Type; };
template <> struct ValueOf<2> { typedef u16 Type; };

// Codes and rests of a thread of a tile of which all values are coded.
template <class Format> DEVICE void load_coded(const Seat& seat, const u8* body, Rests* rests, u32* codes) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        codes[j] = eight_bytes(body + Format::FULL_REST + seat.first(j) / 2, 4).x;
        if (Format::PLANES == 0) rests->bytes[j] = eight_bytes(body + seat.first(j));
        rests->planes[j] = 0;
#pragma unroll
        for (u32 plane = 0; plane < Format::PLANES; ++plane) rests->planes[j] |= (u32)body[plane_at<Format>(seat.first(j), plane)] << 8 * plane;
    }
}

// Decodes the tiles of a block of threads; the first warp has the sum over their values. Barriers are inside.
template <class Format> DEVICE u64 decode_compact(const Frame* frame, u32 block, CompactShared<Format>* shared) {
    typedef typename Format::Piece Piece;
    typedef typename ValueOf<Format::WIDTH>::Type Value;
    const Seat seat = Seat::of<Format>(values_of_tile<Format>(frame->count, block));
    const u8* front = at<const u8>(frame->fixed);
    const u64 tile = (u64)block * Format::TILES + seat.tile;
    // A tile that is not there is one without values.
    Compact entry = {MODE_ZERO, WIDE, 0, 0};
    if (seat.count) entry = Compact::read(front, tile);
    const u8* body = front + at<const u64>(frame->tiles_state)[block];
    // The first tile is full if there is a second one.
    if (seat.tile && seat.count) body += Compact::read(front, tile - 1).len<Format>(TILE_VALUES);
    const u8* coded = body + tile_mask_len(entry.mode, seat.count);
    const u8* list = coded + Format::coded_len(entry.coded);
    const uint2 low = eight_bytes(front + BOOK_AT), high = eight_bytes(front + BOOK_AT + 8);
    const uint4 book = make_uint4(low.x, low.y, high.x, high.y);
    u8* stage = (u8*)shared->stage.bytes + seat.tile * (Format::WIDTH * TILE_VALUES);
    u8* group = stage + GROUP * seat.warp;
    u32* escaped = shared->escaped + 32 * warp_id();
    Value* values = at<Value>(frame->values) + tile * TILE_VALUES;
    Seat kept_seat = seat;
    kept_seat.count = entry.coded;
    shared->escaped[threadIdx.x] = 0;
    Rests rests;
    u32 codes[4];
    Piece v[4];
    if (__syncthreads_and(entry.coded == TILE_VALUES)) {
        load_coded<Format>(seat, coded, &rests, codes);
        if (!join_coded<Format>(seat, book, list, entry.form, entry.escapes, rests, codes, group, escaped, v)) report(frame, FAULT_CODES);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) __stcs((Piece*)(values + seat.first(j)), v[j]);
        return block_sum<CHECKED>(mix_values<Format, true>(v, seat, block), shared->parts);
    }
    u32 marked;
    Kept kept =
        read_marks(body, entry.mode == MODE_MASKED, seat.count, seat.thread, seat.warp, shared->totals + TILE_WARPS * seat.tile, &marked);
    bool is_right = entry.mode != MODE_MASKED || marked == entry.coded;
    if (entry.mode == MODE_ZERO) kept.bits = 0;
    if (entry.mode == MODE_STORED) {
        stage_bytes(stage, body, Format::WIDTH * seat.count, seat.thread, TILE_THREADS);
    } else {
        stage_bytes(stage, coded, Format::rest_len(entry.coded), seat.thread, TILE_THREADS);
        stage_bytes(stage + Format::FULL_REST, coded + Format::rest_len(entry.coded), (entry.coded + 1) / 2, seat.thread, TILE_THREADS);
    }
    __syncthreads();
    if (entry.is_coded()) is_right &= load_staged<Format>(kept_seat, stage, &rests, codes);
    // The stage is used again.
    __syncthreads();
    if (entry.is_coded()) is_right &= join_coded<Format>(kept_seat, book, list, entry.form, entry.escapes, rests, codes, group, escaped, v);
    if (!__syncthreads_and(is_right)) {
        if (!is_right) report(frame, FAULT_CODES);
        return 0;
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
        if (kept_seat.live(j)) *(Piece*)(stage + Format::WIDTH * seat.first(j)) = v[j];
    __syncthreads();
    const u32 first = 32 * seat.thread, live = first >= seat.count ? 0 : seat.count - first < 32 ? seat.count - first : 32;
    const u64 word = (tile * TILE_VALUES + first) / 8 * Format::WIDTH;
    const auto from = [=](u32 place) { return ((const Value*)stage)[place]; };
    return block_sum<CHECKED>(write_kept(kept, from, values + first, live, word), shared->parts);
}

// Reads the frames of a batch, after `codebook16_open_compact`. A block of threads per 16 KiB of values.
template <class Type> DEVICE void decode_compact_frames(const Frame* frames, u32 frame_count) {
    typedef Codebook16<Type> Format;
    __shared__ CompactShared<Format> shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 block = blockIdx.x - frame->first_tile;
    const u64 sum = decode_compact<Format>(frame, block, &shared);
    if (warp_id() == 0) close_compact<Format>(frame, block, compact_front_end(frame->count), fold(sum));
}
