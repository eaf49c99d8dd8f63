// The decoder of huffman.
//
// DFloat11 decodes twice: threads count their symbols, and write them when they know where these go. Here a thread keeps what it
// decodes, four symbols in a word of its own column of shared memory, and moves it when all have counted: that takes a
// quarter of the instructions of another decoding.
//
// Values are written in octets, each by the block that has its first value: a ninth warp reads on by up to seven symbols,
// and what comes before the first octet is left to the block before.

#define ROWS (THREAD_BITS / 4)
// Octets of values that the ninth warp is for: at most seven symbols, two rows of a thread.
#define ROWS_BEHIND 2u

// How many of the blocks that share the memory of a multiprocessor are to fit into its registers: a fifth one only where it has
// memory for five.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
#define AT_ONCE 5
#else
#define AT_ONCE 4
#endif

struct DecodeShared {
    Code code;
    u32 exponents[TILE / 4]; // of one tile, in the order of the values
    u32 columns[ROWS + 2][THREADS]; // by thread; the first row and the last one have nothing
    u64 parts[WARPS];
    u32 totals[WARPS];
    u32 positions[3]; // of the block before, of a block and of the next one
};

// Symbols that a thread has decoded.
struct Decoded {
    u32 count; // symbols whose words begin in its bits
    u32 end;   // the bit behind them, from the first one of the thread on
};

// The next bits of a thread, the first one lowest.
struct Bits {
    u32 first, second, third;
    __device__ __forceinline__ void skip(u32 count) {
        first = __funnelshift_rc(first, second, count);
        second = __funnelshift_rc(second, third, count);
        third = __funnelshift_rc(third, 0, count);
    }
};

// The symbol of a word of any length, and the length above it.
DEVICE u32 any_word(const Code* code, u32 bits) {
    const u32 entry = code->entries[bits & (ENTRIES - 1)];
    return entry ? (entry >> 8 & 0xff00u) | (entry & 0xffu) : find_word(code, bits, LOOK + 1, LONGEST);
}

// Decodes the words that begin among the first 64 of these bits, from bit `gap` on, to a column; as many rows as are wanted at most.
DEVICE Decoded decode_words(const Code* code, Bits bits, u32 gap, u32 most_rows, u32* column) {
    bits.skip(gap);
    u32 at = gap, row = 0, begins[2], entries[2];
    do {
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            begins[k] = at;
            entries[k] = code->entries[bits.first & (ENTRIES - 1)];
            u32 step = entries[k] >> 24;
            if (step == 0) {
                const u32 one = any_word(code, bits.first);
                bits.skip(one >> 8);
                const u32 other = any_word(code, bits.first);
                entries[k] = (one & 0xffu) | (other & 0xffu) << 8 | one >> 8 << 16;
                at += one >> 8;
                step = other >> 8;
            }
            bits.skip(step);
            at += step;
        }
        column[row * THREADS] = __byte_perm(entries[0], entries[1], 0x5410);
        ++row;
    } while (at < THREAD_BITS && row < most_rows);
    // Words of the last row that begin behind the bits of this thread are those of the next one.
    const u32 ends[4] = {begins[0] + (entries[0] >> 16 & 0xffu), begins[1], begins[1] + (entries[1] >> 16 & 0xffu), at};
    Decoded found = {4 * row, at};
#pragma unroll
    for (int k = 2; k >= 0; --k)
        if (ends[k] >= THREAD_BITS) --found.count, found.end = ends[k];
    return found;
}

// Stores bytes `from` to `to` - 1 of a word.
DEVICE void put_bytes(u8* word, u32 bytes, u32 from, u32 to) {
#pragma unroll
    for (u32 k = 0; k < 4; ++k)
        if (k >= from && k < to) word[k] = (u8)(bytes >> 8 * k);
}

// Copies `count` symbols of a column to `out`, the first one to byte `first`, but only to bytes `low` to `high` - 1.
DEVICE void place_symbols(const u32* column, int first, int count, int low, int high, u32* out) {
    const int from = first > low ? first : low, to = first + count < high ? first + count : high;
    if (from >= to) return;
    // Byte 0 of word `w` of the output is in row `w + row`, `shift` bits from its start.
    const int row = -first >> 2;
    const u32 shift = 8 * (-first & 3);
    int word = from >> 2;
    u32 lower = column[(word + row) * (int)THREADS];
    if (from & 3) {
        const u32 upper = column[(word + row + 1) * (int)THREADS];
        put_bytes((u8*)(out + word), __funnelshift_r(lower, upper, shift), from & 3, to - 4 * word);
        lower = upper;
        ++word;
    }
#pragma unroll 1
    for (; 4 * word + 4 <= to; ++word) {
        const u32 upper = column[(word + row + 1) * (int)THREADS];
        out[word] = __funnelshift_r(lower, upper, shift);
        lower = upper;
    }
    if (4 * word < to) {
        const u32 upper = column[(word + row + 1) * (int)THREADS];
        put_bytes((u8*)(out + word), __funnelshift_r(lower, upper, shift), 0, to & 3);
    }
}

