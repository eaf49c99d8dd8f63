// Blocks of tiered in the layout compact: their values from the parts of their bodies.

// ---- Columns -----------------------------------------------------------------------------------------------------

struct Columns {
    const u8* offsets;
    u32 row, form, lowest;
    DEVICE Columns read(const u8* from) {
        const uint2 head = eight_bytes(from);
        const Columns columns = {from + COLUMNS_HEAD, head.x, head.y & 0xffu, head.y >> 8 & 0xffu};
        return columns;
    }
    // Offsets of eight values, before which there are `first` in the frame.
    __device__ __forceinline__ uint2 of_values(u64 first) const {
        u32 column = (u32)(first % row);
        u64 all = 0;
#pragma unroll 1
        for (u32 i = 0; i < 8; ++i) {
            const u32 byte = offsets[form ? column : column / 2];
            all |= (u64)((form ? byte : lowest + (byte >> 4 * (column & 1) & 15u)) & 0xffu) << 8 * i;
            column = column + 1 == row ? 0 : column + 1;
        }
        return make_uint2((u32)all, (u32)(all >> 32));
    }
};

DEVICE u32 add_four(u32 a, u32 b) { return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u); }

// ---- Byte planes -------------------------------------------------------------------------------------------------

// Bytes of a sparse plane that begins at `at`.
DEVICE uint2 sparse_bytes(const Body& body, u32 at, const u16* ranks, u32 all, const Coded& coded) {
    const u32 word = coded.place / 64, within = coded.place % 64, last = coded.count ? (coded.place + coded.count - 1) / 64 : word;
    const u64 own = wide(body.eight(at + 8 * word)), next = wide(body.eight(at + 8 * last));
    u32 bits = (u32)(own >> within);
    if (within > 56) bits |= (u32)next << (64 - within);
    bits &= (1u << coded.count) - 1;
    const u32 count = __popc(bits), rank = ranks[word] + (u32)__popcll(own & below(within));
    // Where there is none, there may be no bytes at all.
    const u8* from = body.bytes + at + (count ? mask_len(all) + rank : 0);
    return Spreader::of(bits).run(eight_bytes(from, count ? count : 1));
}

// Bytes of plane `number`, of `all` coded values; 0 where it is in tiers.
template <class Format, bool PLAIN>
DEVICE uint2 plane_bytes(const Body& body, u32 number, u32 all, const Coded& coded, const CompactShared* shared) {
    const Plane& plane = shared->planes[number];
    const u32 at = body.rest + (has_forms<Format>() ? plane.at : number * round8(all));
    uint2 bytes = make_uint2(0, 0);
    if (!has_forms<Format>() || plane.form == PLANE_RAW) {
        bytes = PLAIN ? body.eight(at + coded.place) : coded_bytes(body.bytes + at, coded);
    } else if (plane.form == PLANE_CONSTANT) {
        bytes = make_uint2(rep(plane.byte), rep(plane.byte));
    } else if (plane.form == PLANE_SPARSE) {
        bytes = sparse_bytes(body, at, shared->ranks[1 + number], all, coded);
    } else if (plane.form == PLANE_SIGNED) {
        bytes = coded_bits<7, PLAIN>(body, at, coded);
        bytes = make_uint2(bytes.x | rep(plane.byte), bytes.y | rep(plane.byte));
    }
    return bytes;
}

// Whether what fills up the planes of `count` values is not zero, but for those that are looked at later.
template <class Format> DEVICE bool is_rest_filled(const Body& body, u32 count, const CompactShared* shared) {
    bool is_wrong = false;
    const u32 planes = Format::LOWER + (Format::PLANES ? 0 : 1);
#pragma unroll 1
    for (u32 number = 0; number < planes; ++number) {
        const Plane& plane = shared->planes[number];
        const u32 at = body.rest + (has_forms<Format>() ? plane.at : number * round8(count));
        if (!has_forms<Format>() || plane.form == PLANE_RAW) is_wrong |= is_filled(body.bytes + at, count);
        else if (plane.form == PLANE_SIGNED) is_wrong |= are_bits_filled(body, at, 7, count);
    }
    return is_wrong | are_bits_filled(body, body.rest + planes * round8(count), Format::PLANES, count);
}

