// window7 (ZipCCL, section 4): a sign-mantissa byte and three bits of exponent per value.
//
// An F32 value is coded by its *upper half*, which is a BF16 value; its *lower half* is stored as it comes, and all else sees
// upper halves only.
//
// A block of 256 threads has a tile of 8192 values: a warp has a group of 1024, a lane four pieces of eight. They stay in
// registers from the load to the codes, so values are read once. Two exponents share a register; eight codes make a word
// of nibbles, of which the fourth is spread over the spare bits of the other three.
//
// The window is the best one of the tile, as the CPU chooses it. The one that some tile of the frame had chosen is tried,
// and what falls outside mostly proves it the best; a histogram decides only where that fails.

#define TILE_VALUES 8192u
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

// Bytes of the starts of windows that each 512 values have of their own.
DEVICE u32 windows_len(u32 start, u32 count) { return start == OWN_WINDOWS ? (count + 511) / 512 : 0u; }

// The codec with a type. `LOWER` is the bytes of a lower half: none of BF16.
template <u32 TYPE, u32 LOWER_BYTES> struct Window7 {
    static const u32 TILE = TILE_VALUES, ENTRY = 4, CODEC = 1, DTYPE = TYPE, LOWER = LOWER_BYTES, WIDTH = 2 + LOWER_BYTES, COMMON_LEN = 0;
    DEVICE u64 tile_count(u64 count) { return (count + TILE - 1) / TILE; }
    DEVICE u64 table_at() { return HEADER_BYTES; }
    DEVICE u64 index_at(u64 count) { return table_at() + ENTRY * tile_count(count); }
    DEVICE u64 front_end(u64 count) { return index_at(count) + 2 * ((count + 511) / 512); }
    DEVICE bool has_codes(u32 count) { return codes_len(count) < count; }
    DEVICE u32 static_body(u32 count) { return has_codes(count) ? (LOWER + 1) * count + codes_len(count) : WIDTH * count; }
    DEVICE u32 rests_at(u32) { return 0; }
    DEVICE bool is_stored(const u8* entry) { return entry[1] == MODE_STORED; }
    DEVICE bool needs_common(const u8*) { return false; }

    // Entry: start, mode, number of escapes.
    DEVICE u32 dynamic_len(const u8* entry, u32 count, u32* fault) {
        const u32 start = entry[0], mode = entry[1], escapes = entry[2] | (u32)entry[3] << 8;
        if (mode == MODE_STORED && start == 0 && escapes == 0) return WIDTH * count - static_body(count);
        const bool fits = mode == MODE_CODED && has_codes(count) && escapes <= count;
        if (!fits || (start > LAST_START && start != OWN_WINDOWS)) *fault = FAULT_TILE;
        return *fault ? 0 : windows_len(start, count) + escapes;
    }
};

typedef Window7<0, 0> Bf16;
typedef Window7<2, 2> F32;

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

// Room for the tiles whose parts are not where vectors can be: the last tile of a frame, and stored ones. A tile's values if they
// have two bytes, or its sign-mantissa bytes and, from CODES_AT on, its codes.
#define CODES_AT 8192u
struct Stage {
    uint4 bytes[2 * TILE_VALUES / 16];
};

// Copies bytes by all threads. A barrier is at the end.
DEVICE void copy_bytes(u8* to, const u8* from, u32 count) {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count; i += THREADS) to[i] = from[i];
    __syncthreads();
}

// ---- Values of a lane --------------------------------------------------------------------------------------------
//
// Four pieces: those of BF16 in `v`, of F32 upper halves in `v` and lower halves in `lower`.

// The first and the second four values of a piece of F32.
struct Wide {
    uint4 first, second;
    DEVICE Wide of(const uint4& upper, const uint4& lower) {
        Wide wide;
        wide.first = make_uint4(__byte_perm(lower.x, upper.x, 0x5410), __byte_perm(lower.x, upper.x, 0x7632),
                                __byte_perm(lower.y, upper.y, 0x5410), __byte_perm(lower.y, upper.y, 0x7632));
        wide.second = make_uint4(__byte_perm(lower.z, upper.z, 0x5410), __byte_perm(lower.z, upper.z, 0x7632),
                                 __byte_perm(lower.w, upper.w, 0x5410), __byte_perm(lower.w, upper.w, 0x7632));
        return wide;
    }
    __device__ __forceinline__ uint4 upper() const {
        return make_uint4(__byte_perm(first.x, first.y, 0x7632), __byte_perm(first.z, first.w, 0x7632),
                          __byte_perm(second.x, second.y, 0x7632), __byte_perm(second.z, second.w, 0x7632));
    }
    __device__ __forceinline__ uint4 lower() const {
        return make_uint4(__byte_perm(first.x, first.y, 0x5410), __byte_perm(first.z, first.w, 0x5410),
                          __byte_perm(second.x, second.y, 0x5410), __byte_perm(second.z, second.w, 0x5410));
    }
};

