// tiered, split layout: exponents in tiers of two bits, sign and mantissa as they are.
//
// A block of 512 threads has a block of 32 768 values: a warp has eight groups of 256, a lane eight values of each, which are
// an *octet*. Values are split when they come: what has no choice is stored at once, and only exponents stay, eight in two
// registers. Codes of an octet are a byte of either plane; eight lanes turn theirs into the 64-bit words of eight groups.
//
// Few values go beyond tier 1. They are collected in shared memory, counted, so that all lengths are known, and then coded
// tier after tier, 4096 at a time. Decoders go the other way; prefix sums of popcounts say where everything is.
//
// An F16 value is one of E5M2 with a byte of mantissa below it, an F32 value is one of BF16 with two: such *lower bytes* are
// stored as they come, and all else sees the *upper part* only.

#define THREADS 512u
#define WARPS 16u
#define GROUP 256u
#define GROUPS 128u
#define ROWS 8u            // groups of a warp
#define ROUND 4096u        // values of a list that a block has at a time
#define TAIL_LEN 32u       // room for an octet that is not full
#define LAST_BASE 254u
#define EIGHTHS 7u         // what is added to means for bases
#define MAX_SPAN 14u       // the largest difference between bases that are nibbles
#define MIN_VARIANCE 4096u // of means with 8 bits behind the point: a quarter of an octave, squared
#define GAUSSIAN_VARIANCE 167772u
#define FORM_ONE 0u
#define FORM_STORED 1u
#define FORM_NIBBLES 3u
#define FORM_BYTES 4u
#define FORM_COLUMNS 0x40u
#define LOWEST_BITS 0x11111111u

enum Order { ORDER_LOW = 0, ORDER_MIDDLE = 1, ORDER_HIGH = 2 };

// Bytes of the codes of `count` values.
DEVICE u32 codes_len(u32 count) { return (count + 63) / 64 * 16; }
DEVICE u32 round8(u32 count) { return (count + 7) & ~7u; }
DEVICE u32 rep(u32 byte) { return byte * 0x01010101u; }
// A number in the upper byte of both halves.
DEVICE u32 upper(u32 number) { return (number & 0xffu) * 0x01000100u; }
DEVICE u32 byte_of(uint2 bytes, u32 i) { return (i < 4 ? bytes.x : bytes.y) >> 8 * (i & 3) & 0xffu; }

// ---- Types -------------------------------------------------------------------------------------------------------

// Entry of a block.
struct Entry {
    u32 form, order, base; // the order is 0 in all forms but one
    u32 counts[5];         // values in the tiers, and escapes
    DEVICE Entry of(u32 first, u32 second, u32 third) {
        Entry entry;
        entry.form = first & 0xcfu;
        entry.order = first >> 4 & 3u;
        entry.base = first >> 8 & 0xffu;
        entry.counts[0] = first >> 16;
        entry.counts[1] = second & 0xffffu;
        entry.counts[2] = second >> 16;
        entry.counts[3] = third & 0xffffu;
        entry.counts[4] = third >> 16;
        return entry;
    }
    DEVICE Entry read(const u8* bytes) {
        const u32* words = (const u32*)bytes;
        return of(words[0], words[1], words[2]);
    }
    __device__ __forceinline__ void write(u8* bytes) const {
        u32* words = (u32*)bytes;
        words[0] = form | order << 4 | base << 8 | counts[0] << 16;
        words[1] = counts[1] | counts[2] << 16;
        words[2] = counts[3] | counts[4] << 16;
    }
    __device__ __forceinline__ u32 order_of_tiers() const { return form == FORM_ONE ? order : (u32)ORDER_HIGH; }
    // Bytes of the bases of a block of `values` values, filled up.
    __device__ __forceinline__ u32 bases_len(u32 values) const {
        const u32 groups = (values + GROUP - 1) / GROUP;
        return form == FORM_NIBBLES ? round8((groups + 1) / 2) : form == FORM_BYTES ? round8(groups) : 0u;
    }
    // Bytes that a coded block has in the dynamic section.
    __device__ __forceinline__ u32 dynamic_len(u32 values) const {
        return bases_len(values) + codes_len(counts[1]) + codes_len(counts[2]) + codes_len(counts[3]) + round8(counts[4]);
    }
};

