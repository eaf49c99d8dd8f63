// delta+tiered, BF16, compact layout: differences from values that are on the device, such as the weights before an update.
//
// What kernels get as the static section is the base, as the dynamic one the frame. A block of 512 threads has a block of 32 768 values; a
// thread has a word of 64 bits of the mask and of each tier, a warp 64 values at a time. A value's symbol is found from its
// place among the differences, tier after tier, by prefix sums of popcounts.
//
// Blocks without a base are those of an inner frame of tiered, which is behind the bodies. What kernels need to know of that is kept behind
// the places of bodies: places of its own, and what the host says of other frames.

namespace delta {

#define TILE 32768u
#define STEP 64u     // values whose low bits are together
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
#define RANS_CODEC 5u

struct Delta {
    static const u32 CODEC = 6, DTYPE = 0;
};

DEVICE u64 front_end(u32 tile_count) { return ENTRIES_AT + ENTRY_LEN * (u64)tile_count; }
DEVICE u32 values_of_block(u64 count, u64 block) {
    const u64 left = count - block * TILE;
    return left < TILE ? (u32)left : TILE;
}

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
        return FAULT_NONE;
    }
    if (form & FORM_RANS) return FAULT_METHOD;
    bool fits = entry.is_dense() ? entry.coded == count : entry.coded >= 1 && entry.coded <= count;
    fits = fits && (entry.is_xor == 0 || entry.reference == 0) && entry.large <= entry.coded;
    fits = fits && entry.low_bytes <= 3 * entry.coded && entry.low_words <= (3 * entry.coded + 7) / 8;
    for (u32 tier = 0; tier < 4; ++tier) fits = fits && entry.counts[tier] >= entry.counts[tier + 1];
    return fits ? FAULT_NONE : FAULT_TILE;
}

// The inner frame of one of `count` values.
struct Inner {
    Frame frame;
    State state;
    u64 size;
};

// Places of bodies, or of a direct block its number among them; and those of the inner frame.
DEVICE u64* places_of(const Frame* frame) { return at<u64>(frame->tiles_state); }
DEVICE u64* inner_places_of(const Frame* frame) { return places_of(frame) + frame->tile_count; }
DEVICE Inner* inner_of(const Frame* frame) { return (Inner*)(places_of(frame) + 2 * (u64)frame->tile_count); }
DEVICE const u8* entry_of(const Frame* frame, u32 block) { return at<const u8>(frame->dynamic) + ENTRIES_AT + (u64)ENTRY_LEN * block; }
DEVICE bool is_direct(const Frame* frame, u32 block) { return (entry_of(frame, block)[0] & 7u) == FORM_DIRECT; }

// Describes the inner frame, of so many blocks, which begins behind the bodies. Returns the fault of one that is too short, or coded otherwise.
DEVICE u32 describe_inner(const Frame* frame, u64 bodies, u32 blocks) {
    Inner* inner = inner_of(frame);
    const u32 last = frame->tile_count - 1;
    const u64 size = *at<const u64>(frame->size), room = size < bodies ? 0 : size - bodies;
    if (size > frame->capacity || room < compact_front_len(blocks)) return FAULT_LENGTH;
    inner->size = room;
    inner->frame.count = (u64)TILE * (blocks - 1) + (is_direct(frame, last) ? values_of_block(frame->count, last) : TILE);
    inner->frame.fixed = inner->frame.dynamic = frame->dynamic + bodies;
    inner->frame.capacity = room;
    inner->frame.size = address_of(&inner->size);
    inner->frame.tiles_state = address_of(inner_places_of(frame));
    inner->frame.state = address_of(&inner->state);
    inner->frame.first_tile = 0;
    inner->frame.tile_count = blocks;
    return at<const u8>(inner->frame.fixed)[5] == RANS_CODEC ? FAULT_METHOD : FAULT_NONE;
}

// Compares headers and bases, and finds where the bodies of blocks begin. By 1024 threads.
DEVICE void open_frame(const Frame* frame, u64 base_id, OpenShared* shared) {
    const u8* front = at<const u8>(frame->dynamic);
    const u64 end = front_end(frame->tile_count);
    if (threadIdx.x == 0) {
        const u32 fault = ((const u64*)front)[BASE_AT / 8] != base_id ? FAULT_BASE : FAULT_NONE;
        open_state<Delta, LAYOUT_COMPACT>(frame, front, 0, fault, (end - HEADER_BYTES) / 8);
    }
    __syncthreads();
    const u64 bodies = scan_tiles(places_of(frame), frame->tile_count, end, shared->totals, [=](u32 block) {
        const u32 count = values_of_block(frame->count, block), fault = fault_of_entry(entry_of(frame, block), count);
        if (fault) report(frame, fault);
        return fault || is_direct(frame, block) ? 0u : Entry::read(entry_of(frame, block)).len(count);
    });
    const u32 direct = (u32)scan_tiles(inner_places_of(frame), frame->tile_count, 0, shared->totals, [=](u32 block) {
        return is_direct(frame, block) ? 1u : 0u;
    });
#pragma unroll 1
    for (u32 block = threadIdx.x; block < frame->tile_count; block += blockDim.x)
        if (is_direct(frame, block)) places_of(frame)[block] = inner_places_of(frame)[block];
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 fault = bodies != *at<const u64>(frame->size) ? FAULT_LENGTH : FAULT_NONE;
        // There is another block than direct ones.
        if (direct) fault = direct == frame->tile_count ? FAULT_TILE : describe_inner(frame, bodies, direct);
        if (fault) report(frame, fault);
        shared->fault = *(volatile u32*)&state_of(frame)->status;
    }
    __syncthreads();
    const bool has_inner = direct && !shared->fault;
    if (has_inner) open_compact<Bf16>(&inner_of(frame)->frame, shared);
    if (threadIdx.x != 0) return;
    if (has_inner && inner_of(frame)->state.status) report(frame, inner_of(frame)->state.status);
    state_of(frame)->refused = *(volatile u32*)&state_of(frame)->status;
}

} // namespace delta

// Runs before the decoder. A block of 1024 threads per frame.
extern "C" __global__ void __launch_bounds__(1024) delta_open_bf16(const Frame* frames, const u64* base_ids) {
    __shared__ OpenShared shared;
    delta::open_frame(frames + blockIdx.x, base_ids[blockIdx.x], &shared);
}
