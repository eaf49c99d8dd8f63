// Rows of rans, as decoders have them: of 128 values, a lane has four in succession, a *quad*. Two rows are a group.

// ---- Quads -------------------------------------------------------------------------------------------------------

// The values of a quad as they are in memory.
template <u32 WIDTH> struct Quad;
template <> struct Quad<1> { u32 raw; };
template <> struct Quad<2> { uint2 raw; };
template <> struct Quad<4> { uint4 raw; };

// Upper parts from exponents and rests, a byte each.
template <class Format> DEVICE void join_quad(u32 exponents, u32 rests, Quad<1>* upper) { upper->raw = joined<Format>(exponents, rests); }
template <class Format> DEVICE void join_quad(u32 exponents, u32 rests, Quad<2>* upper) {
    join_four(exponents, rests, &upper->raw.x, &upper->raw.y);
}

// Values from upper parts and lower bytes, plane after plane.
DEVICE void put_together(const Quad<1>& upper, const u32*, Quad<1>* v) { *v = upper; }
DEVICE void put_together(const Quad<2>& upper, const u32*, Quad<2>* v) { *v = upper; }
DEVICE void put_together(const Quad<1>& upper, const u32* lower, Quad<2>* v) {
    v->raw = make_uint2(__byte_perm(lower[0], upper.raw, 0x5140), __byte_perm(lower[0], upper.raw, 0x7362));
}
DEVICE void put_together(const Quad<2>& upper, const u32* lower, Quad<4>* v) {
    const u32 a = __byte_perm(lower[0], lower[1], 0x5140), b = __byte_perm(lower[0], lower[1], 0x7362);
    v->raw = make_uint4(__byte_perm(a, upper.raw.x, 0x5410), __byte_perm(a, upper.raw.x, 0x7632),
                        __byte_perm(b, upper.raw.y, 0x5410), __byte_perm(b, upper.raw.y, 0x7632));
}

// Writes value `i` of a quad.
DEVICE void store_value(u8* quad, const Quad<1>& v, u32 i) { quad[i] = (u8)(v.raw >> 8 * i); }
DEVICE void store_value(u8* quad, const Quad<2>& v, u32 i) { ((u16*)quad)[i] = (u16)((i < 2 ? v.raw.x : v.raw.y) >> 16 * (i & 1)); }
DEVICE void store_value(u8* quad, const Quad<4>& v, u32 i) {
    ((u32*)quad)[i] = i == 0 ? v.raw.x : i == 1 ? v.raw.y : i == 2 ? v.raw.z : v.raw.w;
}

// How many values this lane has in row `row` of a group, of whose values from the first one on `left` are there.
DEVICE u32 live_of_quad(u32 row, u32 left) {
    const u32 first = ROW_LEN * row + 4 * lane_id();
    return first >= left ? 0 : left - first < 4 ? left - first : 4;
}

// ---- What is read of a row ---------------------------------------------------------------------------------------

// Lower bytes, and rests that are bytes, of a row in the static section.
template <class Format> struct RowHead {
    u32 rests, lower[Format::LOWER + 1];
};

// Where a lane finds those of a block, and rests that are bit planes: of these, 64 values have a word of each plane, so those of 256 are a part of
// it for each lane, or for each but the last eight.
template <class Format> struct Heads {
    const u8* rests;
    const u8* lower[Format::LOWER + 1];
    DEVICE Heads of(const u8* body, u32 count) {
        const u32 lane = Format::PLANES && lane_id() >= 8 * Format::PLANES ? 0 : lane_id();
        Heads heads = Heads();
        heads.rests = body + Format::rests_at(count) + 4 * lane;
#pragma unroll
        for (u32 plane = 0; plane < Format::LOWER; ++plane) heads.lower[plane] = body + Format::lower_at(count, plane) + 4 * lane_id();
        return heads;
    }
};

// Reads them for a lane's quad in a row of group `group`; zeros where there is nothing.
template <bool FULL, class Format> DEVICE RowHead<Format> read_row(const Heads<Format>& heads, u32 count, u32 group, u32 row) {
    const u32 place = GROUP * group;
    const bool is_there = FULL || place + ROW_LEN * row + 4 * lane_id() < round8(count);
    RowHead<Format> head = RowHead<Format>();
    if (Format::PLANES == 0 && is_there) head.rests = __ldcs((const u32*)(heads.rests + place + ROW_LEN * row));
#pragma unroll
    for (u32 plane = 0; plane < Format::LOWER; ++plane)
        if (is_there) head.lower[plane] = __ldcs((const u32*)(heads.lower[plane] + place + ROW_LEN * row));
    return head;
}