// Counts what is before each word of the sparse planes, where tiers had their ranks. Returns whether something is wrong. Barriers are inside.
DEVICE bool rank_sparse(const Body& body, u32 count, CompactShared* shared) {
    const u32 first = 64 * threadIdx.x, live = first >= count ? 0 : count - first < 64 ? count - first : 64;
    bool is_wrong = false;
#pragma unroll 1
    for (u32 number = 0; number < 3; ++number) {
        const Plane& plane = shared->planes[number];
        const u32 at = body.rest + plane.at;
        if (plane.form != PLANE_SPARSE) continue;
        u64 bits = 0;
        if (live) bits = wide(body.eight(at + 8 * threadIdx.x));
        u32 all;
        shared->ranks[1 + number][threadIdx.x] = (u16)scan_block(__popcll(bits), shared->totals[0], &all);
        is_wrong |= (live < 64 && bits >> live != 0) || all != plane.counts[0] || is_filled(body.bytes + at + mask_len(count), plane.counts[0]);
        __syncthreads();
    }
    return __syncthreads_or(is_wrong);
}

// ---- Values ------------------------------------------------------------------------------------------------------

// Which values of an octet are coded, of a block of `count`.
template <bool PLAIN> DEVICE Coded coded_of_row(const Body& body, bool is_masked, u32 count, u32 j, const CompactShared* shared) {
    const u32 group = warp_id() * ROWS + j, before = shared->before[group], live = live_of<PLAIN>(count, GROUP * group + 8 * lane_id());
    const bool is_there = !(before & LEFT_OUT) && live;
    Coded coded = {is_there ? (1u << live) - 1 : 0, is_there ? live : 0, is_there ? before + 8 * lane_id() : 0};
    if (!PLAIN && is_masked) {
        const u32 word = coded.place / 64, within = coded.place % 64;
        const u64 mask = wide(body.eight(body.mask + 8 * word));
        coded.bits &= (u32)(mask >> within);
        coded.count = __popc(coded.bits);
        coded.place = coded.count ? shared->marked[word] + (u32)__popcll(mask & below(within)) : 0;
    }
    return coded;
}

// Output of a block of any form.
template <class Format> struct Output {
    const Frame* frame;
    u32 tile, count;
    u8* values; // of the block
    Writer<Format> writer;
    // The octet in row `j`, of which `live` values are there.
    __device__ __forceinline__ void take(u32 j, const Octet<Format::WIDTH>& v, u32 live) {
        writer.take(j, v, live);
        if (live == 0 || live == 8) return;
        u8* to = writer.values + Format::WIDTH * GROUP * j;
#pragma unroll 1
        for (u32 i = 0; i < Format::WIDTH * live; ++i) to[i] = writer.tail[i];
    }
};

