// Decoders of rans.

// ---- The table ---------------------------------------------------------------------------------------------------

struct TableRead {
    u32 firsts[SYMBOLS];  // by rank: the first slot, and the symbol with its frequency less 1
    u32 symbols[SYMBOLS];
    Common common;
};

// Reads a table from the front of a dynamic section that is long enough, by all threads.
template <class Format>
DEVICE Common read_table(const u64* table, u64 count, uint4* slots, TableRead* shared) {
    if (warp_id() == 0) {
        const u8* bytes = (const u8*)table + 8 + 3 * (lane_id() / 2);
        const u32 pair = bytes[0] | bytes[1] << 8 | bytes[2] << 16;
        u32 frequency = lane_id() & 1 ? pair >> SCALE_BITS : pair % SLOTS;
        const u32 sum = __reduce_add_sync(ALL, frequency);
        if (lane_id() == ESCAPE && sum == 0) frequency = SLOTS;
        const u32 escapes = __shfl_sync(ALL, frequency, ESCAPE);
        u32 rank;
        const u32 first = first_slot(frequency, &rank);
        shared->firsts[rank] = first;
        shared->symbols[rank] = lane_id() | (frequency - 1) << 8;
        const u32 of_table = table_sum<Format>(table, count);
        if (lane_id() == 0) {
            // Tables of joint symbols are in frames of the other layout.
            const bool is_clear = table[0] >> 8 == 0;
            shared->common.len = TABLE_LEN;
            shared->common.sum = of_table;
            shared->common.fault = !is_clear ? FAULT_PADDING : (sum && sum != SLOTS) || escapes == 0 ? FAULT_FREQUENCIES : FAULT_NONE;
        }
    }
    __syncthreads();
#pragma unroll 1
    for (u32 slot = threadIdx.x; slot < SLOTS; slot += blockDim.x) {
        u32 rank = 0;
#pragma unroll
        for (u32 step = SYMBOLS / 2; step; step /= 2)
            if (shared->firsts[rank + step] <= slot) rank += step;
        ((u32*)slots)[slot] = shared->symbols[rank] | (slot - shared->firsts[rank]) << 20;
    }
    return shared->common;
}

// Makes the slots of frames that have a table, and opens them. A block of 1024 threads per frame.
template <class Format> DEVICE void open_blocks(const Frame* frames) {
    __shared__ TableRead shared;
    const Frame* frame = frames + blockIdx.x;
    const u8* table = at<const u8>(frame->fixed) + Format::table_at();
    Scratch* scratch = scratch_of(frame);
    bool uses_table = false, has_columns = false;
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < frame->tile_count; tile += blockDim.x) {
        const u8* entry = table + (u64)tile * Format::ENTRY;
        uses_table |= is_rans(entry);
        has_columns |= (entry[0] & FORM_COLUMNS) != 0;
    }
    uses_table = __syncthreads_or(uses_table);
    has_columns = __syncthreads_or(has_columns);
    Common common = Common();
    if (has_columns) {
        common.fault = FAULT_COLUMNS;
    } else if (uses_table) {
        const u64 dynamic_len = *at<const u64>(frame->size);
        if (dynamic_len < TABLE_LEN || dynamic_len > frame->capacity) common.fault = FAULT_LENGTH;
        else common = read_table<Format>(at<const u64>(frame->dynamic), frame->count, scratch->slots, &shared);
    }
    open_frames<Format>(frames, common);
}

// ---- Blocks by rANS ----------------------------------------------------------------------------------------------

// Source of a block's residuals, and how far the warp has read.
struct Stream {
    const u32* slots;   // in shared memory
    const u16* words;   // and escapes behind them
    u32 counts;         // of words, and of escapes in the upper half
    u32 readable;       // words that can be read, whatever they are
    u32 start;          // the residual of symbol 0
    u32 before;         // lanes before this one
    u32 state;
    u32 word, escape;   // the next ones
    __device__ __forceinline__ u32 word_count() const { return counts & 0xffffu; }
    __device__ __forceinline__ u32 escape_count() const { return counts >> 16; }
    __device__ __forceinline__ const u8* escapes() const { return (const u8*)words + round8(2 * word_count()); }
};

// The symbols of this lane's values in a row, `live` of four.
template <bool FULL> DEVICE u32 decode_row(Stream* stream, u32 live) {
    u32 symbols = 0;
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
        const bool takes = FULL || step < live;
        const u32 entry = stream->slots[stream->state % SLOTS];
        // Added in this order it takes an instruction less.
        const u32 times = stream->state >> SCALE_BITS;
        u32 state = (entry >> 8 & 0xfffu) * times + ((entry >> 20) + times);
        const bool reads = takes && state < LOWEST_STATE;
        const u32 readers = __ballot_sync(ALL, reads);
        const u32 place = stream->word + __popc(readers & stream->before);
        if (reads) state = state << 16 | (FULL || place < stream->word_count() ? stream->words[place] : 0u);
        if (takes) stream->state = state;
        stream->word += __popc(readers);
        symbols = __funnelshift_r(symbols, takes ? entry : 0u, 8);
    }
    return symbols;
}