// A lane's part of the bit planes of group `group`.
template <bool FULL, class Format> DEVICE u32 read_planes(const Heads<Format>& heads, u32 count, u32 group) {
    const u32 halves = 2 * Format::PLANES;
    if (!Format::PLANES) return 0;
    if (!FULL && GROUP * group + 64 * (lane_id() / halves) >= count) return 0;
    return __ldcs((const u32*)(heads.rests + 16 * halves * group));
}

// Rests of the quad in row `row` of a group, a byte each. By all lanes.
template <class Format> DEVICE u32 rests_of_quad(const RowHead<Format>& head, u32 planes, u32 row) {
    if (Format::PLANES == 0) return head.rests;
    const u32 from = 2 * Format::PLANES * (2 * row + lane_id() / 16) + lane_id() / 8 % 2, shift = 4 * (lane_id() & 7);
    u32 rests = 0;
#pragma unroll
    for (u32 plane = 0; plane < Format::PLANES; ++plane) {
        const u32 bits = __shfl_sync(ALL, planes, from + 2 * plane) >> shift & 15u;
        // Each bit to the place of the plane in a byte of its own.
        rests |= bits * (0x00204081u << plane) & rep(1u << plane);
    }
    return rests;
}

// ---- Where values go ---------------------------------------------------------------------------------------------

// The values of a block, and their sum for the checksum.
template <class Format> struct Sink {
    u8* values;   // of this lane
    u64 word_key; // of its next word
    u64 sum;
    u32 kept; // the quad of the row before, where a word has two
    DEVICE Sink of(const Frame* frame, u32 tile) {
        const u32 lane = lane_id(), word = Format::WIDTH == 1 ? 16 * (lane & 1) + lane / 2 : Format::WIDTH / 2 * lane;
        Sink of;
        of.values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * Format::TILE) + 4 * Format::WIDTH * lane;
        of.word_key = key((u64)tile * (Format::TILE / 8 * Format::WIDTH) + word);
        of.sum = 0;
        of.kept = 0;
        return of;
    }
};

// Writes the quads of row `row` of a group, if it is full, and adds them to the sum; `to` is where that of this lane in the first row belongs. By all
// lanes, row after row.
template <bool FULL, class Format> DEVICE void take_quad(Sink<Format>* sink, u8* to, u32 row, const Quad<2>& v, u32 left) {
    if (FULL) store(to + 2 * ROW_LEN * row, v.raw);
    if (FULL || live_of_quad(row, left)) sink->sum += mix(word_of(v.raw.x, v.raw.y), sink->word_key);
    sink->word_key += ROW_LEN / 4 * KEY_STEP;
}
template <bool FULL, class Format> DEVICE void take_quad(Sink<Format>* sink, u8* to, u32 row, const Quad<4>& v, u32 left) {
    const u32 live = FULL ? 4 : live_of_quad(row, left);
    if (FULL) store(to + 4 * ROW_LEN * row, v.raw);
    if (live > 0) sink->sum += mix(word_of(v.raw.x, v.raw.y), sink->word_key);
    if (live > 2) sink->sum += mix(word_of(v.raw.z, v.raw.w), sink->word_key + KEY_STEP);
    sink->word_key += ROW_LEN / 2 * KEY_STEP;
}
// A word has the quads of two lanes: with both rows, the first of the two has that of the first row, the other one that of the second.
template <bool FULL, class Format> DEVICE void take_quad(Sink<Format>* sink, u8* to, u32 row, const Quad<1>& v, u32 left) {
    if (row == 0) {
        sink->kept = v.raw;
        return;
    }
    const bool is_second = lane_id() & 1;
    const u32 own = is_second ? v.raw : sink->kept, other = __shfl_xor_sync(ALL, is_second ? sink->kept : v.raw, 1);
    const uint2 word = is_second ? make_uint2(other, own) : make_uint2(own, other);
    if (FULL) store(to + (is_second ? ROW_LEN - 4 : 0), word);
    if (FULL || (is_second ? ROW_LEN : 0) + 4 * (lane_id() & ~1u) < left) sink->sum += mix(word_of(word.x, word.y), sink->word_key);
    sink->word_key += GROUP / 8 * KEY_STEP;
}