// The codec with a type. `LOWER` is its lower bytes, `UPPER` the bytes of the upper part, `MANTISSA` the bits of the mantissa in
// that, `PLANES` the bit planes of its rest: none if it has two bytes, where the rest is a byte. Frames of another codec, `rans`,
// have the codes of all tiers in the dynamic section.
template <u32 TYPE, u32 UPPER_BYTES, u32 MANTISSA_BITS, u32 LOWER_BYTES = 0, u32 TAG = 2> struct Tiered {
    static const u32 TILE = 32768, ENTRY = 12, CODEC = TAG, DTYPE = TYPE, MANTISSA = MANTISSA_BITS;
    static const u32 LOWER = LOWER_BYTES, UPPER = UPPER_BYTES, WIDTH = UPPER_BYTES + LOWER_BYTES, COMMON_LEN = 0;
    static const u32 PLANES = UPPER == 1 ? MANTISSA + 1 : 0;
    static const u32 PART_WARPS = 16384 / (ROWS * GROUP * WIDTH); // that share a part of the checksum
    DEVICE u64 tile_count(u64 count) { return (count + TILE - 1) / TILE; }
    DEVICE u64 table_at() { return HEADER_BYTES; }
    DEVICE u64 front_end(u64 count) { return table_at() + ENTRY * tile_count(count); }
    static const bool FIRST_IN_BODY = TAG == 2;
    // Bytes of the codes of tier 1 in the static section, in front of the rest, and in the dynamic one, behind the bases.
    DEVICE u32 first_len(u32 count) { return FIRST_IN_BODY ? codes_len(count) : 0; }
    DEVICE u32 later_len(u32 count) { return FIRST_IN_BODY ? 0 : codes_len(count); }
    // Where lower bytes begin in the static section, a plane each, and where the rests of the upper parts do.
    DEVICE u32 lower_at(u32 count, u32 plane) { return first_len(count) + plane * round8(count); }
    DEVICE u32 rests_at(u32 count) { return lower_at(count, LOWER); }
    DEVICE u32 head_len(u32 count) { return rests_at(count) + (PLANES ? (count + 63) / 64 * 8 * PLANES : round8(count)); }
    DEVICE bool has_codes(u32 count) { return head_len(count) < WIDTH * count; }
    DEVICE u32 static_body(u32 count) { return has_codes(count) ? head_len(count) : WIDTH * count; }
    DEVICE bool is_stored(const u8* entry) { return Entry::read(entry).form == FORM_STORED; }
    DEVICE bool needs_common(const u8*) { return false; }

    DEVICE u32 dynamic_len(const u8* bytes, u32 count, u32* fault) {
        const Entry entry = Entry::read(bytes);
        if (entry.form == FORM_STORED) {
            const u32* words = (const u32*)bytes;
            if (words[0] != FORM_STORED || words[1] || words[2]) *fault = FAULT_TILE;
            return *fault ? 0 : WIDTH * count - static_body(count);
        }
        bool fits = entry.form == FORM_ONE ? entry.order <= ORDER_HIGH : entry.order == 0;
        fits = fits && (entry.form == FORM_ONE || entry.form == FORM_NIBBLES || entry.form == FORM_BYTES);
        fits = fits && entry.base <= (entry.form == FORM_BYTES ? 0 : LAST_BASE) && entry.counts[0] == count;
        for (u32 tier = 0; tier < 4; ++tier) fits = fits && entry.counts[tier] >= entry.counts[tier + 1];
        if (!fits || !has_codes(count)) *fault = FAULT_TILE;
        if (bytes[0] & FORM_COLUMNS) *fault = FAULT_COLUMNS;
        return *fault ? 0 : later_len(count) + entry.dynamic_len(count);
    }
};

typedef Tiered<0, 2, 7> Bf16;
typedef Tiered<1, 1, 2, 1> F16;
typedef Tiered<2, 2, 7, 2> F32;
typedef Tiered<3, 1, 3> E4m3;
typedef Tiered<4, 1, 2> E5m2;

// The values of an octet as they are in memory.
template <u32 WIDTH> struct Octet;
template <> struct Octet<1> { uint2 raw; };
template <> struct Octet<2> { uint4 raw; };
template <> struct Octet<4> { uint4 raw, more; };

