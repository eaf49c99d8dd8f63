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
