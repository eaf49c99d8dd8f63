// Encoders of codebook16.

#define NO_CODE 16u // in place of the code of an escape
#define ROW_IS_FULL 0x80000000u

template <class Format> struct EncodeShared {
    Stage stage;
    u8 list[Format::TILES][Format::LIST]; // what a tile has in the dynamic section
    u64 sums[Format::WARPS];
    u32 escapes[Format::WARPS]; // of each warp, and ROW_IS_FULL if all values of a row are escapes
    u8 codes[256];              // of exponents, or NO_CODE
    u64 offset;
};

struct Packed {
    u32 codes[4];
    u32 escaped[4]; // the lowest bit of the code of each escape
    u32 totals[2];  // escapes of rows 0 and 1, and of 2 and 3, in 16 bits each
    u32 before;     // escapes of each row before this lane, a byte each
};

// Codes of a piece where the book is a run of exponents from `first` on: those of the values 0, 2, 4, 6 and 1, 3, 5, 7, a byte
// each; bit 4 is set if there is none, and the bits below are then 0.
DEVICE void codes_of_run(const uint4& piece, u32 first, u32* even, u32* odd) {
    const u32 mask = 0x7f807f80u, less = ((0u - (first << 7)) & 0xffffu) * 0x00010001u, most = (NO_CODE << 7) * 0x00010001u;
    const u32 a = __viaddmin_u16x2(piece.x & mask, less, most), b = __viaddmin_u16x2(piece.y & mask, less, most);
    const u32 c = __viaddmin_u16x2(piece.z & mask, less, most), d = __viaddmin_u16x2(piece.w & mask, less, most);
    const u32 low = (a >> 7) + (b << 1), high = (c >> 7) + (d << 1);
    *even = __byte_perm(low, high, 0x5410);
    *odd = __byte_perm(low, high, 0x7632);
}

// Codes of four FP8 values whose book is a run of exponents. Exponents are below 32, so no byte carries into the next.
DEVICE u32 codes_of_run(u32 exponents, u32 first) {
    const u32 less = (exponents + (0x80 - first) * 0x01010101u) ^ 0x80808080u, out = less & 0x10101010u;
    return less & ~(out - (out >> 4));
}
DEVICE void codes_of_run(const uint2& piece, u32 first, u32* even, u32* odd) {
    const u32 low = codes_of_run(piece.x >> E5m2::SHIFT & 0x1f1f1f1fu, first);
    const u32 high = codes_of_run(piece.y >> E5m2::SHIFT & 0x1f1f1f1fu, first);
    *even = __byte_perm(low, high, 0x6420);
    *odd = __byte_perm(low, high, 0x7531);
}

// The same for any book.
template <class Type> DEVICE void codes_of_any(const typename Type::Piece& piece, const u8* codes, u32* even, u32* odd) {
    *even = *odd = 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        *even += (u32)codes[exponent_of<Type>(piece, 2 * k)] << 8 * k;
        *odd += (u32)codes[exponent_of<Type>(piece, 2 * k + 1)] << 8 * k;
    }
}

// Codes of all pieces.
template <class Type, bool FULL, bool RUN_BOOK>
DEVICE void pack(const typename Type::Piece* v, const Seat& seat, u32 first, const u8* codes, Packed* packed) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        u32 even, odd;
        if (RUN_BOOK) codes_of_run(v[j], first, &even, &odd);
        else codes_of_any<Type>(v[j], codes, &even, &odd);
        packed->codes[j] = merge(0x0f0f0f0fu, even, odd << 4);
        packed->escaped[j] = merge(0x10101010u, odd, even >> 4) & 0x11111111u;
        if (FULL) continue;
        // Absent values have code 0.
        const u32 live = seat.live(j), kept = (u32)((1ull << 4 * live) - 1);
        packed->codes[j] &= kept;
        packed->escaped[j] &= kept;
    }
}

// Bytes 0 and 1 or 2 and 3, in 16 bits each.
DEVICE u32 pair_of_bytes(u32 bytes, u32 k) { return __byte_perm(bytes, 0, k ? 0x4342 : 0x4140); }

