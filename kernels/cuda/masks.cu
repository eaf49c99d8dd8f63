// Tiles of compact frames of window7 and codebook16: their modes, and masks of the values that are not +0.
//
// Masks: kept values of a tile are brought to shared memory, and go from there to their places by the bits of the mask, which are all
// set where there is no mask. A thread has 32 values in succession.

#define MODE_ZERO 2u
#define MODE_MASKED 3u

// The fault of numbers of coded values and of escapes that no encoder writes, of a tile of `count` values; where nothing is coded, `others` are
// fields that are 0 as well.
DEVICE u32 fault_of_counts(u32 mode, u32 coded, u32 escapes, u32 others, u32 count) {
    const bool is_coded = mode == MODE_CODED ? coded == count : coded >= 1 && coded < count;
    const bool fits = mode == MODE_CODED || mode == MODE_MASKED ? is_coded && escapes <= coded
                                                                : mode <= MODE_MASKED && (coded | escapes | others) == 0;
    return fits ? FAULT_NONE : FAULT_TILE;
}

DEVICE u32 tile_mask_len(u32 mode, u32 count) { return mode == MODE_MASKED ? (count + 7) / 8 : 0; }

// Which of 32 values are there, and how many of those before them.
struct Kept {
    u32 bits, before;
};

// Kept values of thread `thread` in a tile of `count` values. `totals` has room for each warp of the tile, which has number `warp` of eight; `all` is
// how many are marked, or ALL if some are behind the last value. Barriers are inside.
DEVICE Kept read_marks(const u8* mask, bool is_masked, u32 count, u32 thread, u32 warp, u32* totals, u32* all) {
    const u32 first = 32 * thread, live = first >= count ? 0 : count - first < 32 ? count - first : 32;
    const u32 there = live < 32 ? (1u << live) - 1 : ALL;
    Kept kept = {there, 0};
    if (is_masked && live) kept.bits = eight_bytes(mask + first / 8, (live + 7) / 8).x & (u32)((1ull << (live + 7) / 8 * 8) - 1);
    u32 total;
    kept.before = warp_scan(__popc(kept.bits), &total);
    if (lane_id() == 0) totals[warp] = total;
    const bool is_beyond = __syncthreads_or((kept.bits & ~there) != 0);
    const u32 of_warp = lane_id() < 8 ? totals[lane_id()] : 0;
    *all = is_beyond ? ALL : __reduce_add_sync(ALL, of_warp);
    kept.before += __reduce_add_sync(ALL, lane_id() < warp ? of_warp : 0);
    __syncthreads();
    return kept;
}

// Writes the 32 values of a thread, `live` of which are there, and returns the sum over them; `first` is the index of their first word in the
// frame. `from` gives those that are not left out, by their number.
template <class Value, class From> DEVICE u64 write_kept(const Kept& kept, const From& from, Value* to, u32 live, u64 first) {
    const u32 of_word = 8 / sizeof(Value);
    u32 place = kept.before;
    u64 sum = 0;
#pragma unroll 1
    for (u32 i = 0; i < live; i += of_word) {
        u64 word = 0;
#pragma unroll 1
        for (u32 k = 0; k < of_word && i + k < live; ++k) {
            const bool is_there = kept.bits >> (i + k) & 1u;
            const Value value = is_there ? from(place) : (Value)0;
            place += is_there;
            word |= (u64)value << 8 * sizeof(Value) * k;
            if (live - i < of_word) to[i + k] = value;
        }
        if (live - i >= of_word) *(u64*)(to + i) = word;
        sum += mix(word, key(first + i / of_word));
    }
    return sum;
}

// Copies bytes from any place to shared memory, four at a time, by so many threads; there is room for whole words.
DEVICE void stage_bytes(u8* to, const u8* from, u32 count, u32 thread, u32 threads) {
#pragma unroll 1
    for (u32 i = 4 * thread; i < count; i += 4 * threads) *(u32*)(to + i) = eight_bytes(from + i, count - i < 4 ? count - i : 4).x;
}
