// Decoders of codebook16.

template <class Format> struct DecodeShared {
    Stage stage;
    u32 escaped[Format::THREADS]; // for each thread a bit per value: row `j` has the bits from `8 * j` on
    u64 parts[Format::WARPS];
};

// Rests of a thread's pieces. Of FP8, each byte of a word is eight values of a plane.
struct Rests {
    uint2 bytes[4]; // of BF16
    u32 planes[4];
};

// Four values of FP8 from their exponents and the planes of eight.
template <class Type> DEVICE u32 join_planes(u32 exponents, u32 planes, u32 half) {
    u32 word = exponents << Type::SHIFT;
#pragma unroll
    for (u32 plane = 0; plane < Type::PLANES; ++plane) word |= spread(planes >> (8 * plane + 4 * half)) << bit_of<Type>(plane);
    return word;
}

// A piece from its rests and the exponents of its first and last four values.
template <class Type> DEVICE void join(const Rests& rests, u32 j, u32 low, u32 high, uint4* v) {
    const u32 kept = 0x807f807fu;
    const uint2 rest = rests.bytes[j];
    v->x = merge(kept, __byte_perm(rest.x, 0, 0x1100), __byte_perm(low, 0, 0x4140) << 7);
    v->y = merge(kept, __byte_perm(rest.x, 0, 0x3322), __byte_perm(low, 0, 0x4342) << 7);
    v->z = merge(kept, __byte_perm(rest.y, 0, 0x1100), __byte_perm(high, 0, 0x4140) << 7);
    v->w = merge(kept, __byte_perm(rest.y, 0, 0x3322), __byte_perm(high, 0, 0x4342) << 7);
}
template <class Type> DEVICE void join(const Rests& rests, u32 j, u32 low, u32 high, uint2* v) {
    v->x = join_planes<Type>(low, rests.planes[j], 0);
    v->y = join_planes<Type>(high, rests.planes[j], 1);
}

// Four exponents from the book: nibbles select from the lower and from the upper half of it, and their highest bits between the
// two.
DEVICE u32 look_up(const uint4& book, u32 selectors, u32 halves) {
    return __byte_perm(__byte_perm(book.x, book.y, selectors), __byte_perm(book.z, book.w, selectors), halves);
}

// Which of a tile's escapes are in the group of this warp: from `from` to `to`. `rows` are where the rows of the narrow form
// begin.
struct Part {
    u32 from, to;
    u32 rows[4];
};

// False if the list contradicts itself. All lanes of a warp must call it.
DEVICE bool find_part(const u8* list, u32 form, const Seat& seat, u32 escapes, Part* part) {
    if (form == NARROW) {
        const u32 chunks = (seat.count + CHUNK - 1) / CHUNK;
        const u32 own = lane_id() < chunks ? list[lane_id()] : 0;
        u32 all;
        const u32 before = warp_scan(own, &all);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) part->rows[j] = __shfl_sync(ALL, before, 4 * seat.warp + j);
        part->from = part->rows[0];
        part->to = __shfl_sync(ALL, before + own, 4 * seat.warp + 3);
        return all == escapes;
    }
    // How many positions are below the first and the last of the group. Where positions do not ascend, these parts still have
    // all of them.
    const u32 first = GROUP * seat.warp, end = seat.warp == TILE_WARPS - 1 ? ~0u : first + GROUP;
    part->from = part->to = 0;
#pragma unroll 1
    for (u32 i = 0; i < escapes; i += 32) {
        const u32 k = i + lane_id();
        const bool is_there = k < escapes;
        const u32 position = is_there ? list[2 * k] | (u32)list[2 * k + 1] << 8 : 0;
        part->from += __popc(__ballot_sync(ALL, is_there && position < first));
        part->to += __popc(__ballot_sync(ALL, is_there && position < end));
    }
    return true;
}

// Marks the escapes of this warp in `escaped`, and puts their exponents where their values are in the group. False if a
// position or an exponent cannot be.
template <class Format> DEVICE bool mark(const u8* list, u32 form, const Seat& seat, u32 escapes, const Part& part, u32* escaped, u8* group) {
    const u32 chunks = (seat.count + CHUNK - 1) / CHUNK;
    const u8* positions = form == NARROW ? list + chunks : list;
    const u8* exponents = positions + (form == NARROW ? escapes : 2 * escapes);
    bool is_right = true;
    for (u32 k = part.from + lane_id(); k < part.to; k += 32) {
        u32 position;
        bool ascends;
        if (form == NARROW) {
            const u32 row = (k >= part.rows[1]) + (k >= part.rows[2]) + (k >= part.rows[3]);
            const u32 begin = row == 0 ? part.rows[0] : row == 1 ? part.rows[1] : row == 2 ? part.rows[2] : part.rows[3];
            position = GROUP * seat.warp + CHUNK * row + positions[k];
            ascends = k == begin || positions[k - 1] < positions[k];
        } else {
            position = positions[2 * k] | (u32)positions[2 * k + 1] << 8;
            ascends = k == 0 || (positions[2 * k - 2] | (u32)positions[2 * k - 1] << 8) < position;
        }
        const u32 exponent = exponents[k];
        if (!ascends || position / GROUP != seat.warp || position >= seat.count || exponent >= Format::EXPONENTS) {
            is_right = false;
            continue;
        }
        group[position % GROUP] = (u8)exponent;
        atomicOr(escaped + position % CHUNK / 8, 1u << (position % GROUP / CHUNK * 8 + position % 8));
    }
    return is_right;
}