// How many escapes there are, in rows and before this lane. A row has at most 256, so at most 248 are before a lane: a byte
// holds these, whatever carries into the next byte on the way.
DEVICE void count_escapes(Packed* packed) {
    const u32* m = packed->escaped;
    const u32 own = __popc(m[0]) | __popc(m[1]) << 8 | __popc(m[2]) << 16 | __popc(m[3]) << 24;
    u32 all;
    packed->before = warp_scan(own, &all);
    const u32 last_before = __shfl_sync(ALL, packed->before, 31), last = __shfl_sync(ALL, own, 31);
#pragma unroll
    for (u32 k = 0; k < 2; ++k) packed->totals[k] = pair_of_bytes(last_before, k) + pair_of_bytes(last, k);
}
DEVICE u32 row_total(const Packed& packed, u32 j) { return packed.totals[j / 2] >> 16 * (j & 1) & 0xffffu; }

// Coding of a tile.
struct Choice {
    u32 escapes, form, length; // `length` is that of its part of the dynamic section
    bool is_stored;
};

template <class Format> DEVICE Choice choose(const u32* escapes_of_warps, u32 count) {
    Choice choice;
    u32 escapes = 0, rows = 0;
#pragma unroll
    for (u32 warp = 0; warp < TILE_WARPS; ++warp) {
        escapes += escapes_of_warps[warp] & ~ROW_IS_FULL;
        rows |= escapes_of_warps[warp] & ROW_IS_FULL;
    }
    const u32 wide = Format::list_len(WIDE, count, escapes), narrow = Format::list_len(NARROW, count, escapes);
    choice.escapes = escapes;
    choice.form = !rows && narrow < wide ? NARROW : WIDE;
    choice.length = choice.form == NARROW ? narrow : wide;
    choice.is_stored = !Format::CODED || Format::coded_len(count) + choice.length >= Format::WIDTH * count;
    if (choice.is_stored) choice.length = Format::stored_rest(count);
    return choice;
}

// Writes the list of a tile's escapes, those of this warp. `escapes` are those of all warps.
template <class Type>
DEVICE void write_list(const typename Type::Piece* v, const Seat& seat, const Packed& packed, const Choice& choice, const u32* escapes, u8* list) {
    u32 before = 0;
#pragma unroll
    for (u32 warp = 0; warp < TILE_WARPS - 1; ++warp) before += warp < seat.warp ? escapes[warp] & ~ROW_IS_FULL : 0;
    const bool is_narrow = choice.form == NARROW;
    const u32 chunks = is_narrow ? (seat.count + CHUNK - 1) / CHUNK : 0, width = is_narrow ? 1 : 2;
    u8* exponents = list + chunks + width * choice.escapes;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 chunk = 4 * seat.warp + j;
        if (lane_id() == 0 && chunk < chunks) list[chunk] = (u8)row_total(packed, j);
        u32 place = before + (packed.before >> 8 * j & 0xffu);
        for (u32 left = packed.escaped[j]; left; left &= left - 1, ++place) {
            const u32 i = ((u32)__ffs((int)left) - 1) / 4, position = seat.first(j) + i;
            u8* at = list + chunks + width * place;
            at[0] = (u8)position;
            if (!is_narrow) at[1] = (u8)(position >> 8);
            exponents[place] = (u8)exponent_of<Type>(v[j], i);
        }
        before += row_total(packed, j);
    }
}

// Four bits from the lowest bits of four bytes, and the reverse.
DEVICE u32 together(u32 bytes) { return (bytes & 0x01010101u) * 0x10204080u >> 28; }
DEVICE u32 spread(u32 bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }

// Which bit of a value of FP8 is in plane `plane`: mantissa, then sign.
template <class Type> DEVICE u32 bit_of(u32 plane) { return plane + 1 < Type::PLANES ? plane : 7; }

// The byte of a piece in plane `plane`, from the first byte of the tile's rests on.
template <class Type> DEVICE u32 plane_at(u32 first, u32 plane) { return (first / 64 * Type::PLANES + plane) * 8 + first % 64 / 8; }