// The exponents to symbols of a row whose values have the base `base`.
DEVICE u32 exponents_of_row(Stream* stream, u32 symbols, u32 base) {
    u32 exponents = add_to_four(symbols, upper(base + stream->start));
    const u32 escapes = (symbols + rep(SYMBOLS - ESCAPE)) & rep(SYMBOLS);
    if (__any_sync(ALL, escapes)) {
        u32 total;
        u32 place = stream->escape + warp_scan(__popc(escapes), &total);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            if (!(escapes & SYMBOLS << 8 * i)) continue;
            const u32 residual = place < stream->escape_count() ? stream->escapes()[place] : 0u;
            exponents = merge(0xffu << 8 * i, rep((residual + base) & 0xffu), exponents);
            ++place;
        }
        stream->escape += total;
    }
    return exponents;
}

// The bases of the groups `4 lane` to `4 lane + 3` in a block of `count` values.
DEVICE u32 bases_of_lane(const u8* from, u32 count, const Entry& entry, bool* is_wrong) {
    const u32 groups = (count + GROUP - 1) / GROUP, len = entry.bases_len(count);
    if (entry.form == FORM_ONE) return rep(entry.base);
    u32 bases = 0;
#pragma unroll 1
    for (u32 i = 0; i < 4; ++i) {
        const u32 group = 4 * lane_id() + i, place = entry.form == FORM_NIBBLES ? group / 2 : group;
        u32 base = place < len ? from[place] : 0;
        if (entry.form == FORM_NIBBLES) base = base >> 4 * (group & 1) & 15u;
        if (group >= groups) *is_wrong |= base != 0;
        else if (entry.form == FORM_BYTES) base = base == 255 ? 0 : base;
        else if (base == 15) base = 0;
        else *is_wrong |= (base += entry.base) > LAST_BASE;
        bases |= (base & 0xffu) << 8 * i;
    }
    return bases;
}

// Read anew wherever they are needed: while a warp decodes, registers are too few to keep them.
DEVICE u32 tile_of_block(const Frame* frame) { return blockIdx.x - *(const volatile u32*)&frame->first_tile; }
DEVICE bool is_refused(const Frame* frame) { return at<const State>(*(const volatile u64*)&frame->state)->refused != 0; }