// Loads and stores of device memory that is not read again soon.
DEVICE void load_octet(Octet<1>* v, const u8* from) { v->raw = __ldcs((const uint2*)from); }
DEVICE void load_octet(Octet<2>* v, const u8* from) { v->raw = __ldcs((const uint4*)from); }
DEVICE void load_octet(Octet<4>* v, const u8* from) {
    v->raw = __ldcs((const uint4*)from);
    v->more = __ldcs((const uint4*)from + 1);
}
DEVICE void store_octet(u8* to, const Octet<1>& v) { __stcs((uint2*)to, v.raw); }
DEVICE void store_octet(u8* to, const Octet<2>& v) { __stcs((uint4*)to, v.raw); }
DEVICE void store_octet(u8* to, const Octet<4>& v) {
    __stcs((uint4*)to, v.raw);
    __stcs((uint4*)to + 1, v.more);
}

// The upper parts of an octet, and its lower bytes, plane after plane.
DEVICE void take_apart(const Octet<1>& v, Octet<1>* upper, uint2*) { *upper = v; }
DEVICE void take_apart(const Octet<2>& v, Octet<2>* upper, uint2*) { *upper = v; }
DEVICE void take_apart(const Octet<2>& v, Octet<1>* upper, uint2* lower) {
    upper->raw = make_uint2(__byte_perm(v.raw.x, v.raw.y, 0x7531), __byte_perm(v.raw.z, v.raw.w, 0x7531));
    lower[0] = make_uint2(__byte_perm(v.raw.x, v.raw.y, 0x6420), __byte_perm(v.raw.z, v.raw.w, 0x6420));
}
DEVICE void take_apart(const Octet<4>& v, Octet<2>* upper, uint2* lower) {
    const u32 a = __byte_perm(v.raw.x, v.raw.y, 0x5410), b = __byte_perm(v.raw.z, v.raw.w, 0x5410);
    const u32 c = __byte_perm(v.more.x, v.more.y, 0x5410), d = __byte_perm(v.more.z, v.more.w, 0x5410);
    lower[0] = make_uint2(__byte_perm(a, b, 0x6420), __byte_perm(c, d, 0x6420));
    lower[1] = make_uint2(__byte_perm(a, b, 0x7531), __byte_perm(c, d, 0x7531));
    upper->raw = make_uint4(__byte_perm(v.raw.x, v.raw.y, 0x7632), __byte_perm(v.raw.z, v.raw.w, 0x7632),
                            __byte_perm(v.more.x, v.more.y, 0x7632), __byte_perm(v.more.z, v.more.w, 0x7632));
}
DEVICE void put_together(const Octet<1>& upper, const uint2*, Octet<1>* v) { *v = upper; }
DEVICE void put_together(const Octet<2>& upper, const uint2*, Octet<2>* v) { *v = upper; }
DEVICE void put_together(const Octet<1>& upper, const uint2* lower, Octet<2>* v) {
    v->raw = make_uint4(__byte_perm(lower[0].x, upper.raw.x, 0x5140), __byte_perm(lower[0].x, upper.raw.x, 0x7362),
                        __byte_perm(lower[0].y, upper.raw.y, 0x5140), __byte_perm(lower[0].y, upper.raw.y, 0x7362));
}
DEVICE void put_together(const Octet<2>& upper, const uint2* lower, Octet<4>* v) {
    const u32 a = __byte_perm(lower[0].x, lower[1].x, 0x5140), b = __byte_perm(lower[0].x, lower[1].x, 0x7362);
    const u32 c = __byte_perm(lower[0].y, lower[1].y, 0x5140), d = __byte_perm(lower[0].y, lower[1].y, 0x7362);
    v->raw = make_uint4(__byte_perm(a, upper.raw.x, 0x5410), __byte_perm(a, upper.raw.x, 0x7632),
                        __byte_perm(b, upper.raw.y, 0x5410), __byte_perm(b, upper.raw.y, 0x7632));
    v->more = make_uint4(__byte_perm(c, upper.raw.z, 0x5410), __byte_perm(c, upper.raw.z, 0x7632),
                         __byte_perm(d, upper.raw.w, 0x5410), __byte_perm(d, upper.raw.w, 0x7632));
}