// Writes rests of a piece.
template <class Type, bool STREAMED> DEVICE void store_rest(const uint4& v, u32 first, u8* rest) {
    const u32 words[4] = {v.x, v.y, v.z, v.w};
    u32 bytes[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) bytes[k] = merge(0x00800080u, words[k] >> 8, words[k]);
    const uint2 both = make_uint2(__byte_perm(bytes[0], bytes[1], 0x6420), __byte_perm(bytes[2], bytes[3], 0x6420));
    if (STREAMED) __stcs((uint2*)(rest + first), both);
    else *(uint2*)(rest + first) = both;
}
template <class Type, bool STREAMED> DEVICE void store_rest(const uint2& v, u32 first, u8* rest) {
#pragma unroll
    for (u32 plane = 0; plane < Type::PLANES; ++plane) {
        const u32 bit = bit_of<Type>(plane);
        rest[plane_at<Type>(first, plane)] = (u8)(together(v.x >> bit) | together(v.y >> bit) << 4);
    }
}

// Writes rests and codes of a thread: of a full tile to its body, of another one to the stage.
template <class Format, bool FULL>
DEVICE void store_coded(const typename Format::Piece* v, const Seat& seat, const Packed& packed, u8* stage, u8* body) {
    u8* to = FULL ? body : stage;
    // Bytes of planes go over the stage: of a warp, all of it are vectors.
    const bool is_collected = FULL && Format::PLANES;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        store_rest<Format, FULL>(v[j], seat.first(j), is_collected ? stage : to);
        u32* codes = (u32*)(to + Format::FULL_REST + seat.first(j) / 2);
        if (FULL) __stcs(codes, packed.codes[j]);
        else *codes = packed.codes[j];
    }
    if (is_collected) {
        __syncwarp();
        const u32 vectors = GROUP / 8 * Format::PLANES / 16, at = seat.warp * vectors + lane_id();
        if (lane_id() < vectors) __stcs((uint4*)body + at, ((const uint4*)stage)[at]);
    }
}

// Adds the sums over the values of a block's warps to the checksum, by one thread.
template <class Format> DEVICE void add_sums(State* state, const u64* sums) {
    if (threadIdx.x != 0) return;
    u64 all = 0;
    for (u32 warp = 0; warp < Format::WARPS; ++warp) all += sums[warp];
    atomicAdd(&state->values, fold(all));
}

