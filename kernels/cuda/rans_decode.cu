// Decoders of rans.

// ---- The table ---------------------------------------------------------------------------------------------------

struct OpenShared {
    u32 firsts[SYMBOLS];  // by rank: the first slot, and the symbol with its frequency less 1
    u32 symbols[SYMBOLS];
    Common common;
};

// Reads a table from the front of a dynamic section that is long enough, by all threads.
DEVICE Common read_table(const u64* table, u64 count, uint4* slots, OpenShared* shared) {
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
        const u32 of_table = table_sum(table, count);
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

// A block of 1024 threads per frame.
extern "C" __global__ void __launch_bounds__(1024) rans_open_bf16(const Frame* frames) {
    __shared__ OpenShared shared;
    const Frame* frame = frames + blockIdx.x;
    const u8* table = at<const u8>(frame->fixed) + Rans::table_at();
    Scratch* scratch = scratch_of(frame);
    bool uses_table = false, has_columns = false;
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < frame->tile_count; tile += blockDim.x) {
        const u8* entry = table + (u64)tile * Rans::ENTRY;
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
        else common = read_table(at<const u64>(frame->dynamic), frame->count, scratch->slots, &shared);
    }
    open_frames<Rans>(frames, common);
}

// ---- Blocks by rANS ----------------------------------------------------------------------------------------------

// What a warp reads a block's residuals from, and how far it is.
struct Stream {
    const u32* slots;   // in shared memory
    const u16* words;
    const u8* escapes;
    u32 word_count, escape_count;
    u32 readable;       // words that can be read, whatever they are
    u32 start;          // the residual of symbol 0
    u32 before;         // lanes before this one
    u32 state;
    u32 word, escape;   // the next ones
};

