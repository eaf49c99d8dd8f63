// window7 (ZipCCL, section 4), BF16, split layout: a sign-mantissa byte and three bits of exponent per value.
//
// A block of 256 threads has a tile of 8192 values: a warp has a group of 1024, a lane four pieces of eight. They stay in
// registers from the load to the codes, so values are read once. Two exponents share a register; eight codes make a word
// of nibbles, of which the fourth is spread over the spare bits of the other three.
//
// The window is the best one of the tile, as the CPU chooses it. The one that some tile of the frame had chosen is tried,
// and what falls outside mostly proves it the best; a histogram decides only where that fails.

#define THREADS 256u
#define WARPS 8u
#define GROUP 1024u
#define LAST_START 249u
#define NO_HINT 0u
#define OWN_WINDOWS 255u
#define OUTSIDE 32u
#define MODE_CODED 0u
#define MODE_STORED 1u

DEVICE u32 codes_len(u32 count) { return 384 * (count / GROUP) + 12 * ((count % GROUP + 31) / 32); }

struct Window7 {
    static const u32 TILE = 8192, ENTRY = 4, CODEC = 1, DTYPE = 0, WIDTH = 2;
    DEVICE u64 tile_count(u64 count) { return (count + TILE - 1) / TILE; }
    DEVICE u64 table_at() { return HEADER_BYTES; }
    DEVICE u64 index_at(u64 count) { return table_at() + ENTRY * tile_count(count); }
    DEVICE u64 front_end(u64 count) { return index_at(count) + 2 * ((count + 511) / 512); }
    DEVICE bool has_codes(u32 count) { return codes_len(count) < count; }
    DEVICE u32 static_body(u32 count) { return has_codes(count) ? count + codes_len(count) : 2 * count; }
    DEVICE u32 windows(u32 start, u32 count) { return start == OWN_WINDOWS ? (count + 511) / 512 : 0u; }

    // Entry: start, mode, number of escapes.
    DEVICE u32 dynamic_len(const u8* entry, u32 count, u32* fault) {
        const u32 start = entry[0], mode = entry[1], escapes = entry[2] | (u32)entry[3] << 8;
        if (mode == MODE_STORED && start == 0 && escapes == 0) return 2 * count - static_body(count);
        const bool fits = mode == MODE_CODED && has_codes(count) && escapes <= count;
        if (!fits || (start > LAST_START && start != OWN_WINDOWS)) *fault = FAULT_TILE;
        return *fault ? 0 : windows(start, count) + escapes;
    }
};

// Which values of a group a lane has: piece `j` is the values from `8 * (j * lanes + lane)` on.
struct Pieces {
    u32 count; // values of the group
    u32 lanes;
    DEVICE Pieces of(u32 tile_values) {
        const u32 before = warp_id() * GROUP;
        Pieces pieces;
        pieces.count = tile_values <= before ? 0 : tile_values - before < GROUP ? tile_values - before : GROUP;
        pieces.lanes = (pieces.count + 31) / 32;
        return pieces;
    }
    // The first value of a piece in the group.
    __device__ __forceinline__ u32 first(u32 j) const { return 8 * (j * lanes + lane_id()); }
    // How many values it has, at most eight.
    __device__ __forceinline__ u32 live(u32 j) const {
        if (lane_id() >= lanes || first(j) >= count) return 0;
        return count - first(j) < 8 ? count - first(j) : 8;
    }
};

// Nibbles that are 7: the lowest bit of each.
DEVICE u32 sevens(u32 nibbles) { return nibbles & nibbles >> 1 & nibbles >> 2 & 0x11111111u; }
// The lowest bits of nibbles in the order of the values: pair `k` of a piece has the bits 4k and 4k + 1.
DEVICE u32 value_order(u32 bits) { return (bits & 0x1111u) | (bits >> 15 & 0x2222u); }
// The lowest bits of the nibbles of the first `live` values of a piece.
DEVICE u32 live_nibbles(u32 live) {
    const u32 even = (live + 1) / 2, odd = live / 2;
    return (((1u << 4 * even) - 1) | (u32)((1ull << 4 * odd) - 1) << 16) & 0x11111111u;
}