// Writes the values of an octet of a frame, `live` of which are there, from their exponents, at a multiple of 8 if `IS_ALIGNED`; returns the sum
// over them.
template <bool IS_ALIGNED> DEVICE u64 write_octet(const Frame* frame, const u8* exponents, u64 octet, u32 live) {
    const u8* rests = at<const u8>(frame->fixed) + FRONT_LEN + 8 * octet;
    u16* values = at<u16>(frame->values) + 8 * octet;
    uint2 of_exponents = make_uint2(0, 0), of_rests = make_uint2(0, 0);
    if (live == 8) {
        if (IS_ALIGNED) of_exponents = *(const uint2*)exponents;
        else of_exponents = make_uint2(unaligned_word(exponents), unaligned_word(exponents + 4));
        of_rests = __ldcs((const uint2*)rests);
    } else {
#pragma unroll 1
        for (u32 i = 0; i < live; ++i) {
            const u32 shift = 8 * (i & 3), exponent = (u32)exponents[i] << shift, rest = (u32)rests[i] << shift;
            if (i < 4) of_exponents.x |= exponent, of_rests.x |= rest;
            else of_exponents.y |= exponent, of_rests.y |= rest;
        }
    }
    uint4 v;
    join_four(of_exponents.x, of_rests.x, &v.x, &v.y);
    join_four(of_exponents.y, of_rests.y, &v.z, &v.w);
    const u64 first = key(2 * octet);
    if (live == 8) {
        __stcs((uint4*)values, v);
        return mix_two(v, first);
    }
#pragma unroll 1
    for (u32 i = 0; i < live; ++i) {
        const u32 pair = i < 2 ? v.x : i < 4 ? v.y : i < 6 ? v.z : v.w;
        values[i] = (u16)(pair >> 16 * (i & 1));
    }
    return mix(word_of(v.x, v.y), first) + (live > 4 ? mix(word_of(v.z, v.w), first + KEY_STEP) : 0ull);
}

// Writes values `from` to `to` - 1 of a frame, which are in one tile; `exponents` has that of the first one. `from` is a multiple of 8, and so
// is `to` but at the end of the frame. The first warp has the sum over them; barriers are inside.
template <bool IS_ALIGNED> DEVICE u64 write_values(const Frame* frame, const u8* exponents, u64 from, u64 to, u64* parts) {
    u64 sum = 0;
    const u32 octets = (u32)((to - from + 7) / 8);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < octets; i += THREADS) {
        const u64 left = to - from - 8 * (u64)i;
        sum += write_octet<IS_ALIGNED>(frame, exponents + 8 * i, from / 8 + i, left < 8 ? (u32)left : 8u);
    }
    return block_sum<CHECKED>(sum, parts);
}

// Adds the sum over some values of a tile, by one thread.
DEVICE void add_to_part(const Frame* frame, u32 tile, u64 sum) {
    if (!CHECKED) return;
    atomicAdd(&words_of_tiles(frame)[tile], sum);
}

// Number `number` of the positions.
template <class Layout> DEVICE u32 position(const Coded<Layout>& coded, u32 number) {
    return unaligned_word(coded.bytes + coded.positions_at() + 4 * (u64)number);
}

// Adds the sum over this block's share of the words of gaps and positions, by one warp.
template <class Layout> DEVICE void add_to_index(const Frame* frame, const Coded<Layout>& coded, u32 block) {
    if (!CHECKED) return;
    const u64 words = coded.index_words();
    const u32 share = (u32)((words + coded.blocks - 1) / coded.blocks); // at most 21
    const u64 word = (u64)share * block + lane_id();
    u64 value = lane_id() < share && word < words ? coded.mix_index(word) : 0ull;
    value = warp_sum(value);
    if (lane_id() == 0) atomicAdd(&scratch_of(frame)->index, value);
}

