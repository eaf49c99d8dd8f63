// codebook16 (SplitZip), BF16, F8_E5M2 and F8_E4M3: four bits of code for exponents that are in a book of
// sixteen, sign and mantissa as they are, and a list of the escapes.
//
// A block of threads has 16 KiB of values, which is a part of the checksum: a tile of 8192 values of BF16, two of FP8. A
// tile has eight warps; a lane has a piece of eight values in each 256 of the warp's 1024, so a piece has a word of codes, and
// a row of pieces is what positions of the narrow form count from. Values stay in registers from the load to the codes.
//
// The book is in the front matter before the encoder starts: `codebook16_book` makes it from a sample of the frame, or the
// host has written one.

#define TILE_VALUES 8192u
#define TILE_THREADS 256u
#define TILE_WARPS 8u
#define GROUP 1024u // values of a warp
#define CHUNK 256u
#define BOOK_AT HEADER_BYTES
#define BOOK_LEN 16u
#define TABLE_AT (BOOK_AT + BOOK_LEN)
#define ENTRY_LEN 6u
#define MODE_CODED 0u
#define MODE_STORED 1u
#define WIDE 0u
#define NARROW 1u

// ---- Types ------------------------------------------------------------------------------------------------------

// A piece is eight values. The exponent begins at bit SHIFT of a value and is below EXPONENTS. The rest of FP8 is in PLANES of
// bits. CODED is whether a tile can become shorter.
struct Bf16 {
    typedef uint4 Piece;
    static const u32 DTYPE = 0, WIDTH = 2, SHIFT = 7, EXPONENTS = 256, PLANES = 0;
    static const bool CODED = true;
};
struct E5m2 {
    typedef uint2 Piece;
    static const u32 DTYPE = 4, WIDTH = 1, SHIFT = 2, EXPONENTS = 32, PLANES = 3;
    static const bool CODED = true;
};
struct E4m3 {
    typedef uint2 Piece;
    static const u32 DTYPE = 3, WIDTH = 1, SHIFT = 3, EXPONENTS = 16, PLANES = 4;
    static const bool CODED = false;
};

// The codec with a type. A tile of common.cuh is the work of a block of threads: TILES tiles of the format.
template <class Type> struct Codebook16 : Type {
    static const u32 TILES = 2 / Type::WIDTH, TILE = TILES * TILE_VALUES, ENTRY = TILES * ENTRY_LEN, CODEC = 3, COMMON_LEN = 0;
    static const u32 THREADS = TILES * TILE_THREADS, WARPS = TILES * TILE_WARPS;
    // Bytes of a full tile: rests, rests and codes, and the longest list of escapes that pays.
    static const u32 FULL_REST = Type::PLANES ? Type::PLANES * TILE_VALUES / 8 : TILE_VALUES;
    static const u32 FULL_CODED = FULL_REST + TILE_VALUES / 2;
    static const u32 LIST = Type::CODED ? Type::WIDTH * TILE_VALUES - FULL_CODED : 16;

    DEVICE u64 table_at() { return TABLE_AT; }
    DEVICE u64 front_end(u64 count) { return TABLE_AT + ENTRY_LEN * ((count + TILE_VALUES - 1) / TILE_VALUES); }
    DEVICE u32 rest_len(u32 count) { return Type::PLANES ? 8 * Type::PLANES * ((count + 63) / 64) : count; }
    DEVICE u32 coded_len(u32 count) { return rest_len(count) + (count + 1) / 2; }
    DEVICE bool has_codes(u32 count) { return Type::CODED && coded_len(count) < Type::WIDTH * count; }
    DEVICE u32 static_body(u32 count) { return has_codes(count) ? coded_len(count) : Type::WIDTH * count; }
    DEVICE u32 rests_at(u32) { return 0; }
    DEVICE bool is_stored(const u8* entry) { return entry[0] == MODE_STORED; }
    DEVICE bool needs_common(const u8*) { return false; }
    DEVICE u32 stored_rest(u32 count) { return Type::WIDTH * count - static_body(count); }
    DEVICE u32 list_len(u32 form, u32 count, u32 escapes) {
        return form == WIDE ? 3 * escapes : (count + CHUNK - 1) / CHUNK + 2 * escapes;
    }
    // Values of a block's tile `tile`, of `count` that the block has.
    DEVICE u32 values_of(u32 count, u32 tile) {
        const u32 before = tile * TILE_VALUES;
        return count <= before ? 0 : count - before < TILE_VALUES ? count - before : TILE_VALUES;
    }

    // Entry: mode, form, number of escapes, number of coded values.
    DEVICE u32 entry_len(const u8* entry, u32 count, u32* fault) {
        const u32 mode = entry[0], form = entry[1], escapes = entry[2] | (u32)entry[3] << 8, coded = entry[4] | (u32)entry[5] << 8;
        if (mode == MODE_STORED && form == WIDE && escapes == 0 && coded == 0) return stored_rest(count);
        const bool fits = mode == MODE_CODED && has_codes(count) && coded == count && escapes <= count;
        if (!fits || form > NARROW || (form == NARROW && escapes == 0)) {
            *fault = FAULT_TILE;
            return 0;
        }
        return list_len(form, count, escapes);
    }
    DEVICE u32 dynamic_len(const u8* entries, u32 count, u32* fault) {
        u32 sum = 0;
        for (u32 tile = 0; tile < TILES; ++tile) {
            const u32 of_tile = values_of(count, tile);
            if (of_tile) sum += entry_len(entries + tile * ENTRY_LEN, of_tile, fault);
        }
        return sum;
    }
};

