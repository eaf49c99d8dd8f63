// rans, compact layout: its table, and how long bodies are. Frames are those of tiered, with the differences that are here; they lie at any byte.
//
// A table may be one of joint symbols: a residual and the two highest bits of the mantissa. Then rests lack these bits. And the last 96 bytes of
// a rest, if it has so many of known length, are in what the states begin with, so that they are not in the body.

#define JOINT_SYMBOLS 64u
#define JOINT_ESCAPES 60u     // the first of four
#define JOINT_WINDOW 15u      // the longest one
#define TABLE_HEAD 8u
#define CARRIED 96u           // bytes that states carry

struct CompactTable {
    u32 frequencies[JOINT_SYMBOLS];
    u32 firsts[JOINT_SYMBOLS];  // by rank, as in `TableRead`
    u32 symbols[JOINT_SYMBOLS];
    u32 window;                 // 0 if symbols are not joint
};

// The length of the window of joint symbols, or 0, from the front of a table.
DEVICE u32 window_of(u32 head) { return head >> 8 & 0xffu; }

// Bit planes of a rest without the two bits that are in joint symbols.
template <class Format> struct Joint {
    static const u32 MANTISSA = Format::PLANES ? Format::MANTISSA - 2 : 5, PLANES = MANTISSA + 1;
};
template <class Format> DEVICE u32 joint_rest_len(u32 count) { return Format::LOWER * round8(count) + Joint<Format>::PLANES * mask_len(count); }

// How many bytes of a rest of `len` the states carry.
template <class Format> DEVICE u32 carried_len(u32 len) { return !has_forms<Format>() && len >= CARRIED ? CARRIED : 0; }

// Reads the table at `from`, of which `room` bytes are there, and makes its slots. By 1024 threads.
template <class Format> DEVICE void read_compact_table(const u8* from, u64 room, u64 first_word, Scratch* scratch, CompactTable* table, Ahead* ahead) {
    const u32 thread = threadIdx.x;
    // Loads are never left out, but go to what is in front: where the compiler meets a way out, it does not come to an end.
    const uint2 head = eight_bytes(room < TABLE_LEN ? from - TABLE_HEAD : from);
    const u32 window = window_of(head.x), symbols = window ? JOINT_SYMBOLS : SYMBOLS, len = TABLE_HEAD + symbols / 2 * 3;
    const bool fits = room >= len, is_used = thread < 4 * window || thread >= JOINT_ESCAPES;
    const u8* pair = fits && thread < symbols ? from + TABLE_HEAD + thread / 2 * 3 : from - TABLE_HEAD;
    const u32 both = pair[0] | pair[1] << 8 | pair[2] << 16;
    u32 frequency = thread & 1 ? both >> SCALE_BITS : both % SLOTS;
    if (!fits || thread >= symbols) frequency = 0;
    // A table of zeros.
    if (!__syncthreads_or(frequency) && !window && thread == ESCAPE) frequency = SLOTS;
    if (thread < JOINT_SYMBOLS) table->frequencies[thread] = frequency;
    __syncthreads();
    bool is_wrong = window > JOINT_WINDOW || (window && has_forms<Format>());
    if (thread < JOINT_SYMBOLS) {
        u32 first = 0, rank = 0, sum = 0;
#pragma unroll 1
        for (u32 symbol = 0; symbol < JOINT_SYMBOLS; ++symbol) {
            const u32 other = table->frequencies[symbol];
            sum += other;
            if (other > frequency || (other == frequency && symbol < thread)) first += other, ++rank;
        }
        table->firsts[rank] = first;
        table->symbols[rank] = thread | (frequency - 1) << 8;
        is_wrong |= sum != SLOTS || (window ? is_used != (frequency != 0) : thread == ESCAPE && frequency == 0);
    }
    is_wrong = __syncthreads_or(is_wrong);
#pragma unroll 1
    for (u32 slot = thread; slot < SLOTS; slot += blockDim.x) {
        u32 rank = 0;
#pragma unroll
        for (u32 step = JOINT_SYMBOLS / 2; step; step /= 2)
            if (table->firsts[rank + step] <= slot) rank += step;
        ((u32*)scratch->slots)[slot] = table->symbols[rank] | (slot - table->firsts[rank]) << 20;
    }
    if (thread == 0) {
        scratch->table[0] = word_of(head.x, head.y);
        table->window = window;
    }
    // The first warp has the sum.
    const u32 word = thread < len / 8 && fits ? thread : 0;
    const uint2 bytes = eight_bytes(fits ? from + 8 * word : from - TABLE_HEAD);
    const u64 mixed = mix(word_of(bytes.x, bytes.y), key(~(first_word + word)));
    ahead->sum += warp_sum(thread < len / 8 ? mixed : 0);
    ahead->len += fits ? len : 0;
    if (!ahead->fault) ahead->fault = !fits ? FAULT_LENGTH : (head.x >> 16 | head.y) ? FAULT_PADDING : is_wrong ? FAULT_FREQUENCIES : FAULT_NONE;
}

// Bodies of rans, for `open_compact`; see `TieredBodies`.
template <class Format> struct RansBodies {
    Scratch* scratch;
    CompactTable* table;
    bool has_table;
    __device__ __forceinline__ void read_ahead(const u8* from, u64 room, u64 first_word, Ahead* ahead) const {
        if (has_table) read_compact_table<Format>(from, room, first_word, scratch, table, ahead);
    }
    __device__ __forceinline__ u32 fault(const Compact& block, u32 count) const {
        const Entry& entry = block.entry;
        const u32* counts = entry.counts;
        if (entry.order != ORDER_RANS) return block.fault(count);
        bool fits = (entry.form == FORM_ONE || block.has_groups()) && entry.base <= (entry.form == FORM_BYTES ? 0 : LAST_BASE);
        fits = fits && counts[0] >= 1 && counts[0] <= count && (block.is_masked || block.has_groups() || counts[0] == count);
        fits = fits && counts[1] <= counts[0] && counts[2] <= counts[0] && counts[3] == 0 && counts[4] == 0;
        return fits ? FAULT_NONE : FAULT_TILE;
    }
    __device__ __forceinline__ u32 len_behind(const Compact& block, u32 rest) const {
        if (block.entry.order != ORDER_RANS) return TieredBodies().len_behind(block, rest);
        if (table->window) rest = joint_rest_len<Format>(block.entry.counts[0]);
        return rest - carried_len<Format>(rest) + rans_len(block.entry.counts[1], block.entry.counts[2]);
    }
};

// A block of 1024 threads per frame.
template <class Format> DEVICE void open_rans_compact(const Frame* frame) {
    __shared__ OpenShared shared;
    __shared__ CompactTable table;
    const u8* front = at<const u8>(frame->fixed);
    bool has_table = false;
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < frame->tile_count; tile += blockDim.x)
        has_table |= is_rans(front + HEADER_BYTES + Format::ENTRY * (u64)tile);
    if (threadIdx.x == 0) table.window = 0;
    has_table = __syncthreads_or(has_table);
    const RansBodies<Format> bodies = {scratch_of(frame), &table, has_table};
    open_compact<Format>(frame, &shared, bodies);
}
