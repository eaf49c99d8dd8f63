// The decoder of tiered in the layout compact.
//
// A lane has eight values of each of eight groups, as in the layout split. What is coded of them are some values in succession, from any place
// on: their codes are in words of tier 1, which are in shared memory, and what these pass on is found by popcounts. A mask brings them to
// their places. Blocks without mask and offsets of columns, which are whole, are `PLAIN`: their octets begin at octets of what is coded.

#define LEFT_OUT 0x8000u

struct CompactShared {
    uint2 list[Bf16::TILE / 8 + 6];    // as in `DecodeShared`
    uint4 codes[Bf16::TILE / 64 + 1];  // words of tier 1; behind the last one anything
    u16 ranks[4][Bf16::TILE / 64];     // by tier and word: values before it that are passed on; later those of sparse planes
    u16 marked[Bf16::TILE / 64];       // by word of the mask: values before it that are not +0
    u16 before[GROUPS];                // values before a group in those that are not left out; with LEFT_OUT if it is
    u8 bases[GROUPS];
    u32 totals[2][WARPS];
    u64 parts[WARPS];
    Plane planes[3];
    u32 rest_len;
    __align__(16) u8 tail[TAIL_LEN];
};

// The body of a block, whose parts begin at multiples of eight bytes from its first one on.
struct Body {
    const u8* bytes;
    const u32* words; // the first one has the first byte
    u32 shift, third; // of words of 64 bits: where they begin in words of 32, and the last of these
    u32 mask, first, rest, later; // where parts begin
    DEVICE Body of(const u8* bytes) {
        const u32 skipped = (u32)((size_t)bytes & 3);
        Body body = {bytes, (const u32*)((size_t)bytes & ~(size_t)3), 8 * skipped, skipped ? 2u : 1u, 0, 0, 0, 0};
        return body;
    }
    __device__ __forceinline__ const u8* from(u32 place) const { return bytes + place; }
    // Eight bytes from a multiple of eight on.
    __device__ __forceinline__ uint2 eight(u32 place) const {
        const u32* from = words + place / 4;
        const u32 a = from[0], b = from[1], c = from[third];
        return make_uint2(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift));
    }
};

DEVICE u64 wide(uint2 word) { return word_of(word.x, word.y); }
DEVICE u64 below(u32 bit) { return (1ull << bit) - 1; }

// Sum over the threads before this one, and over all; to be read by no thread before all have come here. A barrier is inside.
DEVICE u32 scan_block(u32 value, u32* totals, u32* all) {
    u32 total;
    const u32 in_warp = warp_scan(value, &total);
    if (lane_id() == 0) totals[warp_id()] = total;
    __syncthreads();
    return in_warp + warps_before(totals, all);
}

// ---- Eight values ------------------------------------------------------------------------------------------------

// Which of eight values are coded, and where the first of these is among the coded ones: 0 if none is.
struct Coded {
    u32 bits, count, place;
};