// The pair of values `k` of a piece of which `live` are there, and zeros.
DEVICE u32 live_pair(u32 pair, u32 k, u32 live) { return live >= 2 * k + 2 ? pair : live == 2 * k + 1 ? pair & 0xffffu : 0u; }

// The exponents of two values.
DEVICE u32 exponents(u32 pair) { return pair >> 7 & 0x00ff00ffu; }
DEVICE u32 exponent_of(const u32* words, u32 i) { return words[i / 2] >> (16 * (i & 1) + 7) & 0xffu; }

// ---- Encode ------------------------------------------------------------------------------------------------------

// Room for the tiles whose parts are not where vectors can be: the last tile of a frame, and stored ones. A tile's values,
// or its sign-mantissa bytes and, from CODES_AT on, its codes.
#define CODES_AT 8192u
struct Stage {
    uint4 bytes[2 * Window7::TILE / 16];
};

// Copies bytes by all threads. A barrier is at the end.
DEVICE void copy_bytes(u8* to, const u8* from, u32 count) {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count; i += THREADS) to[i] = from[i];
    __syncthreads();
}

struct EncodeShared {
    Stage stage;
    u8 list[Window7::TILE];  // exponents of the escapes; in a search, histograms
    u64 parts[WARPS];
    u32 warp_escapes[WARPS];
    u32 warp_edges[WARPS][2];
    u32 counts[4];           // of the escapes: below the window, one below, one above, zero
    u16 histogram[256];
    u8 starts[16];           // of the windows of each 512 values
    u32 start, verdict, best, outside;
    u64 offset;
};

enum Verdict { BEST = 0, SEARCH = 1 };

struct Packed {
    u32 nibbles[4];
    u32 escaped[4]; // the lowest bit of each nibble that is 7
    u32 before;     // escapes of the tile before this group
    u32 rows[4];    // escapes of the group before this lane's piece of each row
};

// Codes of all pieces. `starts` are those of the first and the second two rows in a full group.
template <bool FULL> DEVICE void pack(const uint4* v, const Pieces& pieces, const u8* starts, Packed* packed) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 live = FULL ? 8 : pieces.live(j);
        const u32 start = starts[FULL ? 2 * warp_id() + j / 2 : 2 * warp_id() + (live ? pieces.first(j) / 512 : 0)];
        const u32 less = (0x10000u - start) & 0xffffu, both = less | less << 16;
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 nibbles = 0;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) nibbles |= __viaddmin_u16x2(exponents(words[k]), both, 0x00070007u) << 4 * k;
        // Absent values have code 0.
        if (!FULL) nibbles &= live_nibbles(live) * 15u;
        packed->nibbles[j] = nibbles;
        packed->escaped[j] = sevens(nibbles);
    }
}

// Prefix sums of the escapes over rows and lanes; the exponents of the escapes into `list`, in the order of the values;
// their number. A barrier is at the end.
template <bool FULL> DEVICE u32 collect(const uint4* v, const Pieces& pieces, Packed* packed, EncodeShared* shared) {
    // Two rows in a register: a row has 256 values at most.
    const u32* m = packed->escaped;
    u32 low = __popc(m[0]) | __popc(m[1]) << 16, high = __popc(m[2]) | __popc(m[3]) << 16, low_all, high_all;
    low = warp_scan(low, &low_all);
    high = warp_scan(high, &high_all);
    const u32 row1 = low_all & 0xffffu, row2 = row1 + (low_all >> 16), row3 = row2 + (high_all & 0xffffu);
    packed->rows[0] = low & 0xffffu;
    packed->rows[1] = row1 + (low >> 16);
    packed->rows[2] = row2 + (high & 0xffffu);
    packed->rows[3] = row3 + (high >> 16);
    const u32 of_warp = row3 + (high_all >> 16);
    if (lane_id() == 0) shared->warp_escapes[warp_id()] = of_warp;
    __syncthreads();
    u32 before = 0, total = 0;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; ++warp) {
        if (warp == warp_id()) before = total;
        total += shared->warp_escapes[warp];
    }
    packed->before = before;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 place = before + packed->rows[j];