// Exponents and rests of the upper parts of eight values, a byte each.
struct Split {
    uint2 exponents, rests;
};

template <class Format> DEVICE Split split(const Octet<2>& values) {
    Split parts;
    split_four(values.raw.x, values.raw.y, &parts.exponents.x, &parts.rests.x);
    split_four(values.raw.z, values.raw.w, &parts.exponents.y, &parts.rests.y);
    return parts;
}
template <class Format> DEVICE u32 exponents_of(u32 values) { return values >> Format::MANTISSA & rep(0x7fu >> Format::MANTISSA); }
template <class Format> DEVICE u32 rests_of(u32 values) {
    const u32 sign = 1u << Format::MANTISSA;
    return (values >> (7 - Format::MANTISSA) & rep(sign)) | (values & rep(sign - 1));
}
template <class Format> DEVICE Split split(const Octet<1>& values) {
    Split parts;
    parts.exponents = make_uint2(exponents_of<Format>(values.raw.x), exponents_of<Format>(values.raw.y));
    parts.rests = make_uint2(rests_of<Format>(values.raw.x), rests_of<Format>(values.raw.y));
    return parts;
}

template <class Format> DEVICE void join(const Split& parts, Octet<2>* values) {
    join_four(parts.exponents.x, parts.rests.x, &values->raw.x, &values->raw.y);
    join_four(parts.exponents.y, parts.rests.y, &values->raw.z, &values->raw.w);
}
template <class Format> DEVICE u32 joined(u32 exponents, u32 rests) {
    const u32 sign = 1u << Format::MANTISSA;
    return (rests & rep(sign)) << (7 - Format::MANTISSA) | exponents << Format::MANTISSA | (rests & rep(sign - 1));
}
template <class Format> DEVICE void join(const Split& parts, Octet<1>* values) {
    values->raw.x = joined<Format>(parts.exponents.x, parts.rests.x);
    values->raw.y = joined<Format>(parts.exponents.y, parts.rests.y);
}