DEVICE uint2 bytes_of_nibbles(u32 nibbles) {
    const u32 even = nibbles & 0x0f0f0f0fu, odd = nibbles >> 4 & 0x0f0f0f0fu;
    return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

// Brings bytes to the places of bits that are set, in their order; others are 0.
struct Spreader {
    u32 places, low, high;
    DEVICE Spreader of(u32 bits) {
        const u32 set = spread(bits);
        // The number of bits before each.
        Spreader spreader = {set * 0x11111110u, __byte_perm(0xff00u, 0, set), __byte_perm(0xff00u, 0, set >> 16)};
        return spreader;
    }
    __device__ __forceinline__ uint2 there(uint2 bytes) const { return make_uint2(bytes.x & low, bytes.y & high); }
    __device__ __forceinline__ uint2 run(uint2 bytes) const {
        return there(make_uint2(__byte_perm(bytes.x, bytes.y, places), __byte_perm(bytes.x, bytes.y, places >> 16)));
    }
};

// Bytes of coded values, which are at any place, and what is behind them.
DEVICE uint2 coded_bytes(const u8* plane, const Coded& coded) {
    return eight_bytes(plane + coded.place, coded.count ? coded.count : 1);
}

// Values that `PLANES` bit planes have, which begin at `at`; a plane has a word of 64 bits for each 64 values, beside those of the others.
template <u32 PLANES, bool PLAIN, class Source> DEVICE uint2 coded_bits(const Source& source, u32 at, const Coded& coded) {
    const u32 first = coded.place, last = coded.count ? first + coded.count - 1 : 0;
    const auto from = source.from(at + first / 64 * (8 * PLANES) + first % 64 / 8);
    const auto next = source.from(at + last / 64 * (8 * PLANES) + last % 64 / 8);
    u32 low = 0, high = 0;
#pragma unroll
    for (u32 plane = 0; plane < PLANES; ++plane) {
        u32 bits = from[8 * plane];
        if (!PLAIN) bits = (bits | (u32)next[8 * plane] << 8) >> first % 8 & 0xffu;
        if (plane < 4) low |= spread(bits) << plane;
        else high |= spread(bits) << (plane - 4);
    }
    uint2 bytes = bytes_of_nibbles(low);
    if (PLANES > 4) {
        const uint2 upper = bytes_of_nibbles(high);
        bytes = make_uint2(bytes.x | upper.x << 4, bytes.y | upper.y << 4);
    }
    return bytes;
}

// Residuals of an octet's coded values. `symbols` are those of tier 1, `list` is where the values that it passes on begin.
template <bool PLAIN> DEVICE uint2 coded_symbols(const Coded& coded, u32 symbols, u32 list, const CompactShared* shared) {
    const u32 word = coded.place / 64, within = coded.place % 64;
    const uint4 own = shared->codes[word], next = shared->codes[PLAIN ? word : word + 1];
    const u64 lows = word_of(own.x, own.y), highs = word_of(own.z, own.w);
    u32 low = (u32)(lows >> within), high = (u32)(highs >> within);
    if (!PLAIN && within > 56) low |= next.x << (64 - within), high |= next.z << (64 - within);
    const u32 rank = shared->ranks[0][word] + (u32)__popcll(lows & highs & below(within));
    return residuals_of(low & 0xffu, high & 0xffu, symbols, read_list(shared->list, list + rank));
}

// ---- Parts of a body ---------------------------------------------------------------------------------------------

// Reads the bases of the groups. Returns whether something is wrong; `kept` is how many values are in groups that are not left out.
DEVICE bool read_compact_bases(const u8* bases, const Entry& entry, u32 count, u32* kept, CompactShared* shared) {
    const u32 group = threadIdx.x, groups = (count + GROUP - 1) / GROUP;
    const u32 filled = entry.form == FORM_NIBBLES ? 2 * entry.bases_len(count) : entry.bases_len(count);
    bool is_wrong = false;
    Base base = {entry.base, false, true};
    if (group < groups) base = Base::of(entry, bases, group);
    else if (group < filled) is_wrong = entry.form == FORM_NIBBLES ? bases[group / 2] >> 4 * (group & 1) & 15u : bases[group];
    const u32 own = group < groups && !base.is_left_out ? values_of_group(count, group) : 0;
    const u32 before = scan_block(own, shared->totals[0], kept);
    if (group < GROUPS) {
        shared->before[group] = (u16)(before | (own ? 0 : LEFT_OUT));
        shared->bases[group] = (u8)base.base;
    }
    return is_wrong || !base.fits;
}

// Counts what is before each word of the mask of `kept` values. Returns whether it marks other than so many values.
DEVICE bool read_mask(const Body& body, u32 kept, u32 coded, CompactShared* shared) {
    const u32 first = 64 * threadIdx.x, live = first >= kept ? 0 : kept - first < 64 ? kept - first : 64;
    u64 bits = 0;
    if (live) bits = wide(body.eight(body.mask + 8 * threadIdx.x));
    u32 all;
    shared->marked[threadIdx.x] = (u16)scan_block(__popcll(bits), shared->totals[1], &all);
    return (live < 64 && bits >> live != 0) || all != coded;
}

// Whether the padding of planes of `count` values, which begin at `planes`, is not zero: bytes, or words of bits.
DEVICE bool is_filled(const u8* plane, u32 count) {
    const u32 i = count + threadIdx.x;
    return i < round8(count) && plane[i] != 0;
}
DEVICE bool are_bits_filled(const Body& body, u32 planes, u32 number, u32 count) {
    if (count % 64 == 0 || threadIdx.x >= number) return false;
    return wide(body.eight(planes + 8 * (count / 64 * number + threadIdx.x))) >> count % 64 != 0;
}

// The residuals of the first tier, and of all tiers.
struct Symbols {
    u32 first, second, third, fourth;
    DEVICE Symbols of(u32 order) {
        const Symbols of = {0x00ff0100u, symbols(order, 2), symbols(order, 3), symbols(order, 4)};
        return of;
    }
};

// Reads the words of tier 1, which begin at `first`, ranks those of all tiers and expands the tiers 4, 3 and 2, which begin at `later`, in the
// list: as `expand_tiers`.
DEVICE bool expand_lists(const Body& body, u32 first, u32 later, const u32* counts, const Symbols& symbols, bool is_wrong, CompactShared* shared) {
    const u32 thread = threadIdx.x;
    u32 of_tier[4], place = first;
#pragma unroll
    for (u32 tier = 0; tier < 4; ++tier) {
        const u32 count = counts[tier];
        uint2 low = make_uint2(0, 0), high = make_uint2(0, 0);
        if (64 * thread < count) {
            low = body.eight(place + 16 * thread);
            high = body.eight(place + 16 * thread + 8);
        }
        of_tier[tier] = popc_both(low, high);
        is_wrong |= !ends_clear(make_uint2(low.x | high.x, low.y | high.y), 64 * thread, count);
        if (tier == 0) shared->codes[thread] = make_uint4(low.x, low.y, high.x, high.y);
        place = tier == 0 ? later : place + codes_len(count);
    }
    const u32 escapes = place, escape_count = counts[4];
#pragma unroll 1
    for (u32 number = 8 * thread; number < escape_count; number += ROUND) {
        const uint2 bytes = body.eight(escapes + number);
        shared->list[(list_at(5, escape_count) + number) / 8] = bytes;
        const u32 live = escape_count - number;
        is_wrong |= live < 8 && wide(bytes) >> 8 * live != 0;
    }
    u32 low_all, high_all;
    const u32 low_before = scan_block(of_tier[0] | of_tier[1] << 16, shared->totals[0], &low_all);
    const u32 high_before = scan_block(of_tier[2] | of_tier[3] << 16, shared->totals[1], &high_all);
    shared->ranks[0][thread] = (u16)low_before;
    shared->ranks[1][thread] = (u16)(low_before >> 16);
    shared->ranks[2][thread] = (u16)high_before;
    shared->ranks[3][thread] = (u16)(high_before >> 16);
    is_wrong |= low_all != (counts[1] | counts[2] << 16) || high_all != (counts[3] | counts[4] << 16);
    if (__syncthreads_or(is_wrong)) return false;
    u32 next = escape_count;
#pragma unroll 1
    for (u32 tier = 4; tier >= 2; --tier) {
        const u32 count = tier == 4 ? counts[3] : tier == 3 ? counts[2] : counts[1];
        const u32 own = tier == 4 ? symbols.fourth : tier == 3 ? symbols.third : symbols.second;
        const u32 source = list_at(tier + 1, next), target = list_at(tier, count);
        place -= codes_len(count);
#pragma unroll 1
        for (u32 number = 8 * thread; number < round8(count) + 8 * thread; number += ROUND) {
            // Without a branch: where the compiler meets one here, it does not come to an end.
            const u32 from = number < count ? number : 0, within = from & 63;
            const u64 lows = wide(body.eight(place + from / 64 * 16)), highs = wide(body.eight(place + from / 64 * 16 + 8));
            const u32 rank = shared->ranks[tier - 1][from / 64] + __popcll(lows & highs & below(within));
            const uint2 residuals =
                residuals_of((u32)(lows >> within) & 0xffu, (u32)(highs >> within) & 0xffu, own, read_list(shared->list, source + rank));
            __syncthreads();
            if (number < count) shared->list[(target + number) / 8] = residuals;
        }
        __syncthreads();
        next = count;
    }
    return true;
}