#pragma unroll 1
        for (u32 left = value_order(packed->escaped[j]); left; left &= left - 1) {
            const u32 bit = (u32)__ffs((int)left) - 1;
            const u32 low = bit & 4 ? words[1] : words[0], high = bit & 4 ? words[3] : words[2];
            shared->list[place++] = (u8)((bit & 8 ? high : low) >> (16 * (bit & 1) + 7));
        }
    }
    __syncthreads();
    return total;
}

// How many values of the tile have the code 0, how many 0 or 1, and how many 6 or none.
template <bool FULL> DEVICE void count_edges(const Pieces& pieces, const Packed& packed, EncodeShared* shared) {
    u32 zeros = 0, lowest = 0, highest = 0;
    // A bit per value and row: the rows share a word.
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 n = packed.nibbles[j], live = FULL ? 0x11111111u : live_nibbles(pieces.live(j));
        zeros |= (~(n | n >> 1 | n >> 2) & live) << j;
        lowest |= (~(n >> 1 | n >> 2) & live) << j;
        highest |= (n >> 1 & n >> 2 & live) << j;
    }
    // The numbers of a warp have eleven bits.
    const u32 first = __reduce_add_sync(ALL, __popc(zeros) | __popc(lowest) << 16);
    const u32 last = __reduce_add_sync(ALL, __popc(highest));
    if (lane_id() == 0) {
        shared->warp_edges[warp_id()][0] = first;
        shared->warp_edges[warp_id()][1] = last;
    }
}

// Whether the counts prove the window from `start` the best of a tile of `values` values, as codec/src/kernel/near.rs does
// with a few counts more. Sets `verdict`; barriers are inside.
DEVICE void judge(u32 start, u32 values, u32 escapes, EncodeShared* shared) {
    if (threadIdx.x < 4) shared->counts[threadIdx.x] = 0;
    __syncthreads();
    u32 below = 0, before = 0, behind = 0, zeros = 0;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < escapes; i += THREADS) {
        const u32 exponent = shared->list[i];
        below += exponent < start;
        before += exponent + 1 == start;
        behind += exponent == start + 7;
        zeros += exponent == 0;
    }
    if (__any_sync(ALL, below | behind)) {
        below = __reduce_add_sync(ALL, below);
        before = __reduce_add_sync(ALL, before);
        behind = __reduce_add_sync(ALL, behind);
        zeros = __reduce_add_sync(ALL, zeros);
        if (lane_id() == 0) {
            atomicAdd(&shared->counts[0], below);
            atomicAdd(&shared->counts[1], before);
            atomicAdd(&shared->counts[2], behind);
            atomicAdd(&shared->counts[3], zeros);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 edges = 0, last = 0;
#pragma unroll
        for (u32 warp = 0; warp < WARPS; ++warp) {
            edges += shared->warp_edges[warp][0];
            last += shared->warp_edges[warp][1];
        }
        last -= escapes;
        const u32 first = edges & 0xffffu, lowest = edges >> 16;
        const u32 of_below = shared->counts[0], above = escapes - of_below, covered = values - escapes;
        // The windows beside this one are compared exactly; of equals the lowest wins.
        bool best = !(start > 0 && shared->counts[1] >= last) && !(start < LAST_START && shared->counts[2] > first);
        // The others lose at least the outermost exponents. Zeros may be frequent, so the window from 0 counts apart.
        const u32 others = of_below - shared->counts[3];
        best = best && (start < 2 || (others < last && of_below < (start >= 7 ? covered : last)));
        shared->verdict = best && above <= lowest ? BEST : SEARCH;
    }
    __syncthreads();
}