template <class Format, bool FULL> DEVICE void encode_block(const Frame* frame, u32 block, u32 count, EncodeShared<Format>* shared) {
    typedef typename Format::Piece Piece;
    State* state = state_of(frame);
    const Seat seat = Seat::of<Format>(count);
    const u32 tile_bytes = Format::WIDTH * TILE_VALUES;
    u8* fixed = at<u8>(frame->fixed);
    u8* stage = (u8*)shared->stage.bytes + seat.tile * tile_bytes;
    const u8* values = at<const u8>(frame->values) + ((u64)block * Format::TILES + seat.tile) * tile_bytes;
    if (!FULL) {
#pragma unroll 1
        for (u32 i = seat.thread; i < tile_bytes; i += TILE_THREADS) stage[i] = i < Format::WIDTH * seat.count ? values[i] : 0;
        __syncthreads();
    }
    Piece v[4];
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        if (FULL) v[j] = __ldcs((const Piece*)(values + Format::WIDTH * seat.first(j)));
        else v[j] = *(const Piece*)(stage + Format::WIDTH * seat.first(j));
    }
    Packed packed = {};
    if (Format::CODED) {
        const uint4 book = *(const uint4*)(fixed + BOOK_AT);
        const u32 first = book.x & 0xffu;
        if ((book.w >> 24) - first == BOOK_LEN - 1) {
            pack<Format, FULL, true>(v, seat, first, shared->codes, &packed);
        } else {
            if (threadIdx.x < 256) shared->codes[threadIdx.x] = NO_CODE;
            __syncthreads();
            if (threadIdx.x < BOOK_LEN) shared->codes[fixed[BOOK_AT + threadIdx.x]] = (u8)threadIdx.x;
            __syncthreads();
            pack<Format, FULL, false>(v, seat, first, shared->codes, &packed);
        }
        count_escapes(&packed);
    }
    const u64 sum = warp_sum(mix_values<Format, FULL>(v, seat, block));
    if (lane_id() == 0) {
        shared->sums[warp_id()] = sum;
        u32 escapes = 0;
        if (Format::CODED) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) escapes = (escapes + row_total(packed, j)) | (row_total(packed, j) == CHUNK ? ROW_IS_FULL : 0);
        }
        shared->escapes[warp_id()] = escapes;
    }
    __syncthreads();
    add_sums<Format>(state, shared->sums);
    const u32* escapes_of_warps = shared->escapes + seat.tile * TILE_WARPS;
    const Choice choice = choose<Format>(escapes_of_warps, seat.count);
    u32 before_tile = 0, of_block = choice.length;
    if (Format::TILES == 2) {
        const u32 of_other = choose<Format>(shared->escapes + (seat.tile ^ 1) * TILE_WARPS, Format::values_of(count, seat.tile ^ 1)).length;
        before_tile = seat.tile ? of_other : 0;
        of_block += of_other;
    }
    // Others wait for the length, so it comes first; the list is made while theirs come.
    if (threadIdx.x == 0) publish_length(at<u64>(frame->tiles_state), block, of_block);
    u8* list = shared->list[seat.tile];
    if (Format::CODED && !choice.is_stored && choice.escapes) write_list<Format>(v, seat, packed, choice, escapes_of_warps, list);
    __syncwarp();
    if (warp_id() == 0) {
        const u64 offset = sum_before(at<u64>(frame->tiles_state), block, of_block);
        if (lane_id() == 0) {
            shared->offset = offset;
            if (block == frame->tile_count - 1) *at<u64>(frame->size) = offset + of_block;
        }
    }
    if (seat.thread == 0 && seat.count) {
        u16* entry = (u16*)(fixed + TABLE_AT + ((u64)block * Format::TILES + seat.tile) * ENTRY_LEN);
        entry[0] = (u16)(choice.is_stored ? MODE_STORED : MODE_CODED | choice.form << 8);
        entry[1] = (u16)(choice.is_stored ? 0 : choice.escapes);
        entry[2] = (u16)(choice.is_stored ? 0 : seat.count);
    }
    u8* body = fixed + front_len<Format>(frame->count) + ((u64)block * Format::TILES + seat.tile) * Format::static_body(TILE_VALUES);
    if (Format::CODED && !choice.is_stored) store_coded<Format, FULL>(v, seat, packed, stage, body);
    if (!Format::CODED && FULL) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) __stcs((Piece*)(body + Format::WIDTH * seat.first(j)), v[j]);
        return;
    }
    __syncthreads();
    u8* dynamic = at<u8>(frame->dynamic) + shared->offset + before_tile;
    if (choice.is_stored) {
        // The address is made again, as few tiles need it so late.
        const u8* again = at<const u8>(frame->values) + ((u64)block * Format::TILES + seat.tile) * tile_bytes;
        const u32 in_body = Format::static_body(seat.count);
        copy_by_tile(body, again, in_body, seat.thread);
        copy_by_tile(dynamic, again + in_body, choice.length, seat.thread);
    } else {
        if (!FULL) {
            const u32 rest = Format::rest_len(seat.count);
            copy_by_tile(body, stage, rest, seat.thread);
            copy_by_tile(body + rest, stage + Format::FULL_REST, (seat.count + 1) / 2, seat.thread);
        }
        copy_by_tile(dynamic, list, choice.length, seat.thread);
    }
}

// Writes the frames of a batch, but for what `seal_frames` adds. A block of threads per 16 KiB of values.
template <class Type> DEVICE void encode_frames(const Frame* frames, u32 frame_count) {
    typedef Codebook16<Type> Format;
    __shared__ EncodeShared<Format> shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 block = own_number() - frame->first_tile;
    const u32 count = values_of_tile<Format>(frame->count, block);
    if (count == Format::TILE) encode_block<Format, true>(frame, block, Format::TILE, &shared);
    else encode_block<Format, false>(frame, block, count, &shared);
}