// The bits of a thread, and those of the next one that its last word may have.
template <class Layout> DEVICE Bits bits_from(const Coded<Layout>& coded, u32 thread) {
    const bool has_next = thread + 1 < coded.threads;
    if (Layout::IS_ALIGNED) {
        const uint2 own = ((const uint2*)coded.bytes)[thread];
        const Bits bits = {own.x, own.y, has_next ? ((const uint2*)coded.bytes)[thread + 1].x : 0u};
        return bits;
    }
    // Behind the last word there are five bytes or more of gaps and positions.
    const u8* from = coded.bytes + 8 * (u64)thread;
    const u32* words = (const u32*)((size_t)from & ~(size_t)3);
    const u32 shift = 8 * (u32)((size_t)from & 3);
    const u32 third = has_next ? __funnelshift_r(words[2], words[3], shift) : 0u;
    const Bits bits = {__funnelshift_r(words[0], words[1], shift), __funnelshift_r(words[1], words[2], shift), third};
    return bits;
}

// The gaps of a thread and of the next one, in ten bits.
template <class Layout> DEVICE u32 two_gaps(const Coded<Layout>& coded, u32 thread) {
    const u64 bit = 5 * (u64)thread;
    if (!Layout::IS_ALIGNED) {
        // These are in three bytes at most, and behind the gaps there is a position.
        const u8* from = coded.bytes + coded.gaps_at() + bit / 8;
        return unaligned_word(from) >> (bit & 7);
    }
    const u32* words = (const u32*)(coded.bytes + coded.gaps_at()) + bit / 32;
    return __funnelshift_r(words[0], words[1], (u32)bit & 31u);
}

// Whether the words of a frame end in its last thread, with zeros behind them, if `count` symbols of this thread are the last ones.
template <class Layout> DEVICE bool is_end(const Frame* frame, u32 thread, const u32* column, u32 count) {
    const Coded<Layout> coded = Coded<Layout>::of(frame);
    u32 end = two_gaps(coded, thread) & 31u;
#pragma unroll 1
    for (u32 i = 0; i < count; ++i)
        end += length_of(at<const u8>(frame->fixed), column[i / 4 * THREADS] >> 8 * (i & 3) & 0xffu);
    const u32 last = coded.threads - 1;
    const u64 at_bit = (u64)THREAD_BITS * thread + end, before = (u64)THREAD_BITS * last;
    if (at_bit <= before || at_bit > before + THREAD_BITS) return false;
    const u32 used = (u32)(at_bit - before);
    const uint2 bits = coded.thread_at(last);
    return used == THREAD_BITS || word_of(bits.x, bits.y) >> used == 0;
}

// Decodes a block of a frame.
template <class Layout> DEVICE void decode_block(const Frame* frame, u32 block, DecodeShared* shared) {
    const Coded<Layout> coded = Coded<Layout>::of(frame);
    const u32 thread = block * BLOCK_THREADS + threadIdx.x;
    u32* column = shared->columns[1] + threadIdx.x;
    Decoded found = {0, 0};
    bool is_chained = false; // words end where those of the next thread begin
    if (thread < coded.threads) {
        const Bits bits = bits_from(coded, thread);
        const u32 gaps = two_gaps(coded, thread);
        const u32 rows = threadIdx.x < BLOCK_THREADS ? ROWS : ROWS_BEHIND;
        found = decode_words(&shared->code, bits, gaps & 31u, rows, column);
        is_chained = found.end == THREAD_BITS + (gaps >> 5 & 31u);
    }
    u32 total;
    u32 before = warp_scan(found.count, &total);
    if (lane_id() == 31) shared->totals[warp_id()] = total;
    if (warp_id() == WARPS - 1) {
        // The warp with the fewest symbols.
        add_to_index(frame, coded, block);
        const u32 lane = lane_id(), number = block + lane - 1;
        if (lane < 3) shared->positions[lane] = block + lane == 0 ? 0u : number < coded.blocks ? position(coded, number) : (u32)frame->count;
    }
    __syncthreads();
    const u32 first = shared->positions[1], end = shared->positions[2], count = (u32)frame->count;
    // The block before is wrong, too, where it ends behind this one's beginning: both say so, in whatever order they come.
    if (shared->positions[0] > first || first > end || end > count || (block == 0 && first != 0)) {
        if (threadIdx.x == 0) report(frame, FAULT_POSITIONS);
        return;
    }
    const u32 of_warp = lane_id() < WARPS ? shared->totals[lane_id()] : 0u;
    before += __reduce_add_sync(ALL, lane_id() < warp_id() ? of_warp : 0u);
    const u32 of_block = __reduce_add_sync(ALL, lane_id() < BLOCK_THREADS / 32 ? of_warp : 0u);

    // Words of a thread end where those of the next one begin, and those of a block where its values end.
    const u32 len = end - first, behind = before + found.count;
    const bool has_last = end == count;
    bool is_wrong = has_last ? of_block < len : of_block != len;
    if (threadIdx.x < BLOCK_THREADS && found.count) {
        // The last value may be here; zeros that fill up the last thread may look like words.
        if (behind < len || !has_last) is_wrong |= !is_chained;
        else if (before < len) is_wrong |= !is_end<Layout>(frame, thread, column, len - before);
    }
    if (is_wrong) report(frame, FAULT_WORDS);

    // Octets that begin here.
    const u32 from = (first + 7) / 8 * 8, whole = (end + 7) / 8 * 8, to = whole < count ? whole : count;
#pragma unroll 1
    for (u32 tile = from / TILE; from < to && tile <= (to - 1) / TILE; ++tile) {
        const u32 start = tile * TILE;
        const int low = from > start ? (int)(from - start) : 0, high = to - start < TILE ? (int)(to - start) : (int)TILE;
        place_symbols(column, (int)(first + before - start), (int)found.count, low, high, shared->exponents);
        __syncthreads();
        const u64 sum = write_values<true>(frame, (const u8*)shared->exponents + low, start + low, start + high, shared->parts);
        if (threadIdx.x == 0) add_to_part(frame, tile, sum);
    }
}