// Values in the window from `start`.
DEVICE u32 covered(const u16* histogram, u32 start) {
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 7; ++i) sum += histogram[start + i];
    return sum;
}

// Counts the exponents of each 512 values, in numbers of 16 bits. The list of escapes is gone afterwards.
template <bool FULL> DEVICE void count(const uint4* v, const Pieces& pieces, EncodeShared* shared) {
    u32* pairs = (u32*)shared->list;
    __syncthreads();
    for (u32 i = threadIdx.x; i < Window7::TILE / 4; i += THREADS) pairs[i] = 0;
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 live = FULL ? 8 : pieces.live(j);
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            if (i >= live) continue;
            const u32 exponent = exponent_of(words, i);
            const u32 at = (2 * warp_id() + (FULL ? j / 2 : pieces.first(j) / 512)) * 256 + exponent;
            atomicAdd(pairs + at / 2, 1u << 16 * (at & 1));
        }
    }
    __syncthreads();
}

// The best of the windows from `lane`, `lane + step`, ... : how many values it covers, and what its start is short of 255,
// so that the greatest is the best, the lowest of equals.
DEVICE u32 best_of(const u16* histogram, u32 first, u32 step) {
    u32 best = 0;
#pragma unroll 1
    for (u32 start = first; start <= LAST_START; start += step) {
        const u32 found = covered(histogram, start) << 8 | (255 - start);
        best = found > best ? found : best;
    }
    return __reduce_max_sync(ALL, best);
}

// Chooses the best window from histograms; and one for each 512 values, if too many are outside of it and that pays.
// Returns how many bytes of starts there are.
template <bool FULL> DEVICE u32 search(const uint4* v, const Pieces& pieces, u32 values, EncodeShared* shared) {
    count<FULL>(v, pieces, shared);
    const u16* histograms = (const u16*)shared->list;
    u32 sum = 0;
#pragma unroll
    for (u32 part = 0; part < 16; ++part) sum += histograms[256 * part + threadIdx.x];
    shared->histogram[threadIdx.x] = (u16)sum;
    if (threadIdx.x == 0) shared->best = shared->outside = 0;
    __syncthreads();
    const u32 best = best_of(shared->histogram, threadIdx.x, THREADS);
    if (lane_id() == 0) atomicMax(&shared->best, best);
    __syncthreads();
    const u32 start = 255 - (shared->best & 255u), outside = values - (shared->best >> 8), parts = (values + 511) / 512;
    u32 own = 0;
    if (OUTSIDE * outside > values) {
        for (u32 part = 2 * warp_id(); part < 2 * warp_id() + 2; ++part) {
            const u32 of_part = part < parts ? (values - 512 * part < 512 ? values - 512 * part : 512) : 0;
            const u32 found = best_of(histograms + 256 * part, lane_id(), 32);
            if (lane_id() == 0 && of_part) {
                shared->starts[part] = (u8)(255 - (found & 255u));
                atomicAdd(&shared->outside, of_part - (found >> 8));
            }
        }
        __syncthreads();
        own = shared->outside + parts < outside ? parts : 0;
    }
    if (threadIdx.x == 0) shared->start = own ? OWN_WINDOWS : start;
    if (!own && threadIdx.x < 16) shared->starts[threadIdx.x] = (u8)start;
    __syncthreads();
    return own;
}

// Stores to device memory that is not read soon, or to any.
template <bool STREAMED, class T> DEVICE void store(T* to, T value) {
    if (STREAMED) __stcs(to, value);
    else *to = value;
}

// Writes sign-mantissa bytes and codes of a warp: of a full tile to device memory, of another one to a stage.
template <bool FULL> DEVICE void store_coded(const uint4* v, const Pieces& pieces, const Packed& packed, u8* rest, u8* codes) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 bytes[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) bytes[k] = merge(0x00800080u, words[k] >> 8, words[k]);
        if (!FULL && lane_id() >= pieces.lanes) continue;
        const u32 low = __byte_perm(bytes[0], bytes[1], 0x6420), high = __byte_perm(bytes[2], bytes[3], 0x6420);
        store<FULL>((uint2*)(rest + pieces.first(j)), make_uint2(low, high));
        // The fourth row is in the spare bits of the others.
        const u32 word = packed.nibbles[j] | (packed.nibbles[3] >> j & 0x11111111u) << 3;
        if (j < 3) store<FULL>((u32*)(codes + 4 * (j * pieces.lanes + lane_id())), word);
    }
}