// Zeros in place of what is not there.
DEVICE void keep_live(uint4* v, const Pieces& pieces) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 live = pieces.live(j);
        v[j].x = live_pair(v[j].x, 0, live);
        v[j].y = live_pair(v[j].y, 1, live);
        v[j].z = live_pair(v[j].z, 2, live);
        v[j].w = live_pair(v[j].w, 3, live);
    }
}

// Loads BF16 values of a tile as they are. Where it is not full, they go through the stage, and what is not there is anything.
template <bool FULL> DEVICE void load_values(const u8* values, u32 count, const Pieces& pieces, uint4* v, Stage* stage) {
    if (!FULL) copy_bytes((u8*)stage->bytes, values, 2 * count);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 first = warp_id() * GROUP + pieces.first(j);
        if (FULL) v[j] = __ldcs((const uint4*)(values + 2 * first));
        else v[j] = lane_id() < pieces.lanes ? stage->bytes[first / 8] : make_uint4(0, 0, 0, 0);
    }
}

// Loads piece `j` of F32 values as they are; zeros where there is nothing.
template <bool FULL> DEVICE Wide load_wide(const u8* values, const Pieces& pieces, u32 j) {
    const u32 first = warp_id() * GROUP + pieces.first(j), live = pieces.live(j);
    Wide wide;
    if (FULL) {
        wide.first = __ldcs((const uint4*)(values + 4 * first));
        wide.second = __ldcs((const uint4*)(values + 4 * first) + 1);
        return wide;
    }
    u32 words[8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i) words[i] = i < live ? ((const u32*)values)[first + i] : 0;
    wide.first = make_uint4(words[0], words[1], words[2], words[3]);
    wide.second = make_uint4(words[4], words[5], words[6], words[7]);
    return wide;
}

// Writes piece `j` of F32 values.
template <bool FULL> DEVICE void store_wide(u8* values, const Pieces& pieces, u32 j, const Wide& wide) {
    const u32 first = warp_id() * GROUP + pieces.first(j), live = pieces.live(j);
    if (FULL) {
        __stcs((uint4*)(values + 4 * first), wide.first);
        __stcs((uint4*)(values + 4 * first) + 1, wide.second);
        return;
    }
    const u32 words[8] = {wide.first.x,  wide.first.y,  wide.first.z,  wide.first.w,
                          wide.second.x, wide.second.y, wide.second.z, wide.second.w};
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        if (i < live) ((u32*)values)[first + i] = words[i];
}

// The key of the first word of piece `j`.
template <class Format> DEVICE u64 key_of_piece(const Pieces& pieces, u64 tile, u32 j) {
    const u64 first = tile * (TILE_VALUES / 8 * Format::WIDTH) + warp_id() * (GROUP / 8 * Format::WIDTH);
    return key(first + pieces.first(j) * Format::WIDTH / 8);
}

// Adds the sum over a piece of which `live` values are there, and what is not there is zero.
DEVICE void add_piece(u64* sum, const uint4& v, u64 first, u32 live) {
    if (live > 0) *sum += mix(word_of(v.x, v.y), first);
    if (live > 4) *sum += mix(word_of(v.z, v.w), first + KEY_STEP);
}
DEVICE void add_piece(u64* sum, const Wide& v, u64 first, u32 live) {
    if (live > 0) *sum += mix(word_of(v.first.x, v.first.y), first);
    if (live > 2) *sum += mix(word_of(v.first.z, v.first.w), first + KEY_STEP);
    if (live > 4) *sum += mix(word_of(v.second.x, v.second.y), first + 2 * KEY_STEP);
    if (live > 6) *sum += mix(word_of(v.second.z, v.second.w), first + 3 * KEY_STEP);
}

// The sum over the BF16 values of a lane.
template <bool FULL> DEVICE u64 mix_values(const uint4* v, const Pieces& pieces, u64 tile) {
    u64 sum = 0;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) add_piece(&sum, v[j], key_of_piece<Bf16>(pieces, tile, j), FULL ? 8 : pieces.live(j));
    return sum;
}

// The part of the checksum that a tile is, of sums over the values of its threads. The first warp has it, or 0 if it is not NEEDED; a barrier is
// inside.
template <class Format, bool NEEDED = true> DEVICE u32 fold_tile(u64 sum, u64* parts) {
    if (Format::WIDTH == 2 || !NEEDED) return fold(block_sum<NEEDED>(sum, parts));
    // Two parts of 16 KiB.
    sum = warp_sum(sum);
    __syncthreads();
    if (lane_id() == 0) parts[warp_id()] = sum;
    __syncthreads();
    if (warp_id() != 0) return 0;
    sum = lane_id() < WARPS ? parts[lane_id()] : 0ull;
    sum += __shfl_xor_sync(ALL, sum, 1);
    sum += __shfl_xor_sync(ALL, sum, 2);
    const u32 folded = fold(sum);
    return folded + __shfl_xor_sync(ALL, folded, 4);
}