// Decodes what this block of threads has of a frame. Barriers are inside.
template <class Layout> DEVICE void decode_coded(const Frame* frame, u32 tile, DecodeShared* shared) {
    const uint4* code = (const uint4*)&scratch_of(frame)->code;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < sizeof(Code) / sizeof(uint4); i += THREADS) ((uint4*)&shared->code)[i] = code[i];
#pragma unroll 1
    for (u32 block = tile; block < Coded<Layout>::of(frame).blocks; block += frame->tile_count) {
        // What is shared is read by all before it is written again.
        __syncthreads();
        decode_block<Layout>(frame, block, shared);
    }
    __syncthreads();
}

// Compares the checksum of a frame whose blocks have all added to it, by one thread.
template <class Layout> DEVICE void compare_coded(const Frame* frame) {
    compare_sums<Huffman, Layout::TAG>(frame, fold(*(const volatile u64*)&scratch_of(frame)->index));
}

// Reads the frames of a batch, after `huffman_open`. As many blocks per frame as it has tiles.
template <class Layout> DEVICE void decode_frames(const Frame* frames, u32 frame_count) {
    __shared__ __align__(16) DecodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 tile = blockIdx.x - frame->first_tile;
    const Coded<Layout> coded = Coded<Layout>::of(frame);
    if (coded.threads == 0) {
        const u64 from = (u64)tile * TILE, to = frame->count - from < TILE ? frame->count : from + TILE;
        const u64 sum = write_values<Layout::IS_ALIGNED>(frame, coded.bytes + from, from, to, shared.parts);
        if (threadIdx.x == 0) atomicAdd(&state_of(frame)->values, fold(sum));
    } else {
        decode_coded<Layout>(frame, tile, &shared);
    }
}

// Runs after the decoder: folds the sums over the tiles, which blocks of a frame straddle. A grid of (any, frames) blocks, the last one of which has
// all.
template <class Layout> DEVICE void close_coded(const Frame* frames) {
    __shared__ u64 parts[32];
    const Frame* frame = frames + blockIdx.y;
    u64 folded = 0;
#pragma unroll 1
    for (u32 tile = blockIdx.x * blockDim.x + threadIdx.x; tile < frame->tile_count; tile += gridDim.x * blockDim.x)
        folded += fold(words_of_tiles(frame)[tile]);
    folded = block_sum(folded, parts);
    if (threadIdx.x != 0) return;
    atomicAdd(&state_of(frame)->values, (u32)folded);
    if (is_last_block(state_of(frame), gridDim.x)) compare_coded<Layout>(frame);
}

extern "C" __global__ void __launch_bounds__(288, AT_ONCE) huffman_decode_bf16(const Frame* frames, u32 frame_count) {
    decode_frames<SplitLayout>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(288, AT_ONCE) huffman_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    decode_frames<CompactLayout>(frames, frame_count);
}

extern "C" __global__ void __launch_bounds__(256) huffman_close_bf16(const Frame* frames) { close_coded<SplitLayout>(frames); }
extern "C" __global__ void __launch_bounds__(256) huffman_close_compact_bf16(const Frame* frames) { close_coded<CompactLayout>(frames); }