// The sum over the values of a lane.
template <bool FULL> DEVICE u64 mix_values(const uint4* v, const Pieces& pieces, u64 tile) {
    const u64 first = tile * (Window7::TILE / 4) + warp_id() * (GROUP / 4);
    u64 sum = 0;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u64 of_piece = key(first + pieces.first(j) / 4);
        if (FULL) {
            sum += mix_two(v[j], of_piece);
            continue;
        }
        const u32 live = pieces.live(j);
        if (live > 0) sum += mix(word_of(v[j].x, v[j].y), of_piece);
        if (live > 4) sum += mix(word_of(v[j].z, v[j].w), of_piece + KEY_STEP);
    }
    return sum;
}

template <bool FULL> DEVICE void encode_tile(const Frame* frame, u32 tile, u32 count, EncodeShared* shared) {
    State* state = state_of(frame);
    const Pieces pieces = Pieces::of(count);
    u8* stage = (u8*)shared->stage.bytes;
    const u8* values = at<const u8>(frame->values) + (u64)tile * (2 * Window7::TILE);
    if (!FULL) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < 2 * Window7::TILE; i += THREADS) stage[i] = i < 2 * count ? values[i] : 0;
        __syncthreads();
    }
    uint4 v[4];
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 first = warp_id() * GROUP + pieces.first(j);
        if (FULL) v[j] = __ldcs((const uint4*)(values + 2 * first));
        else v[j] = lane_id() < pieces.lanes ? shared->stage.bytes[first / 8] : make_uint4(0, 0, 0, 0);
    }
    if (threadIdx.x < 16) {
        // Read once, so that all threads have the same.
        u32 hint = 0;
        if (threadIdx.x == 0) hint = *(volatile u32*)&state->hint;
        hint = __shfl_sync(0xffffu, hint, 0);
        shared->starts[threadIdx.x] = (u8)(hint == NO_HINT ? 0 : hint - 1);
        if (threadIdx.x == 0) shared->start = hint == NO_HINT ? OWN_WINDOWS : hint - 1;
    }
    const u64 sum = block_sum(mix_values<FULL>(v, pieces, tile), shared->parts);
    if (threadIdx.x == 0) atomicAdd(&state->values, fold(sum));

    const bool coded = FULL || Window7::has_codes(count);
    Packed packed = {};
    u32 escapes = 0, own = 0;
    if (coded) {
        const u32 hint = shared->start;
        bool is_final = false;
        if (hint != OWN_WINDOWS) {
            pack<FULL>(v, pieces, shared->starts, &packed);
            count_edges<FULL>(pieces, packed, shared);
            escapes = collect<FULL>(v, pieces, &packed, shared);
            judge(hint, count, escapes, shared);
            is_final = shared->verdict == BEST && OUTSIDE * escapes <= count;
        }
        if (!is_final) {
            own = search<FULL>(v, pieces, count, shared);
            pack<FULL>(v, pieces, shared->starts, &packed);
            escapes = collect<FULL>(v, pieces, &packed, shared);
            if (threadIdx.x == 0 && !own) *(volatile u32*)&state->hint = shared->start + 1;
        }
    }
    u8* fixed = at<u8>(frame->fixed);
    u8* body = fixed + front_len<Window7>(frame->count) + (u64)tile * Window7::static_body(Window7::TILE);
    const u32 in_body = Window7::static_body(count);
    const bool stored = !coded || in_body + own + escapes >= 2 * count;
    const u32 length = stored ? 2 * count - in_body : own + escapes;
    if (warp_id() == 0) {
        const u64 offset = look_back(at<u64>(frame->tiles_state), tile, length);
        if (lane_id() == 0) {
            shared->offset = offset;
            if (tile == frame->tile_count - 1) *at<u64>(frame->size) = offset + length;
            u16* entry = (u16*)(fixed + Window7::table_at() + (u64)tile * Window7::ENTRY);
            entry[0] = (u16)(stored ? MODE_STORED << 8 : shared->start | MODE_CODED << 8);
            entry[1] = (u16)(stored ? 0 : escapes);
        }
    }
    // The escape index: what is before each 512 values.
    u16* index = (u16*)(fixed + Window7::index_at(frame->count)) + (u64)tile * (Window7::TILE / 512) + 2 * warp_id();
    if (pieces.count > 0 && lane_id() == 0) index[0] = (u16)(stored ? 0 : packed.before);
    if (pieces.count > 512) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (lane_id() < pieces.lanes && pieces.first(j) == 512)
                index[1] = (u16)(stored ? 0 : packed.before + packed.rows[j]);
    }
    u8* to = FULL ? body : stage;
    if (!stored) store_coded<FULL>(v, pieces, packed, to + warp_id() * GROUP, to + (FULL ? count : CODES_AT) + warp_id() * 384);
    __syncthreads();
    u8* dynamic = at<u8>(frame->dynamic) + shared->offset;
    if (!stored) {
        if (!FULL) {
            copy_bytes(body, stage, count);
            copy_bytes(body + count, stage + CODES_AT, codes_len(count));
        }
        if (threadIdx.x < own) dynamic[threadIdx.x] = shared->starts[threadIdx.x];
        copy_bytes(dynamic + own, shared->list, escapes);
    } else {
        copy_bytes(body, values, in_body);
        copy_bytes(dynamic, values + in_body, 2 * count - in_body);
    }
}