// Codes and rests of a thread from a stage.
template <class Format> DEVICE bool load_staged(const Seat& seat, const u8* stage, Rests* rests, u32* codes) {
    bool is_right = true;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 first = seat.first(j), live = seat.live(j);
        codes[j] = live ? *(const u32*)(stage + Format::FULL_REST + first / 2) : 0;
        if (live < 8) {
            const u32 kept = (u32)((1ull << 4 * live) - 1);
            // Of the last byte, half may be padding. Bytes behind it are anything.
            const u32 padding = live % 2 ? 15u << 4 * live : 0;
            is_right &= (codes[j] & padding) == 0;
            codes[j] &= kept;
        }
        if (Format::PLANES == 0) {
            rests->bytes[j] = live ? *(const uint2*)(stage + first) : make_uint2(0, 0);
            continue;
        }
        rests->planes[j] = 0;
        if (first / 64 * 64 >= seat.count) continue;
#pragma unroll
        for (u32 plane = 0; plane < Format::PLANES; ++plane) {
            const u32 byte = stage[plane_at<Format>(first, plane)];
            is_right &= byte >> live == 0 || live == 8;
            rests->planes[j] |= byte << 8 * plane;
        }
    }
    return is_right;
}

// The values of a tile from rests, codes and its list of escapes. `group` is room for those of this warp, and `escaped`, all zero, for which these
// are. False if something is wrong; by whole warps.
template <class Format>
DEVICE bool join_coded(const Seat& seat, const uint4& book, const u8* list, u32 form, u32 escapes, const Rests& rests, const u32* codes, u8* group,
                       u32* escaped, typename Format::Piece* v) {
    bool is_right = true;
    u32 own = 0;
    if (escapes) {
        __syncwarp();
        Part part;
        const bool fits = find_part(list, form, seat, escapes, &part);
        is_right &= fits;
        if (fits) is_right &= mark<Format>(list, form, seat, escapes, part, escaped, group);
        __syncwarp();
        own = escaped[lane_id()];
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 selectors = codes[j] & 0x77777777u, halves = (codes[j] >> 1 & 0x44444444u) | 0x32103210u;
        u32 low = look_up(book, selectors, halves), high = look_up(book, selectors >> 16, halves >> 16);
        for (u32 left = own >> 8 * j & 0xffu; left; left &= left - 1) {
            const u32 i = (u32)__ffs((int)left) - 1, shift = 8 * (i & 3), mask = 0xffu << shift;
            const u32 bits = (u32)group[CHUNK * j + 8 * lane_id() + i] << shift;
            is_right &= (codes[j] >> 4 * i & 15u) == 0;
            if (i < 4) low = merge(mask, bits, low);
            else high = merge(mask, bits, high);
        }
        join<Format>(rests, j, low, high, v + j);
    }
    return is_right;
}

