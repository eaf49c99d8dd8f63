// delta+tiered, BF16, compact layout: differences from values that are on the device, such as the weights before an update.
//
// What kernels get as the static section is the base, as the dynamic one the frame. A block of 512 threads has a block of 32 768 values; a
// thread has a word of 64 bits of the mask and of each tier, a warp 64 values at a time. A value's symbol is found from its
// place among the differences, tier after tier, by prefix sums of popcounts.

#define TILE 32768u
#define THREADS 512u
#define WARPS 16u
#define STEP 64u     // values whose low bits are together
#define GROUP 256u   // values that positions are relative to
#define LARGE 255u   // the symbol of differences that do not fit into one
#define BIAS 9u      // what residuals in tiers are less than symbols
#define ENTRY_LEN 24u
#define BASE_AT 32u  // the id of the base
#define ENTRIES_AT 40u
#define FORM_SAME 0u
#define FORM_DIRECT 1u
#define FORM_DENSE 2u
#define FORM_MASKED 3u
#define FORM_LISTED 4u
#define FORM_XOR 8u
#define FORM_RANS 16u

struct Delta {
    static const u32 CODEC = 6, DTYPE = 0;
};

DEVICE u64 front_end(u32 tile_count) { return ENTRIES_AT + ENTRY_LEN * (u64)tile_count; }
DEVICE u32 values_of_block(u64 count, u64 block) {
    const u64 left = count - block * TILE;
    return left < TILE ? (u32)left : TILE;
}
DEVICE u32 codes_len(u32 count) { return (count + 63) / 64 * 16; }
DEVICE u32 round8(u32 count) { return (count + 7) & ~7u; }

// What is known of a block, and where its parts are, from the start of its body on.
struct Entry {
    u32 form, reference, coded, large, low_bytes, low_words, is_xor;
    u32 counts[5]; // differences in the tiers, and escapes

    DEVICE Entry read(const u8* bytes) {
        const u64* words = (const u64*)bytes;
        const u64 first = words[0], second = words[1], third = words[2];
        Entry entry;
        entry.form = (u32)first & 7u;
        entry.is_xor = (u32)first >> 3 & 1u;
        entry.reference = (u32)first >> 8 & 0xffu;
        entry.coded = entry.counts[0] = (u32)first >> 16;
        entry.counts[1] = (u32)(first >> 32) & 0xffffu;
        entry.counts[2] = (u32)(first >> 48);
        entry.counts[3] = (u32)second & 0xffffu;
        entry.counts[4] = (u32)second >> 16;
        entry.large = (u32)(second >> 32) & 0xffffu;
        entry.low_bytes = (u32)third;
        entry.low_words = (u32)(third >> 32);
        return entry;
    }
    __device__ __forceinline__ bool is_dense() const { return form == FORM_DENSE; }
    // Of the mask, or of the numbers of positions.
    __device__ __forceinline__ u32 numbers_len(u32 count) const {
        return form == FORM_MASKED ? (count + 7) / 8 : form == FORM_LISTED ? (count + GROUP - 1) / GROUP : 0u;
    }
    __device__ __forceinline__ u32 positions_at(u32 count) const { return round8(numbers_len(count)); }
    __device__ __forceinline__ u32 tier_at(u32 count, u32 tier) const {
        u32 place = positions_at(count) + (form == FORM_LISTED ? round8(coded) : 0u);
#pragma unroll
        for (u32 before = 0; before < 4; ++before)
            if (before < tier) place += codes_len(counts[before]);
        return place;
    }
    __device__ __forceinline__ u32 escapes_at(u32 count) const { return tier_at(count, 4); }
    __device__ __forceinline__ u32 low_bytes_at(u32 count) const { return escapes_at(count) + round8(counts[4]); }
    __device__ __forceinline__ u32 low_words_at(u32 count) const { return low_bytes_at(count) + round8(low_bytes); }
    __device__ __forceinline__ u32 large_at(u32 count) const { return low_words_at(count) + 8 * low_words; }
    __device__ __forceinline__ u32 len(u32 count) const {
        return form == FORM_SAME ? 0u : large_at(count) + round8(2 * large);
    }
};

// The fault of an entry that no encoder writes, or that these kernels do not know, of a block of `count` values.
DEVICE u32 fault_of_entry(const u8* bytes, u32 count) {
    const u64* words = (const u64*)bytes;
    const Entry entry = Entry::read(bytes);
    const u32 form = bytes[0];
    if (form >= 2 * FORM_RANS || entry.form > FORM_LISTED || words[1] >> 48 != 0) return FAULT_TILE;
    if (entry.form == FORM_SAME || entry.form == FORM_DIRECT) {
        if (words[0] != entry.form || words[1] || words[2]) return FAULT_TILE;
        return entry.form == FORM_DIRECT ? FAULT_METHOD : FAULT_NONE;
    }
    if (form & FORM_RANS) return FAULT_METHOD;
    bool fits = entry.is_dense() ? entry.coded == count : entry.coded >= 1 && entry.coded <= count;
    fits = fits && (entry.is_xor == 0 || entry.reference == 0) && entry.large <= entry.coded;
    fits = fits && entry.low_bytes <= 3 * entry.coded && entry.low_words <= (3 * entry.coded + 7) / 8;
    for (u32 tier = 0; tier < 4; ++tier) fits = fits && entry.counts[tier] >= entry.counts[tier + 1];
    return fits ? FAULT_NONE : FAULT_TILE;
}

// Runs before the decoder: compares headers and bases, and finds where the bodies of blocks begin. A block of 1024 threads per frame.
extern "C" __global__ void __launch_bounds__(1024) delta_open_bf16(const Frame* frames, const u64* base_ids) {
    __shared__ u32 totals[32];
    const Frame* frame = frames + blockIdx.x;
    const u8* front = at<const u8>(frame->dynamic);
    const u64 end = front_end(frame->tile_count);
    if (threadIdx.x == 0) {
        const u32 fault = ((const u64*)front)[BASE_AT / 8] != base_ids[blockIdx.x] ? FAULT_BASE : FAULT_NONE;
        open_state<Delta, LAYOUT_COMPACT>(frame, front, 0, fault, (end - HEADER_BYTES) / 8);
    }
    __syncthreads();
    place_tiles(frame, end, totals, [=](u32 tile) {
        const u8* entry = front + ENTRIES_AT + (u64)ENTRY_LEN * tile;
        const u32 count = values_of_block(frame->count, tile), fault = fault_of_entry(entry, count);
        if (fault) report(frame, fault);
        return fault ? 0u : Entry::read(entry).len(count);
    });
}