// Writes the frames of a batch, but for what `window7_seal` adds. A block of 256 threads per tile.
extern "C" __global__ void __launch_bounds__(256, 3) window7_encode_bf16(const Frame* frames, u32 frame_count) {
    __shared__ EncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    const u32 count = values_of_tile<Window7>(frame->count, tile);
    if (count == Window7::TILE) encode_tile<true>(frame, tile, count, &shared);
    else encode_tile<false>(frame, tile, count, &shared);
}

extern "C" __global__ void __launch_bounds__(256) window7_seal_bf16(const Frame* frames) { seal_frames<Window7>(frames); }

// ---- Decode ------------------------------------------------------------------------------------------------------

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
    const u16* index = (const u16*)(fixed + Window7::index_at(frame->count)) + (u64)tile * (Window7::TILE / 512) + 2 * warp_id();
#pragma unroll
    for (u32 j = 0; j < 4; ++j) v[j] = make_uint4(0, 0, 0, 0);
    if (state_of(frame)->refused) return;

    if (mode == MODE_STORED) {
        const u32 in_body = Window7::static_body(count);
        copy_bytes(stage, body, in_body);
        copy_bytes(stage + in_body, dynamic, 2 * count - in_body);
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (FULL || lane_id() < pieces.lanes) v[j] = shared->stage.bytes[(warp_id() * GROUP + pieces.first(j)) / 8];
        if (lane_id() < (pieces.count + 511) / 512 && index[lane_id()] != 0) report(frame, FAULT_CODES);
        return;
    }
    if (!FULL) {
        copy_bytes(stage, body, count);
        copy_bytes(stage + CODES_AT, body + count, codes_len(count));
        load_coded<FULL>(pieces, stage + warp_id() * GROUP, stage + CODES_AT + warp_id() * 384, kept, words);
    }
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
    const u32 before = pieces.count > 0 ? index[0] : escapes;
    const bool is_end = count <= (warp_id() + 1) * GROUP;
    if (pieces.count > 0) {
        is_wrong |= before + of_warp != (is_end ? escapes : index[2]);
        if (warp_id() == 0) is_wrong |= before != 0;
    }
    if (pieces.count > 512) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (lane_id() < pieces.lanes && pieces.first(j) == 512) is_wrong |= index[1] != before + rows[j];
    }
    const u32 windows = Window7::windows(start, count);
    const u8* list = dynamic + windows + before;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        u32 first = start;
        if (windows) {
            const u32 part = 2 * warp_id() + (FULL ? j / 2 : pieces.first(j) / 512);
            first = part < windows ? dynamic[part] : 0;
            is_wrong |= first > LAST_START;
        }
        v[j] = join(kept[j], nibbles[j], first);
    }
    if (__any_sync(ALL, is_wrong)) {
        if (is_wrong) report(frame, FAULT_CODES);
        return;
    }
    if (of_warp) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) patch(v + j, escaped[j], list + rows[j]);
    }
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