// Where a thread is: which tile of its block, which warp of the tile, and which values of the tile are its own.
struct Seat {
    u32 tile, warp, thread;
    u32 count; // values of the tile
    template <class Format> DEVICE Seat of(u32 block_values) {
        Seat seat;
        seat.tile = threadIdx.x / TILE_THREADS;
        seat.warp = warp_id() % TILE_WARPS;
        seat.thread = threadIdx.x % TILE_THREADS;
        seat.count = Format::values_of(block_values, seat.tile);
        return seat;
    }
    // The first value of the piece in row `j`, and how many values it has, at most eight.
    __device__ __forceinline__ u32 first(u32 j) const { return GROUP * warp + CHUNK * j + 8 * lane_id(); }
    __device__ __forceinline__ u32 live(u32 j) const {
        const u32 at = first(j);
        return count <= at ? 0 : count - at < 8 ? count - at : 8;
    }
};

// Room for a block's values, or for rests and codes of its tiles where vectors cannot reach them.
struct Stage {
    uint4 bytes[1024];
};

// Copies bytes by the threads of a tile.
DEVICE void copy_by_tile(u8* to, const u8* from, u32 count, u32 thread) {
#pragma unroll 1
    for (u32 i = thread; i < count; i += TILE_THREADS) to[i] = from[i];
}

// ---- Pieces -----------------------------------------------------------------------------------------------------

// The word of a piece that value `i` is in, and how far it is shifted there.
DEVICE u32 word_with(const uint4& piece, u32 i) {
    u32 word = piece.x;
    if (i >= 2) word = piece.y;
    if (i >= 4) word = piece.z;
    if (i >= 6) word = piece.w;
    return word;
}
DEVICE u32 word_with(const uint2& piece, u32 i) { return i < 4 ? piece.x : piece.y; }

template <class Type> DEVICE u32 shift_of(u32 i) { return 8 * Type::WIDTH * (i & (4 / Type::WIDTH - 1)) + Type::SHIFT; }

template <class Type> DEVICE u32 exponent_of(const typename Type::Piece& piece, u32 i) {
    return word_with(piece, i) >> shift_of<Type>(i) & (Type::EXPONENTS - 1);
}

DEVICE void clear(uint4* piece) { *piece = make_uint4(0, 0, 0, 0); }
DEVICE void clear(uint2* piece) { *piece = make_uint2(0, 0); }
template <class Piece> DEVICE void clear_all(Piece* v) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) clear(v + j);
}

// Zeros in place of the values that are not there.
DEVICE u32 live_bits(u32 word, u32 bits, u32 k) { return bits >= 32 * (k + 1) ? word : bits <= 32 * k ? 0u : word & ((1u << bits % 32) - 1); }
DEVICE void keep_live(uint4* piece, u32 live) {
    piece->x = live_bits(piece->x, 16 * live, 0);
    piece->y = live_bits(piece->y, 16 * live, 1);
    piece->z = live_bits(piece->z, 16 * live, 2);
    piece->w = live_bits(piece->w, 16 * live, 3);
}
DEVICE void keep_live(uint2* piece, u32 live) {
    piece->x = live_bits(piece->x, 8 * live, 0);
    piece->y = live_bits(piece->y, 8 * live, 1);
}

// The same for all pieces of a thread: what is absent does not count.
template <class Piece> DEVICE void keep_all_live(Piece* v, const Seat& seat) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) keep_live(v + j, seat.live(j));
}

// The sum over the words of a piece that are there; `first` is the key of the first.
DEVICE u64 mix_piece(const uint4& piece, u64 first, u32 live) {
    u64 sum = 0;
    if (live > 0) sum += mix(word_of(piece.x, piece.y), first);
    if (live > 4) sum += mix(word_of(piece.z, piece.w), first + KEY_STEP);
    return sum;
}
DEVICE u64 mix_piece(const uint2& piece, u64 first, u32 live) { return live > 0 ? mix(word_of(piece.x, piece.y), first) : 0; }

// The sum over the values of a thread.
template <class Format, bool FULL> DEVICE u64 mix_values(const typename Format::Piece* v, const Seat& seat, u64 block) {
    const u64 block_words = Format::TILE * Format::WIDTH / 8, tile_words = TILE_VALUES * Format::WIDTH / 8;
    const u64 first = block * block_words + seat.tile * tile_words;
    u64 sum = 0;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) sum += mix_piece(v[j], key(first + seat.first(j) * Format::WIDTH / 8), FULL ? 8 : seat.live(j));
    return sum;
}