// How many of eight values are not +0.
DEVICE u32 nonzero(const Octet<2>& values) {
    const u32 one = 0x00010001u;
    const u32 sum = __vminu2(values.raw.x, one) + __vminu2(values.raw.y, one) + __vminu2(values.raw.z, one) + __vminu2(values.raw.w, one);
    return __dp4a(sum, 0x01010101u, 0u);
}
DEVICE u32 nonzero_bytes(u32 bytes) { return (((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes) & 0x80808080u; }
DEVICE u32 nonzero(const Octet<1>& values) {
    return __popc(nonzero_bytes(values.raw.x) | nonzero_bytes(values.raw.y) >> 1);
}
DEVICE u32 nonzero_of_four(const uint4& words) { return min(words.x, 1u) + min(words.y, 1u) + min(words.z, 1u) + min(words.w, 1u); }
DEVICE u32 nonzero(const Octet<4>& values) { return nonzero_of_four(values.raw) + nonzero_of_four(values.more); }

// The sum over an octet of which `live` values are there; `first` is the key of its first word.
DEVICE u64 mix_octet(const Octet<2>& values, u64 first, u32 live) {
    u64 sum = live > 0 ? mix(word_of(values.raw.x, values.raw.y), first) : 0;
    if (live > 4) sum += mix(word_of(values.raw.z, values.raw.w), first + KEY_STEP);
    return sum;
}
DEVICE u64 mix_octet(const Octet<1>& values, u64 first, u32 live) {
    return live > 0 ? mix(word_of(values.raw.x, values.raw.y), first) : 0;
}
DEVICE u64 mix_octet(const Octet<4>& values, u64 first, u32 live) {
    u64 sum = live > 0 ? mix(word_of(values.raw.x, values.raw.y), first) : 0;
    if (live > 2) sum += mix(word_of(values.raw.z, values.raw.w), first + KEY_STEP);
    if (live > 4) sum += mix(word_of(values.more.x, values.more.y), first + 2 * KEY_STEP);
    if (live > 6) sum += mix(word_of(values.more.z, values.more.w), first + 3 * KEY_STEP);
    return sum;
}

// ---- Planes ------------------------------------------------------------------------------------------------------

// Eight bits that are 4 apart, bit `8 k + 4 h` for value `k + 4 h`, as a byte; what is above it is anything.
DEVICE u32 gather(u32 bits) { return (u32)((u64)bits * 0x10204080u >> 28); }
// The nibbles of eight values whose numbers, below 16, are in bytes: in the order that `gather` wants.
DEVICE u32 nibbles_of(uint2 bytes) { return bytes.y * 16u + bytes.x; }
// The lowest bits of the nibbles of the first `live` values, in that order.
DEVICE u32 live_bits(u32 live) {
    const u32 low = live < 4 ? live : 4, high = live < 4 ? 0 : live - 4;
    return ((u32)((1ull << 8 * low) - 1) & 0x01010101u) | ((u32)((1ull << 8 * high) - 1) & 0x01010101u) << 4;
}
DEVICE uint2 live_bytes(u32 live) {
    const u64 mask = live < 8 ? (1ull << 8 * live) - 1 : ~0ull;
    return make_uint2((u32)mask, (u32)(mask >> 32));
}
// Bits 0 to 7 to the lowest bits of eight nibbles, in their order.
DEVICE u32 spread(u32 bits) {
    bits = (bits | bits << 12) & 0x000f000fu;
    bits = (bits | bits << 6) & 0x03030303u;
    return (bits | bits << 3) & LOWEST_BITS;
}

// Puts a byte in the place of byte `i` of eight.
DEVICE void insert(uint2* bytes, u32 byte, u32 i) {
    const u32 selectors = (i & 3) == 0 ? 0x3214u : (i & 3) == 1 ? 0x3240u : (i & 3) == 2 ? 0x3410u : 0x4210u;
    if (i < 4) bytes->x = __byte_perm(bytes->x, byte, selectors);
    else bytes->y = __byte_perm(bytes->y, byte, selectors);
}

// Exchanges bytes among eight lanes: lane `l` has a byte of each of eight rows, and gets those of row `l` of all eight lanes.
struct Transpose {
    u32 keep2, send2, keep1, send1, low, high;
    DEVICE Transpose of_lane() {
        const u32 lane = lane_id(), swap4 = lane & 4 ? 0x4444u : 0u, swap2 = lane & 2 ? 0x4444u : 0u;
        Transpose of;
        of.keep2 = (lane & 2 ? 0x7632u : 0x5410u) ^ swap4;
        of.send2 = (lane & 2 ? 0x5410u : 0x7632u) ^ swap4;
        of.keep1 = (lane & 1 ? 0x7351u : 0x6240u) ^ swap2;
        of.send1 = (lane & 1 ? 0x6240u : 0x7351u) ^ swap2;
        of.low = lane & 1 ? 0x1504u : 0x5140u;
        of.high = lane & 1 ? 0x3726u : 0x7362u;
        return of;
    }
    __device__ __forceinline__ uint2 run(uint2 rows) const {
        const bool second = lane_id() & 4;
        u32 kept = second ? rows.y : rows.x, other = __shfl_xor_sync(ALL, second ? rows.x : rows.y, 4);
        u32 sent = __byte_perm(kept, other, send2);
        kept = __byte_perm(kept, other, keep2);
        other = __shfl_xor_sync(ALL, sent, 2);
        sent = __byte_perm(kept, other, send1);
        kept = __byte_perm(kept, other, keep1);
        other = __shfl_xor_sync(ALL, sent, 1);
        return make_uint2(__byte_perm(kept, other, low), __byte_perm(kept, other, high));
    }
};

// Transposed, lane `8 q + i` has word `q` of row `i`. Its place among the words of a warp, and the lane with such a place.
DEVICE u32 word_of_lane() { return 4 * (lane_id() & 7) + lane_id() / 8; }
DEVICE u32 lane_of_word() { return 8 * (lane_id() & 3) + lane_id() / 4; }

DEVICE u32 popc_bytes(u32 x) {
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return (x + (x >> 4)) & 0x0f0f0f0fu;
}

// For bytes of eight rows: how many bits are set in those of the lanes before this one, among eight.
DEVICE uint2 bits_before(uint2 rows) {
    const uint2 own = make_uint2(popc_bytes(rows.x), popc_bytes(rows.y));
    uint2 sum = own;
#pragma unroll
    for (u32 step = 1; step < 8; step <<= 1) {
        const u32 x = __shfl_up_sync(ALL, sum.x, step), y = __shfl_up_sync(ALL, sum.y, step);
        if ((lane_id() & 7) >= step) sum.x += x, sum.y += y;
    }
    return make_uint2(sum.x - own.x, sum.y - own.y);
}

// Where the values begin that the words of this lane pass on, and how many the warp passes on.
DEVICE u32 scan_words(u32 passed, u32* total) {
    const u32 before = warp_scan(__shfl_sync(ALL, passed, lane_of_word()), total);
    return __shfl_sync(ALL, before, word_of_lane());
}

// Sums of the warps before this one, and of all.
DEVICE u32 warps_before(const u32* totals, u32* all) {
    const u32 total = lane_id() < WARPS ? totals[lane_id()] : 0;
    *all = __reduce_add_sync(ALL, total);
    return __reduce_add_sync(ALL, lane_id() < warp_id() ? total : 0u);
}

// Adds a number to each of eight bytes.
DEVICE u32 add_to_four(u32 bytes, u32 number) {
    return __byte_perm(__vadd2(bytes << 8, number), __vadd2(bytes, number), 0x7351);
}
DEVICE uint2 add_to_bytes(uint2 bytes, u32 number) {
    return make_uint2(add_to_four(bytes.x, upper(number)), add_to_four(bytes.y, upper(number)));
}
// Adds a number to each of eight bytes; the sums, at most `most`. Only bits of `most` mean something.
DEVICE u32 least_of_four(u32 bytes, u32 number, u32 most) {
    return __byte_perm(__viaddmin_u16x2(bytes << 8, number, most), __viaddmin_u16x2(bytes, number, most), 0x7351);
}
DEVICE uint2 least_of(uint2 bytes, u32 number, u32 most) {
    return make_uint2(least_of_four(bytes.x, upper(number), upper(most)), least_of_four(bytes.y, upper(number), upper(most)));
}

// ---- Tiers -------------------------------------------------------------------------------------------------------

// The residuals of the codes 0, 1 and 2 of tiers 2 to 4, a byte each, the first one lowest.
DEVICE u32 symbols(u32 order, u32 tier) {
    if (tier == 2) return order == ORDER_LOW ? 0xfcfdfeu : 0x02fdfeu;
    if (tier == 3) return order == ORDER_LOW ? 0xfa02fbu : 0xfafbfcu;
    return order == ORDER_HIGH ? 0xf8f903u : 0xf7f8f9u;
}

// Codes of an octet: a byte of each plane. What is above the bytes is anything.
struct Codes {
    u32 low, high;
};

// Tier 1: residuals -1, 0 and 1, plus one, are the codes 2, 0 and 1.
DEVICE Codes first_codes(uint2 residuals, u32 live) {
    const u32 numbers = nibbles_of(least_of(residuals, 1, 3)), halved = numbers >> 1;
    u32 low = halved & LOWEST_BITS, high = ~(numbers ^ halved) & LOWEST_BITS;
    if (live < 8) low &= live_bits(live), high &= live_bits(live);
    Codes codes = {gather(low), gather(high)};
    return codes;
}

// Lookup of the codes of a tier beyond the first. Residuals that earlier tiers have do not occur.
struct Lookup {
    u32 less;          // the residual of the first byte of the table, negated
    u32 first, second; // codes of eight residuals, the last one of all others as well
    u32 single;        // a residual that is no neighbour of the others, if it is not 0
    u32 single_code;   // ... and its code, 0 or 1
    DEVICE Lookup of(u32 order, u32 tier) {
        Lookup of;
        of.first = 0x03000102u;
        of.second = 0x03030303u;
        of.single = 0;
        of.single_code = 0;
        if (tier == 2) {
            of.less = order == ORDER_LOW ? 4 : 3;
            if (order != ORDER_LOW) of.first = 0x03030001u, of.second = 0x03030203u;
        } else if (tier == 3) {
            of.less = 6;
            if (order == ORDER_LOW) of.first = 0x03030002u, of.single = 2, of.single_code = 1;
        } else {
            of.less = order == ORDER_HIGH ? 8 : 9;
            if (order == ORDER_HIGH) of.first = 0x03030102u, of.single = 3;
        }
        return of;
    }
    __device__ __forceinline__ Codes codes(uint2 residuals) const {
        const u32 added = upper(less), most = upper(7);
        const u32 even = __byte_perm(__viaddmin_u16x2(residuals.x << 8, added, most), __viaddmin_u16x2(residuals.y << 8, added, most), 0x7531);
        const u32 odd = __byte_perm(__viaddmin_u16x2(residuals.x, added, most), __viaddmin_u16x2(residuals.y, added, most), 0x7531);
        // The places of eight residuals, in nibbles, select from the table.
        const u32 selectors = odd * 16u + even;
        const u32 numbers = nibbles_of(make_uint2(__byte_perm(first, second, selectors), __byte_perm(first, second, selectors >> 16)));
        u32 low = numbers & LOWEST_BITS, high = numbers >> 1 & LOWEST_BITS;
        if (single) {
            const u32 others = nibbles_of(least_of(residuals, 0u - single, 1));
            high &= others;
            if (single_code == 0) low &= others;
        }
        Codes codes = {gather(low), gather(high)};
        return codes;
    }
};

// ---- Blocks ------------------------------------------------------------------------------------------------------

// Stores to device memory that is not read soon.
template <class T> DEVICE void store(u8* to, T value) { __stcs((T*)to, value); }

// How many values the octet from value `first` on has, in a block of `count`.
template <bool FULL> DEVICE u32 live_of(u32 count, u32 first) {
    return FULL ? 8 : first >= count ? 0 : count - first < 8 ? count - first : 8;
}

// Adds the sum over the values of this thread to the checksum, in the parts that are folded. Thread 0 has the result, or 0 if it is not NEEDED; a
// barrier is inside.
template <class Format, bool NEEDED = true> DEVICE u32 fold_parts(u64 sum, u64* parts) {
    if (!NEEDED) {
        __syncthreads();
        return 0;
    }
    sum = warp_sum(sum);
    if (lane_id() == 0) parts[warp_id()] = sum;
    __syncthreads();
    u32 folded = 0;
    if (threadIdx.x == 0) {
        for (u32 first = 0; first < WARPS; first += Format::PART_WARPS) {
            u64 part = 0;
            for (u32 warp = 0; warp < Format::PART_WARPS; ++warp) part += parts[first + warp];
            folded += fold(part);
        }
    }
    return folded;
}

// Puts the values of an octet that is not full into `tail`, and zeros behind them. A barrier is at the end.
template <class Format> DEVICE void load_tail(const u8* values, u32 count, u8* tail) {
    const u32 i = Format::WIDTH * (count & ~7u) + threadIdx.x;
    if (threadIdx.x < TAIL_LEN) tail[threadIdx.x] = i < Format::WIDTH * count ? values[i] : 0;
    __syncthreads();
}

// Loads `AT_ONCE` of a thread's octets from row `row` on; zeros where there is nothing.
template <class Format, bool FULL, u32 AT_ONCE>
DEVICE void load_rows(const u8* values, u32 count, u32 row, Octet<Format::WIDTH>* v, const u8* tail) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
#pragma unroll
    for (u32 i = 0; i < AT_ONCE; ++i) {
        const u32 place = first + GROUP * (row + i), live = live_of<FULL>(count, place);
        v[i] = Octet<Format::WIDTH>();
        if (FULL || live == 8) load_octet(v + i, values + Format::WIDTH * place);
        else if (live) v[i] = *(const Octet<Format::WIDTH>*)tail;
    }
}

// The key of this thread's first word in a tile, and that of its first word in row `j`.
template <class Format> DEVICE u64 first_key(u32 tile) {
    return key(((u64)tile * Format::TILE + warp_id() * (ROWS * GROUP) + 8 * lane_id()) / 8 * Format::WIDTH);
}
template <class Format> DEVICE u64 key_of_row(u64 first, u32 j) { return first + j * (GROUP / 8 * Format::WIDTH * KEY_STEP); }