// ---- Decode and reduce -------------------------------------------------------------------------------------------

// The values of a contribution that is no frame.
template <bool FULL> DEVICE void load_values(const u8* values, u32 count, uint4* v, Stage* stage) {
    const Pieces pieces = Pieces::of(count);
    if (!FULL) copy_bytes((u8*)stage->bytes, values, 2 * count);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 first = warp_id() * GROUP + pieces.first(j);
        if (FULL) v[j] = __ldcs((const uint4*)(values + 2 * first));
        else v[j] = lane_id() < pieces.lanes ? stage->bytes[first / 8] : make_uint4(0, 0, 0, 0);
    }
}

template <bool FULL>
DEVICE void reduce_tile(const Frame* frames, u32 contributions, u32 tile, u32 count, u32 rounded, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    float sums[4][8];
    // Adding to -0 changes nothing.
#pragma unroll
    for (u32 i = 0; i < 32; ++i) sums[i / 8][i % 8] = -0.0f;
#pragma unroll 1
    for (u32 number = 0; number < contributions; ++number) {
        const Frame* frame = frames + number;
        uint4 v[4];
        if (frame->fixed) take_tile<FULL>(frame, tile, count, v, shared);
        else load_values<FULL>(at<const u8>(frame->dynamic) + (u64)tile * (2 * Window7::TILE), count, v, &shared->stage);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sums[j][i] = add(sums[j][i], bf16_to_f32(words[i / 2], i & 1));
        }
        // The next one may use the stage.
        if (!FULL) __syncthreads();
    }
    const u64 first_value = (u64)tile * Window7::TILE + warp_id() * GROUP;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) store_sums<FULL>(frames, first_value + pieces.first(j), FULL ? 8 : pieces.live(j), sums[j], rounded);
}

// Adds up `contributions` frames, or values as they are, in FP32 and in their order. The frames of an output follow each
// other; the first one has the address of the output, FP32 or, if `rounded`, BF16. After `window7_open`; a block per tile.
extern "C" __global__ void __launch_bounds__(256, 2)
window7_reduce_bf16(const Frame* frames, u32 output_count, u32 contributions, u32 rounded) {
    __shared__ DecodeShared shared;
    const Frame* first = frame_of(frames, output_count, blockIdx.x, contributions);
    const u32 tile = blockIdx.x - first->first_tile;
    const u32 count = values_of_tile<Window7>(first->count, tile);
    if (count == Window7::TILE) reduce_tile<true>(first, contributions, tile, count, rounded, &shared);
}

// The last tiles of the outputs, where they are not full: a block per output. A kernel of its own, because it takes more
// registers.
extern "C" __global__ void __launch_bounds__(256, 1)
window7_reduce_last_bf16(const Frame* frames, u32 output_count, u32 contributions, u32 rounded) {
    __shared__ DecodeShared shared;
    const Frame* first = frames + blockIdx.x * contributions;
    const u32 tile = first->tile_count - 1, count = values_of_tile<Window7>(first->count, tile);
    if (count < Window7::TILE) reduce_tile<false>(first, contributions, tile, count, rounded, &shared);
}
