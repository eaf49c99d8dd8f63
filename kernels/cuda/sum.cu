// Sums of values as they are, BF16 or FP32, in FP32 and in the order of their terms: what docs/reduction.md defines, bit for bit.
//
// A block of 256 threads has 4096 values of a sum, a thread two octets of them, whose sums stay in registers from the first term
// to the last. So each term is read once and nothing but the sum is written. Where something does not begin at a multiple of 16
// bytes, values are loaded one by one instead, those of neighbours by neighbours.

#define SUM_THREADS 256u
#define SUM_VALUES 16u
#define SUM_TILE (SUM_THREADS * SUM_VALUES)

// kernels/src/sum.rs has the same fields.
struct Term {
    u64 values;  // address
    u64 is_wide; // FP32, not BF16
};

struct Addition {
    u64 output;     // address of the sums
    u64 terms;      // address of the terms, in the order in which they are added
    u64 count;      // values of each term, and sums
    u32 term_count; // at least one
    u32 is_wide;    // sums are FP32, not BF16
    u32 is_aligned; // everything begins at a multiple of 16 bytes
    u32 first_tile; // tiles of the additions before this one
};

// Every NaN becomes the same one, so that the bits do not depend on who adds.
DEVICE float add(float a, float b) {
    const float sum = __fadd_rn(a, b);
    return sum == sum ? sum : __uint_as_float(0x7fc00000u);
}

// A value that is handed on as it is, a NaN too; in BF16 it is rounded to the nearest, to even between two.
DEVICE u32 rounded_bits(float value) {
    const u32 bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | (bits & 0xffffu ? 0x40u : 0u);
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

// The first term is not added to anything: adding would take a NaN's bits away.
DEVICE float plus(bool is_first, float sum, float value) { return is_first ? value : add(sum, value); }

DEVICE void add_octet(const Term& term, bool is_first, u64 first, float* sums) {
    u32 words[8];
    if (term.is_wide) {
        const uint4* from = (const uint4*)(at<const u32>(term.values) + first);
        const uint4 low = __ldcs(from), high = __ldcs(from + 1);
        words[0] = low.x, words[1] = low.y, words[2] = low.z, words[3] = low.w;
        words[4] = high.x, words[5] = high.y, words[6] = high.z, words[7] = high.w;
    } else {
        const uint4 pairs = __ldcs((const uint4*)(at<const u16>(term.values) + first));
        const u32 of[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
        for (u32 i = 0; i < 8; ++i) words[i] = i & 1 ? of[i / 2] & 0xffff0000u : of[i / 2] << 16;
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i) sums[i] = plus(is_first, sums[i], __uint_as_float(words[i]));
}

DEVICE void store_octet(const Addition& addition, u64 first, const float* sums) {
    u32 words[8];
    if (addition.is_wide) {
#pragma unroll
        for (u32 i = 0; i < 8; ++i) words[i] = __float_as_uint(sums[i]);
        uint4* to = (uint4*)(at<u32>(addition.output) + first);
        __stcs(to, make_uint4(words[0], words[1], words[2], words[3]));
        __stcs(to + 1, make_uint4(words[4], words[5], words[6], words[7]));
        return;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) words[i] = rounded_bits(sums[2 * i]) | rounded_bits(sums[2 * i + 1]) << 16;
    __stcs((uint4*)(at<u16>(addition.output) + first), make_uint4(words[0], words[1], words[2], words[3]));
}

// One sum, whose term may be where it goes: so all is read before it is written.
DEVICE void add_one(const Addition& addition, u64 i) {
    const Term* terms = at<const Term>(addition.terms);
    float sum = 0;
#pragma unroll 1
    for (u32 number = 0; number < addition.term_count; ++number) {
        const Term term = terms[number];
        const u32 bits = term.is_wide ? at<const u32>(term.values)[i] : (u32)at<const u16>(term.values)[i] << 16;
        sum = plus(number == 0, sum, __uint_as_float(bits));
    }
    if (addition.is_wide) at<u32>(addition.output)[i] = __float_as_uint(sum);
    else at<u16>(addition.output)[i] = (u16)rounded_bits(sum);
}

// A block per tile.
extern "C" __global__ void __launch_bounds__(256, 4) sum_add(const Addition* additions, u32 addition_count) {
    u32 low = 0, high = addition_count;
#pragma unroll 1
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (additions[middle].first_tile <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Addition addition = additions[low];
    const u64 begin = (u64)(blockIdx.x - addition.first_tile) * SUM_TILE;
    if (!addition.is_aligned || begin + SUM_TILE > addition.count) {
        const u64 end = begin + SUM_TILE < addition.count ? begin + SUM_TILE : addition.count;
#pragma unroll 1
        for (u64 i = begin + threadIdx.x; i < end; i += SUM_THREADS) add_one(addition, i);
        return;
    }
    const Term* terms = at<const Term>(addition.terms);
    const u64 first = begin + 8 * threadIdx.x, second = first + SUM_TILE / 2;
    float sums[2][8] = {};
#pragma unroll 1
    for (u32 number = 0; number < addition.term_count; ++number) {
        const Term term = terms[number];
        add_octet(term, number == 0, first, sums[0]);
        add_octet(term, number == 0, second, sums[1]);
    }
    store_octet(addition, first, sums[0]);
    store_octet(addition, second, sums[1]);
}