// The symbols of this lane's values in a row, `live` of four.
template <bool FULL> DEVICE u32 decode_row(Stream* stream, u32 live) {
    u32 symbols = 0;
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
        const bool takes = FULL || step < live;
        const u32 entry = stream->slots[stream->state % SLOTS];
        u32 state = ((entry >> 8 & 0xfffu) + 1) * (stream->state >> SCALE_BITS) + (entry >> 20);
        const bool reads = takes && state < LOWEST_STATE;
        const u32 readers = __ballot_sync(ALL, reads);
        const u32 place = stream->word + __popc(readers & stream->before);
        if (reads) state = state << 16 | (FULL || place < stream->word_count ? stream->words[place] : 0u);
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
            const u32 residual = place < stream->escape_count ? stream->escapes[place] : 0u;
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

// Decodes a block that is coded by rANS, by one warp: a row's rests, values and words of the checksum are four values, eight bytes
// and a word for each lane.
DEVICE void decode_by_rans(const Frame* frame, u32 tile, const Entry& entry, const u32* slots) {
    const u32 count = values_of_tile<Rans>(frame->count, tile), lane = lane_id();
    const u64 offset = at<const u64>(frame->tiles_state)[tile] + entry.bases_len(count);
    const u8* dynamic = at<const u8>(frame->dynamic);
    const u8* rests = at<const u8>(frame->fixed) + front_len<Rans>(frame->count) + (u64)tile * Rans::static_body(Rans::TILE) + 4 * lane;
    u8* values = at<u8>(frame->values) + (u64)tile * (2 * Rans::TILE) + 8 * lane;
    bool is_wrong = false;
    const u32 bases = bases_of_lane(dynamic + offset - entry.bases_len(count), count, entry, &is_wrong);
    Stream stream;
    stream.slots = slots;
    stream.words = (const u16*)(dynamic + offset + STATES_LEN);
    stream.word_count = entry.counts[1];
    stream.escapes = dynamic + offset + STATES_LEN + round8(2 * stream.word_count);
    stream.escape_count = entry.counts[2];
    const u64 behind = (frame->capacity - offset - STATES_LEN) / 2;
    stream.readable = behind < ALL ? (u32)behind : ALL;
    stream.start = at<const u8>(frame->dynamic)[0];
    stream.before = (1u << lane) - 1;
    stream.state = ((const u32*)(dynamic + offset))[lane];
    stream.word = stream.escape = 0;
    is_wrong |= stream.state < LOWEST_STATE || stream.state >= LOWEST_STATE << 16;
    if (lane < 4) is_wrong |= 2 * (stream.word_count + lane) < round8(2 * stream.word_count) && stream.words[stream.word_count + lane] != 0;
    if (lane < 8) is_wrong |= stream.escape_count + lane < round8(stream.escape_count) && stream.escapes[stream.escape_count + lane] != 0;

    u64 word_key = key((u64)tile * (Rans::TILE / 4) + lane), sum = 0;
    u32 of_values = 0;
    const u32 groups = (count + GROUP - 1) / GROUP;
#pragma unroll 1
    for (u32 group = 0; group < groups; ++group) {
        const u32 base = __shfl_sync(ALL, bases, group / 4) >> 8 * (group & 3) & 0xffu;
        if (GROUP * (group + 1) <= count && stream.word + GROUP <= stream.readable) {
            u32 of_row[2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) of_row[i] = __ldcs((const u32*)(rests + GROUP * group + ROW_LEN * i));
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const u32 exponents = exponents_of_row(&stream, decode_row<true>(&stream, 4), base);
                uint2 v;
                join_four(exponents, of_row[i], &v.x, &v.y);
                store(values + 2 * (GROUP * group + ROW_LEN * i), v);
                sum += mix(word_of(v.x, v.y), word_key);
                word_key += ROW_LEN / 4 * KEY_STEP;
            }
        } else {
            // The last rows of a frame.
#pragma unroll 1
            for (u32 i = 0; i < 2; ++i) {
                const u32 first = GROUP * group + ROW_LEN * i + 4 * lane, live = first >= count ? 0 : count - first < 4 ? count - first : 4;
                const u32 there = (u32)((1ull << 8 * live) - 1);
                const u32 of_row = first < round8(count) ? *(const u32*)(rests + GROUP * group + ROW_LEN * i) : 0;
                is_wrong |= (of_row & ~there) != 0;
                const u32 exponents = exponents_of_row(&stream, decode_row<false>(&stream, live), base) & there;
                uint2 v;
                join_four(exponents, of_row & there, &v.x, &v.y);
                u16* to = (u16*)(values + 2 * (GROUP * group + ROW_LEN * i));
                if (live > 0) to[0] = (u16)v.x;
                if (live > 1) to[1] = (u16)(v.x >> 16);
                if (live > 2) to[2] = (u16)v.y;
                if (live > 3) to[3] = (u16)(v.y >> 16);
                if (live) sum += mix(word_of(v.x, v.y), word_key);
                word_key += ROW_LEN / 4 * KEY_STEP;
            }
        }
        // The checksum is folded for each 16384 bytes.
        if (group % 32 == 31 || group == groups - 1) {
            of_values += fold(warp_sum(sum));
            sum = 0;
        }
    }
    is_wrong |= stream.state != LOWEST_STATE || stream.word != stream.word_count || stream.escape != stream.escape_count;
    if (__any_sync(ALL, is_wrong) && lane == 0) report(frame, FAULT_CODES);
    close_tile<Rans>(frame, tile, of_values);
}

// ---- Frames ------------------------------------------------------------------------------------------------------

union RansDecodeShared {
    DecodeShared tiers;
    uint4 slots[SLOTS / 4];
};

DEVICE const u8* entry_of(const Frame* frame, u32 tile) {
    return at<const u8>(frame->fixed) + Rans::table_at() + (u64)tile * Rans::ENTRY;
}

// Reads the frames of a batch, after `rans_open`. A block of 512 threads per block of values, of which each sixteenth decodes all that are
// coded by rANS among its own and the fifteen behind it.
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_bf16(const Frame* frames, u32 frame_count) {
    __shared__ RansDecodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    const bool refused = state_of(frame)->refused != 0;
    if (!refused && tile % WARPS == 0) {
        const uint4* slots = scratch_of(frame)->slots;
        for (u32 i = threadIdx.x; i < SLOTS / 4; i += THREADS) shared.slots[i] = slots[i];
        __syncthreads();
        const u32 mine = tile + warp_id();
        if (mine < frame->tile_count && is_rans(entry_of(frame, mine)))
            decode_by_rans(frame, mine, Entry::read(entry_of(frame, mine)), (const u32*)shared.slots);
        __syncthreads();
    }
    if (!refused && is_rans(entry_of(frame, tile))) return;
    const u32 count = values_of_tile<Rans>(frame->count, tile);
    if (count == Rans::TILE) decode_tile<Rans, true>(frame, tile, count, &shared.tiers);
    else decode_tile<Rans, false>(frame, tile, count, &shared.tiers);
}