// Writes the octet in row `j`, of which `coded` are there: what is coded of it are `parts`, with residuals for exponents, and `lower`. Returns
// whether exponents have more bits than the type.
template <class Format, bool PLAIN>
DEVICE bool write_octet(const Compact& block, Output<Format>* out, const Columns& columns, u32 j, const Coded& coded, Split parts, uint2* lower,
                        const CompactShared* shared) {
    const u32 first = GROUP * (warp_id() * ROWS + j) + 8 * lane_id(), live = live_of<PLAIN>(out->count, first);
    const u32 whole = coded.count ? ~0u : 0u;
    Spreader spreader = {0, whole, whole};
    if (!PLAIN) {
        spreader = Spreader::of(coded.bits);
        parts.exponents = spreader.run(parts.exponents);
        parts.rests = spreader.run(parts.rests);
    } else {
        parts.rests = spreader.there(parts.rests);
    }
#pragma unroll
    for (u32 plane = 0; plane < Format::LOWER; ++plane) lower[plane] = PLAIN ? spreader.there(lower[plane]) : spreader.run(lower[plane]);
    parts.exponents = add_to_bytes(parts.exponents, shared->bases[warp_id() * ROWS + j]);
    if (!PLAIN && block.has_columns) {
        const uint2 offsets = columns.of_values((u64)out->tile * Format::TILE + first);
        parts.exponents = make_uint2(add_four(parts.exponents.x, offsets.x), add_four(parts.exponents.y, offsets.y));
    }
    parts.exponents = spreader.there(parts.exponents);
    Octet<Format::UPPER> upper;
    join<Format>(parts, &upper);
    Octet<Format::WIDTH> v;
    put_together(upper, lower, &v);
    out->take(j, v, live);
    return Format::UPPER == 1 && ((parts.exponents.x | parts.exponents.y) & ~rep(0x7fu >> Format::MANTISSA)) != 0;
}

// Writes the values of a coded block. Returns whether exponents have more bits than the type.
template <class Format, bool PLAIN>
DEVICE bool write_rows(const Compact& block, const Body& body, Output<Format>* out, const Columns& columns, const CompactShared* shared) {
    const u32 all = block.entry.counts[0], list = list_at(2, block.entry.counts[1]);
    bool is_wrong = false;
#pragma unroll 1
    for (u32 j = 0; j < ROWS; ++j) {
        const Coded coded = coded_of_row<PLAIN>(body, block.is_masked, out->count, j, shared);
        Split parts;
        uint2 lower[Format::LOWER + 1];
        parts.exponents = coded_symbols<PLAIN>(coded, 0x00ff0100u, list, shared);
#pragma unroll
        for (u32 plane = 0; plane < Format::LOWER; ++plane) lower[plane] = plane_bytes<Format, PLAIN>(body, plane, all, coded, shared);
        if (Format::PLANES) parts.rests = coded_bits<Format::PLANES, PLAIN>(body, body.rest + Format::LOWER * round8(all), coded);
        else parts.rests = plane_bytes<Format, PLAIN>(body, Format::LOWER, all, coded, shared);
        is_wrong |= write_octet<Format, PLAIN>(block, out, columns, j, coded, parts, lower, shared);
    }
    return is_wrong;
}

DEVICE void from_words(const uint2* words, Octet<1>* v) { v->raw = words[0]; }
DEVICE void from_words(const uint2* words, Octet<2>* v) { v->raw = make_uint4(words[0].x, words[0].y, words[1].x, words[1].y); }
DEVICE void from_words(const uint2* words, Octet<4>* v) {
    v->raw = make_uint4(words[0].x, words[0].y, words[1].x, words[1].y);
    v->more = make_uint4(words[2].x, words[2].y, words[3].x, words[3].y);
}

// Writes the values of a block of zeros, or of one that is stored: these end at any byte.
template <class Format> DEVICE void write_uncoded(bool is_stored, const u8* body, Output<Format>* out) {
    const u32 all = Format::WIDTH * out->count;
#pragma unroll 1
    for (u32 j = 0; j < ROWS; ++j) {
        const u32 first = GROUP * (warp_id() * ROWS + j) + 8 * lane_id(), live = live_of<false>(out->count, first);
        uint2 words[Format::WIDTH];
#pragma unroll
        for (u32 i = 0; i < Format::WIDTH; ++i) {
            const u32 place = Format::WIDTH * first + 8 * i, left = place < all ? all - place : 0, count = left < 8 ? left : 8;
            uint2 bytes = make_uint2(0, 0);
            if (is_stored) bytes = eight_bytes(body + (count ? place : 0), count ? count : 1);
            const uint2 there = live_bytes(count);
            words[i] = make_uint2(bytes.x & there.x, bytes.y & there.y);
        }
        Octet<Format::WIDTH> v;
        from_words(words, &v);
        out->take(j, v, live);
    }
}