// The values of a block's tiles, as a thread of `encode_block` has them; a report and any values if something is wrong.
template <class Format, bool FULL>
DEVICE void read_block(const Frame* frame, u32 block, u32 count, typename Format::Piece* v, DecodeShared<Format>* shared) {
    typedef typename Format::Piece Piece;
    const Seat seat = Seat::of<Format>(count);
    const u8* fixed = at<const u8>(frame->fixed);
    const u64 tile = (u64)block * Format::TILES + seat.tile;
    const u8* body = fixed + front_len<Format>(frame->count) + tile * Format::static_body(TILE_VALUES);
    u8* stage = (u8*)shared->stage.bytes + seat.tile * (Format::WIDTH * TILE_VALUES);
    Rests rests;
    u32 codes[4];
    uint4 planes = make_uint4(0, 0, 0, 0);
    // Loads that depend on nothing come first.
    const u32 vectors = GROUP / 8 * Format::PLANES / 16;
    if (FULL && Format::CODED) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            codes[j] = __ldcs((const u32*)(body + Format::FULL_REST + seat.first(j) / 2));
            if (Format::PLANES == 0) rests.bytes[j] = __ldcs((const uint2*)(body + seat.first(j)));
        }
        // Of the same vector by the last lanes: a load under a condition keeps some compilers from ending.
        if (Format::PLANES) planes = __ldcs((const uint4*)body + seat.warp * vectors + (lane_id() < vectors ? lane_id() : 0));
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        if (FULL && !Format::CODED) v[j] = __ldcs((const Piece*)(body + Format::WIDTH * seat.first(j)));
    }
    const uint4 book = *(const uint4*)(fixed + BOOK_AT);
    const u16* entry = (const u16*)(fixed + TABLE_AT + tile * ENTRY_LEN);
    const u32 mode = seat.count ? entry[0] & 0xffu : MODE_STORED, form = seat.count ? entry[0] >> 8 : WIDE;
    const u32 escapes = seat.count ? entry[1] : 0;
    const u8* dynamic = at<const u8>(frame->dynamic) + at<const u64>(frame->tiles_state)[block];
    shared->escaped[threadIdx.x] = 0;
    if (is_refused_beside_loads(frame)) return clear_all(v);

    if (FULL && !Format::CODED) return;
    if (Format::TILES == 2 && seat.tile) {
        // The first tile is full if there is a second one.
        u32 fault = FAULT_NONE;
        dynamic += Format::entry_len((const u8*)(entry - ENTRY_LEN / 2), seat.count ? TILE_VALUES : Format::values_of(count, 0), &fault);
    }
    const bool is_stored = mode == MODE_STORED;
    bool is_right = true;
    if (!FULL || __syncthreads_or(is_stored)) {
        const u32 in_body = Format::static_body(seat.count), rest = Format::rest_len(seat.count);
        if (is_stored) {
            copy_by_tile(stage, body, in_body, seat.thread);
            copy_by_tile(stage + in_body, dynamic, Format::stored_rest(seat.count), seat.thread);
        } else if (!FULL) {
            copy_by_tile(stage, body, rest, seat.thread);
            copy_by_tile(stage + Format::FULL_REST, body + rest, (seat.count + 1) / 2, seat.thread);
        }
        __syncthreads();
        if (is_stored) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j)
                v[j] = *(const Piece*)(stage + Format::WIDTH * seat.first(j));
        } else if (!FULL) {
            is_right = load_staged<Format>(seat, stage, &rests, codes);
        }
        // The stage is used again.
        __syncthreads();
    }
    if (is_stored) return;
    u8* group = stage + GROUP * seat.warp;
    if (FULL && Format::PLANES) {
        if (lane_id() < vectors) ((uint4*)group)[lane_id()] = planes;
        __syncwarp();
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            rests.planes[j] = 0;
#pragma unroll
            for (u32 plane = 0; plane < Format::PLANES; ++plane)
                rests.planes[j] |= (u32)group[plane_at<Format>(CHUNK * j + 8 * lane_id(), plane)] << 8 * plane;
        }
        __syncwarp();
    }
    is_right &= join_coded<Format>(seat, book, dynamic, form, escapes, rests, codes, group, shared->escaped + 32 * warp_id(), v);
    if (!is_right) report(frame, FAULT_CODES);
}

template <class Format, bool FULL> DEVICE void decode_block(const Frame* frame, u32 block, u32 count, DecodeShared<Format>* shared) {
    typedef typename Format::Piece Piece;
    const Seat seat = Seat::of<Format>(count);
    const u32 tile_bytes = Format::WIDTH * TILE_VALUES;
    Piece v[4];
    read_block<Format, FULL>(frame, block, count, v, shared);
    u8* values = at<u8>(frame->values) + ((u64)block * Format::TILES + seat.tile) * tile_bytes;
    u8* stage = (u8*)shared->stage.bytes + seat.tile * tile_bytes;
    if (!FULL) {
        keep_all_live(v, seat);
        __syncthreads();
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        if (FULL) __stcs((Piece*)(values + Format::WIDTH * seat.first(j)), v[j]);
        else if (seat.live(j)) *(Piece*)(stage + Format::WIDTH * seat.first(j)) = v[j];
    }
    // A barrier is in it.
    const u64 sum = block_sum<CHECKED>(mix_values<Format, FULL>(v, seat, block), shared->parts);
    if (warp_id() == 0) close_tile<Format>(frame, block, fold(sum));
    if (!FULL) copy_by_tile(values, stage, Format::WIDTH * seat.count, seat.thread);
}

// Runs before a decoder. The exponents of a book ascend, and the type has them.
template <class Type> DEVICE void open_books(const Frame* frames) {
    open_frames<Codebook16<Type>>(frames);
    const Frame* frame = frames + blockIdx.x;
    if (threadIdx.x != 0) return;
    const u8* book = at<const u8>(frame->fixed) + BOOK_AT;
    bool is_right = book[BOOK_LEN - 1] < Type::EXPONENTS;
    for (u32 i = 1; i < BOOK_LEN; ++i) is_right &= book[i - 1] < book[i];
    if (!is_right) report(frame, FAULT_BOOK);
}

// Reads the frames of a batch, after `codebook16_open`. A block of threads per 16 KiB of values.
template <class Type> DEVICE void decode_frames(const Frame* frames, u32 frame_count) {
    typedef Codebook16<Type> Format;
    __shared__ DecodeShared<Format> shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 block = blockIdx.x - frame->first_tile;
    const u32 count = values_of_tile<Format>(frame->count, block);
    if (count == Format::TILE) decode_block<Format, true>(frame, block, Format::TILE, &shared);
    else decode_block<Format, false>(frame, block, count, &shared);
}
