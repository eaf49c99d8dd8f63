// rans, split layout: frames of tiered whose residuals are coded by rANS, most of them, with a table of the frame.
//
// 32 lanes, which are a warp, have a state each; a lane has four values of a row of 128 in succession, so that rows are words of
// symbols, rests and checksums. In a step each lane has a value; what states have too much, or lack, are words of 16 bits, whose
// places among those of the step are a ballot and a popcount.
//
// A block of values is one chain of steps. So a warp decodes a block, with the table of slots in shared memory, and of sixteen
// blocks of threads one has the warps for all of theirs; blocks in tiers and stored ones are decoded by all threads, as those of
// tiered. Encoders do as tiered until there are residuals, and one warp then codes them.

#define SYMBOLS 32u
#define ESCAPE 31u
#define SCALE_BITS 12u
#define SLOTS 4096u
#define LOWEST_STATE 0x8000u
#define ROW_LEN 128u     // values of a row
#define TABLE_LEN 56u    // bytes of a table
#define STATES_LEN 128u  // bytes of the states of a block
#define MAX_LOOKED_AT 16u
#define ORDER_RANS 3u    // in place of an order
#define FORM_RANS 0x30u  // where it is in an entry

// Scratch of a frame, behind two words of each tile.
struct Scratch {
    // Decoders: of each slot its symbol in bits 0 to 7, the frequency less 1 in bits 8 to 19 and the number among the slots of
    // the symbol above. Encoders: sums of the groups that are looked at.
    uint4 slots[SLOTS / 4];
    uint4 steps[SYMBOLS]; // encoders: what each code is coded with
    u64 table[8];         // as in the frame
    u32 has_table;
    u32 eighths;          // what is added to means for bases
    u32 start;            // the residual of symbol 0
    u32 core, core_len;   // symbols that all have slots: the first one, and how many
    u32 used;             // of each symbol a bit, set if it has slots
    u32 failed;           // whether there is no room for all blocks with the table
    u32 coded;            // blocks that are coded with it
    u32 next;             // encoders: the next block of a frame that is coded once more without it
    u32 unused[3];
};
#define SCRATCH_WORDS 2126u // kernels/src/module.rs has the same
static_assert(sizeof(Scratch) == 8 * SCRATCH_WORDS, "there is room for it");

DEVICE Scratch* scratch_of(const Frame* frame) { return at<Scratch>(frame->tiles_state + 16ull * frame->tile_count); }

DEVICE bool is_rans(const u8* entry) { return (entry[0] & FORM_RANS) == FORM_RANS; }

// Bytes of the codes of a block.
DEVICE u32 rans_len(u32 words, u32 escapes) { return STATES_LEN + round8(2 * words) + round8(escapes); }

// The codec with a type, as `Tiered` has it.
template <u32 TYPE, u32 UPPER_BYTES, u32 MANTISSA_BITS, u32 LOWER_BYTES = 0>
struct Rans : Tiered<TYPE, UPPER_BYTES, MANTISSA_BITS, LOWER_BYTES, 5> {
    typedef Tiered<TYPE, UPPER_BYTES, MANTISSA_BITS, LOWER_BYTES, 5> InTiers;
    // What is in front of the dynamic section if a block needs it.
    static const u32 COMMON_LEN = TABLE_LEN;
    DEVICE bool needs_common(const u8* entry) { return is_rans(entry); }
    DEVICE u32 dynamic_len(const u8* bytes, u32 count, u32* fault) {
        if (!is_rans(bytes)) return InTiers::dynamic_len(bytes, count, fault);
        const Entry entry = Entry::read(bytes);
        bool fits = entry.form == FORM_ONE || entry.form == FORM_NIBBLES || entry.form == FORM_BYTES;
        fits = fits && entry.base <= (entry.form == FORM_BYTES ? 0 : LAST_BASE) && entry.counts[0] == count && InTiers::has_codes(count);
        fits = fits && entry.counts[1] <= count && entry.counts[2] <= count && entry.counts[3] == 0 && entry.counts[4] == 0;
        if (!fits) *fault = FAULT_TILE;
        if (bytes[0] & FORM_COLUMNS) *fault = FAULT_COLUMNS;
        return *fault ? 0 : entry.bases_len(count) + rans_len(entry.counts[1], entry.counts[2]);
    }
};

typedef Rans<0, 2, 7> RansBf16;
typedef Rans<1, 1, 2, 1> RansF16;
typedef Rans<2, 2, 7, 2> RansF32;
typedef Rans<3, 1, 3> RansE4m3;
typedef Rans<4, 1, 2> RansE5m2;

// The first slot of each lane's symbol, which has so many: slots lie by descending frequency, and those of the lower one of equals
// come first. `rank` is how many symbols come before.
DEVICE u32 first_slot(u32 frequency, u32* rank) {
    u32 first = 0, before = 0;
#pragma unroll 1
    for (u32 symbol = 0; symbol < SYMBOLS; ++symbol) {
        const u32 other = __shfl_sync(ALL, frequency, symbol);
        if (other > frequency || (other == frequency && symbol < lane_id())) first += other, ++before;
    }
    *rank = before;
    return first;
}

// The part of the checksum that a table has, by one warp.
template <class Format> DEVICE u32 table_sum(const u64* table, u64 count) {
    const u64 word = front_len<Format>(count) / 8 + lane_id();
    return fold(warp_sum(lane_id() < TABLE_LEN / 8 ? mix(table[lane_id()], key(~word)) : 0ull));
}