// Decodes a block that is coded by rANS, by one warp: block `tile` is as far behind that of the thread block as the warp behind the first.
template <class Format> DEVICE void decode_by_rans(const Frame* frame, u32 tile, const Entry& entry, const u32* slots) {
    const u32 count = values_of_tile<Format>(frame->count, tile), lane = lane_id();
    const u64 offset = at<const u64>(frame->tiles_state)[tile] + entry.bases_len(count);
    const u8* dynamic = at<const u8>(frame->dynamic);
    const u8* body = at<const u8>(frame->fixed) + front_len<Format>(frame->count) + (u64)tile * Format::static_body(Format::TILE);
    bool is_wrong = false;
    const u32 bases = bases_of_lane(dynamic + offset - entry.bases_len(count), count, entry, &is_wrong);
    Stream stream;
    stream.slots = slots;
    stream.words = (const u16*)(dynamic + offset + STATES_LEN);
    stream.counts = entry.counts[1] | entry.counts[2] << 16;
    const u64 behind = (frame->capacity - offset - STATES_LEN) / 2;
    stream.readable = behind < ALL ? (u32)behind : ALL;
    stream.start = at<const u8>(frame->dynamic)[0];
    // By way of a shuffle, or the compiler makes it anew in each step.
    stream.before = __shfl_sync(ALL, (1u << lane) - 1, lane);
    stream.state = ((const u32*)(dynamic + offset))[lane];
    stream.word = stream.escape = 0;
    is_wrong |= stream.state < LOWEST_STATE || stream.state >= LOWEST_STATE << 16;
    if (lane < 4) is_wrong |= 2 * (stream.word_count() + lane) < round8(2 * stream.word_count()) && stream.words[stream.word_count() + lane] != 0;
    if (lane < 8) is_wrong |= stream.escape_count() + lane < round8(stream.escape_count()) && stream.escapes()[stream.escape_count() + lane] != 0;

    const Heads<Format> heads = Heads<Format>::of(body, count);
    Sink<Format> sink = Sink<Format>::of(frame, tile);
    // More bits than the type has are faults as well; both are in one register, as there is none to spare.
    const u32 no_bits = Format::UPPER == 1 ? ~rep(0x7fu >> Format::MANTISSA) : 0;
    u32 of_values = 0, faults = is_wrong;
#pragma unroll 1
    for (u32 group = 0; GROUP * group < count; ++group) {
        const u32 base = __shfl_sync(ALL, bases, group / 4) >> 8 * (group & 3) & 0xffu;
        u8* to = sink.values + Format::WIDTH * GROUP * group;
        if (GROUP * (group + 1) <= count && stream.word + GROUP <= stream.readable) {
            const u32 planes = read_planes<true>(heads, count, group);
            RowHead<Format> of_rows[2];
#pragma unroll
            for (u32 row = 0; row < 2; ++row) of_rows[row] = read_row<true>(heads, count, group, row);
#pragma unroll
            for (u32 row = 0; row < 2; ++row) {
                const u32 exponents = exponents_of_row(&stream, decode_row<true>(&stream, 4), base);
                faults |= exponents & no_bits;
                Quad<Format::UPPER> upper;
                join_quad<Format>(exponents, rests_of_quad(of_rows[row], planes, row), &upper);
                Quad<Format::WIDTH> v;
                put_together(upper, of_rows[row].lower, &v);
                take_quad<true>(&sink, to, row, v, GROUP);
            }
        } else {
            // The last rows of a frame.
            const u32 left = count - GROUP * group, planes = read_planes<false>(heads, count, group);
#pragma unroll 1
            for (u32 row = 0; row < 2; ++row) {
                const u32 live = live_of_quad(row, left), there = (u32)((1ull << 8 * live) - 1);
                RowHead<Format> head = read_row<false>(heads, count, group, row);
                const u32 rests = rests_of_quad(head, planes, row);
                faults |= rests & ~there;
#pragma unroll
                for (u32 plane = 0; plane < Format::LOWER; ++plane) {
                    faults |= head.lower[plane] & ~there;
                    head.lower[plane] &= there;
                }
                const u32 exponents = exponents_of_row(&stream, decode_row<false>(&stream, live), base) & there;
                faults |= exponents & no_bits;
                Quad<Format::UPPER> upper;
                join_quad<Format>(exponents, rests & there, &upper);
                Quad<Format::WIDTH> v;
                put_together(upper, head.lower, &v);
                for (u32 i = 0; i < 4; ++i)
                    if (i < live) store_value(to + Format::WIDTH * ROW_LEN * row, v, i);
                take_quad<false>(&sink, to, row, v, left);
            }
        }
        // The checksum is folded for each 16384 bytes.
        const u32 part = 16384 / (Format::WIDTH * GROUP);
        if (group % part == part - 1 || GROUP * (group + 1) >= count) {
            if (CHECKED) of_values += fold(warp_sum(sink.sum));
            sink.sum = 0;
        }
    }
    faults |= stream.state != LOWEST_STATE || stream.word != stream.word_count() || stream.escape != stream.escape_count();
    if (__any_sync(ALL, faults) && lane == 0) report(frame, FAULT_CODES);
    close_tile<Format>(frame, tile_of_block(frame) + warp_id(), of_values);
}

// ---- Frames ------------------------------------------------------------------------------------------------------

union RansDecodeShared {
    DecodeShared tiers;
    uint4 slots[SLOTS / 4];
};

template <class Format> DEVICE const u8* entry_of(const Frame* frame, u32 tile) {
    return at<const u8>(frame->fixed) + Format::table_at() + (u64)tile * Format::ENTRY;
}

// Reads the frames of a batch, after `open_blocks`. A block of 512 threads per block of values, of which each sixteenth decodes all that are
// coded by rANS among its own and the fifteen behind it.
template <class Format> DEVICE void decode_blocks(const Frame* frames, u32 frame_count) {
    __shared__ RansDecodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (tile_of_block(frame) % WARPS == 0 && !is_refused(frame)) {
        const uint4* slots = scratch_of(frame)->slots;
        for (u32 i = threadIdx.x; i < SLOTS / 4; i += THREADS) shared.slots[i] = slots[i];
        __syncthreads();
        const u32 mine = tile_of_block(frame) + warp_id();
        if (mine < frame->tile_count && is_rans(entry_of<Format>(frame, mine)))
            decode_by_rans<Format>(frame, mine, Entry::read(entry_of<Format>(frame, mine)), (const u32*)shared.slots);
        __syncthreads();
    }
    const u32 tile = tile_of_block(frame);
    if (is_rans(entry_of<Format>(frame, tile)) && !is_refused(frame)) return;
    const u32 count = values_of_tile<Format>(frame->count, tile);
    if (count == Format::TILE) decode_tile<Format, true>(frame, tile, count, &shared.tiers);
    else decode_tile<Format, false>(frame, tile, count, &shared.tiers);
}
