// The encoder of huffman, after `huffman_code`.
//
// A thread has 32 values in a row. Its words go into shared memory at the bits that they will have, which the sum over the tiles
// before says, and from there to the dynamic section, in words of 32 bits. Bits that begin such a word and do not end it are handed on
// to the next tile, which writes it: so each one has a writer, and nothing is cleared before. A ninth warp looks for the sum, as
// the decoder's ninth warp reads on. In `compact` these words begin at any byte, so they are shifted on their way, and what a tile has begins and ends
// with bytes.

#define OF_THREAD 32u // values of a thread
#define CODERS 256u   // threads that have values
// Words of 32 bits that a tile has at most, and those of its gaps, with what is handed on.
#define MOST_WORDS (TILE * LONGEST / 32 + 2)
#define MOST_GAPS ((MOST_WORDS / 2 * 5 + 31) / 32 + 2)
// The word that a tile hands on: its last bits of words, those of gaps above them, and a bit that says that it is there.
#define HANDED_ON (1ull << 63)

struct EncodeShared {
    uint2 words[256];
    u32 out[MOST_WORDS];  // from the thread on that the tile's first bit is in
    u32 gaps[MOST_GAPS];  // from the word on that the tile's first gap is in
    u64 parts[WARPS];
    u64 before; // bits of the tiles before
    u32 totals[WARPS];
};

// Sum of bits of each tile, or up to it; behind the sums of all tiles, the words that they hand on.
DEVICE u64* bits_of_tiles(const Frame* frame) { return words_of_tiles(frame); }
DEVICE u64* handed_on(const Frame* frame) { return bits_of_tiles(frame) + frame->tile_count; }

DEVICE u32 byte_at(const u32* bytes, u32 i) { return bytes[i / 4] >> 8 * (i & 3) & 0xffu; }

// Stores the first `live` of eight bytes.
template <bool FULL> DEVICE void store_octet(u8* to, const u32* bytes, u32 live) {
    if (FULL) {
        __stcs((uint2*)to, make_uint2(bytes[0], bytes[1]));
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            if (i < live) to[i] = (u8)byte_at(bytes, i);
    }
}

// Splits the `live` values of a thread from value `first` on: exponents to registers, or to the dynamic section if they are stored, all else
// to the static section. Returns the sum over them.
template <bool FULL> DEVICE u64 split_values(const Frame* frame, u64 first, u32 live, bool is_stored, u32* exponents) {
    const u16* values = at<const u16>(frame->values) + first;
    u8* rests = at<u8>(frame->fixed) + FRONT_LEN + first;
    u64 sum = 0;
#pragma unroll
    for (u32 j = 0; j < OF_THREAD / 8; ++j) {
        const u32 of_octet = FULL ? 8 : live <= 8 * j ? 0 : live - 8 * j;
        uint4 v;
        if (FULL) {
            v = ((const uint4*)values)[j];
        } else {
            u32 pairs[4] = {0, 0, 0, 0};
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
                if (i < of_octet) pairs[i / 2] |= (u32)values[8 * j + i] << 16 * (i & 1);
            v = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
        u32 of_rests[2];
        split_four(v.x, v.y, exponents + 2 * j, of_rests);
        split_four(v.z, v.w, exponents + 2 * j + 1, of_rests + 1);
        store_octet<FULL>(rests + 8 * j, of_rests, of_octet);
        if (is_stored) store_octet<FULL>(at<u8>(frame->dynamic) + first + 8 * j, exponents + 2 * j, of_octet);
        const u64 key_of_first = key(first / 4 + 2 * j);
        if (FULL || of_octet > 0) sum += mix(word_of(v.x, v.y), key_of_first);
        if (FULL || of_octet > 4) sum += mix(word_of(v.z, v.w), key_of_first + KEY_STEP);
    }
    return sum;
}

// Where a tile writes: all bits are counted from the thread on that its first bit is in.
struct Place {
    u32 thread;   // that thread, of those of the frame
    u32 first;    // the first bit, below 64
    u32 end;      // the bit behind the last one
    u32 gap_bit;  // of the first gap, that of the next thread, in the first word that has a part of it

    DEVICE Place of(u64 before, u32 bits) {
        Place place;
        place.thread = (u32)(before / THREAD_BITS);
        place.first = (u32)before % THREAD_BITS;
        place.end = place.first + bits;
        place.gap_bit = (u32)(5 * ((u64)place.thread + 1) % 32);
        return place;
    }
    // The word of 32 bits that has the first gap.
    __device__ __forceinline__ u64 gap_word() const { return 5 * ((u64)thread + 1) / 32; }
    // The bit behind the last gap of the tile, counted as `gap_bit` is.
    __device__ __forceinline__ u32 gap_end() const { return gap_bit + 5 * (end / THREAD_BITS); }
};

// Writes what begins with thread `number` of a place: the first word there is that of value `value`, at bit `gap`.
DEVICE void begin_thread(const Frame* frame, const Written& coded, const Place& place, u32 number, u32 gap, u32 value, EncodeShared* shared) {
    const u32 bit = place.gap_bit + 5 * (number - 1), shift = bit & 31u, thread = place.thread + number;
    // The bits behind the last word are no gap.
    if (value == (u32)frame->count) gap = 0;
    atomicOr(&shared->gaps[bit / 32], gap << shift);
    if (shift > 27) atomicOr(&shared->gaps[bit / 32 + 1], gap >> (32 - shift));
    if (thread % BLOCK_THREADS != 0 || thread / BLOCK_THREADS >= coded.blocks) return;
    u8* to = (u8*)coded.bytes + coded.positions_at() + 4 * (u64)(thread / BLOCK_THREADS);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) to[k] = (u8)(value >> 8 * k);
}

// Where a thread writes: bits of a word of 32 that is not full, and which one it is.
struct Writer {
    u64 bits;
    u32 word, filled;

    // Writes the word of one value, or of two that have fewer than 32 bits together: `length` bits, of which the word of value `value` has
    // `of_first`. Then the gap and the position of what begins behind one of them.
    __device__ __forceinline__ void put(const Frame* frame, const Written& coded, const Place& place, uint2 entry, u32 of_first, u32 value, EncodeShared* shared) {
        bits |= (u64)entry.x << filled;
        const u32 behind_first = filled + of_first;
        filled += entry.y;
        if (filled < 32) return;
        atomicOr(&shared->out[word], (u32)bits);
        bits >>= 32;
        filled -= 32;
        ++word;
        if (word % 2) return;
        const bool is_first = behind_first >= 32;
        begin_thread(frame, coded, place, word / 2, is_first ? behind_first - 32 : filled, value + (is_first ? 1 : 2), shared);
    }
};

// Writes the words of a thread's values, the first one at bit `bit`, and the gaps and positions of what begins behind one of them.
template <bool FULL>
DEVICE void write_words(const Frame* frame, const Written& coded, const Place& place, u32 bit, u32 first, u32 live, const u32* exponents, EncodeShared* shared) {
    Writer writer = {0, bit / 32, bit & 31u};
#pragma unroll
    for (u32 i = 0; i < OF_THREAD; i += 2) {
        if (!FULL && i >= live) continue;
        const uint2 one = shared->words[byte_at(exponents, i)];
        uint2 other = shared->words[byte_at(exponents, i + 1)];
        if (!FULL && i + 1 >= live) other = make_uint2(0, 0);
        if (one.y + other.y < 32) {
            writer.put(frame, coded, place, make_uint2(one.x | other.x << one.y, one.y + other.y), one.y, first + i, shared);
        } else {
#pragma unroll 1
            for (u32 k = 0; k < 2; ++k) {
                const uint2 entry = k ? other : one;
                writer.put(frame, coded, place, entry, entry.y, first + i + k, shared);
            }
        }
    }
    if (writer.filled) atomicOr(&shared->out[writer.word], (u32)writer.bits);
}

// Hands the last bits of a tile on to the next one, and takes those of the tile before, by one thread: its block has started.
DEVICE void pass_bits(const Frame* frame, u32 tile, const Place& place, EncodeShared* shared) {
    const u64 gaps = shared->gaps[place.gap_end() / 32], words = shared->out[place.end / 32];
    if (tile + 1 < frame->tile_count) publish(handed_on(frame) + tile, HANDED_ON | gaps << 32 | words);
    if (tile == 0) return;
    u64 found = *(volatile u64*)(handed_on(frame) + tile - 1);
    while (!found) {
        __nanosleep(20);
        found = *(volatile u64*)(handed_on(frame) + tile - 1);
    }
    shared->out[place.first / 32] |= (u32)found;
    shared->gaps[0] |= (u32)(found >> 32) & 0x7fffffffu;
}

// The same in `compact`: edges are bytes, as other tiles have what is around them.
DEVICE void copy_out_anywhere(const Frame* frame, const Written& coded, u32 tile, const Place& place, const EncodeShared* shared) {
    const bool is_last = tile + 1 == frame->tile_count;
    const u32 room = place.thread < coded.threads ? 2 * (coded.threads - place.thread) : 0;
    const u32 begin = place.first / 32, end = is_last || place.end / 32 > room ? room : place.end / 32, most = end < MOST_WORDS ? end : MOST_WORDS;
    const u32 words = most > begin ? most - begin : 0;
    copy_anywhere((u8*)coded.bytes + 8 * (u64)place.thread + 4 * begin, (const u8*)(shared->out + begin), 4 * words, threadIdx.x, THREADS);
    const u64 first = 4 * place.gap_word(), bytes = coded.positions_at() - coded.gaps_at(), left = bytes > first ? bytes - first : 0;
    const u32 of_tile = is_last ? 4 * MOST_GAPS : place.gap_end() / 32 * 4, gaps = left < of_tile ? (u32)left : of_tile;
    copy_anywhere((u8*)coded.bytes + coded.gaps_at() + first, (const u8*)shared->gaps, gaps, threadIdx.x, THREADS);
}

// Copies what a tile has to the dynamic section, by all threads.
DEVICE void copy_out(const Frame* frame, const Written& coded, u32 tile, const Place& place, const EncodeShared* shared) {
    const bool is_last = tile + 1 == frame->tile_count;
    u32* words = (u32*)coded.bytes + 2 * (u64)place.thread;
    // Should the values have changed since they were counted, nothing is written behind the words.
    const u32 room = place.thread < coded.threads ? 2 * (coded.threads - place.thread) : 0;
    const u32 end = is_last || place.end / 32 > room ? room : place.end / 32;
#pragma unroll 1
    for (u32 i = place.first / 32 + threadIdx.x; i < end && i < MOST_WORDS; i += THREADS) words[i] = shared->out[i];
    u8* gaps = (u8*)coded.bytes + coded.gaps_at();
    const u64 first = 4 * place.gap_word(), bytes = coded.positions_at() - coded.gaps_at();
    const u64 whole = is_last ? bytes / 4 * 4 : first + place.gap_end() / 32 * 4;
#pragma unroll 1
    for (u32 i = threadIdx.x; first + 4 * i < whole && first + 4 * i + 4 <= bytes && i < MOST_GAPS; i += THREADS) ((u32*)(gaps + first))[i] = shared->gaps[i];
    if (!is_last) return;
    const u64 i = bytes / 4 * 4 + threadIdx.x;
    if (i >= first && i < bytes) gaps[i] = ((const u8*)shared->gaps)[i - first];
}

// Codes the exponents of a tile, of which each thread has `live`, from value `first` on.
template <class Layout, bool FULL>
DEVICE void encode_coded(const Frame* frame, const Written& coded, u32 tile, u32 first, u32 live, const u32* exponents, EncodeShared* shared) {
    u32 bits = 0;
    if (threadIdx.x < CODERS) {
#pragma unroll
        for (u32 i = 0; i < OF_THREAD; ++i)
            if (FULL || i < live) bits += shared->words[byte_at(exponents, i)].y;
    }
    u32 of_warp;
    u32 before = warp_scan(bits, &of_warp);
    if (lane_id() == 0) shared->totals[warp_id()] = of_warp;
    __syncthreads();
    const u32 total = lane_id() < WARPS ? shared->totals[lane_id()] : 0u;
    before += __reduce_add_sync(ALL, lane_id() < warp_id() ? total : 0u);
    const u32 of_tile = __reduce_add_sync(ALL, total);
    if (warp_id() == WARPS - 1) {
        const u64 sum = look_back(bits_of_tiles(frame), tile, of_tile);
        if (lane_id() == 0) shared->before = sum;
    } else {
        // As far as the tile may come wherever it begins, and to the end of a thread.
        const Place last = {0, 63, 63 + of_tile, 31};
#pragma unroll 1
        for (u32 i = threadIdx.x; i < MOST_WORDS && i <= last.end / 32 + 1; i += CODERS) shared->out[i] = 0;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < MOST_GAPS && i <= last.gap_end() / 32; i += CODERS) shared->gaps[i] = 0;
    }
    __syncthreads();
    const Place place = Place::of(shared->before, of_tile);
    if (threadIdx.x < CODERS) write_words<FULL>(frame, coded, place, place.first + before, first, live, exponents, shared);
    // The first block begins with the first value.
    if (tile == 0 && threadIdx.x < 4) ((u8*)coded.bytes)[coded.positions_at() + threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) pass_bits(frame, tile, place, shared);
    __syncthreads();
    if (Layout::IS_ALIGNED) copy_out(frame, coded, tile, place, shared);
    else copy_out_anywhere(frame, coded, tile, place, shared);
}

// Stores the exponents of a tile in `compact`, where they begin at any byte.
DEVICE void store_exponents(const Frame* frame, const Written& coded, u32 tile, const u32* exponents, EncodeShared* shared) {
    const u64 first = (u64)tile * TILE, left = frame->count - first;
    if (threadIdx.x < CODERS) {
#pragma unroll
        for (u32 k = 0; k < OF_THREAD / 4; ++k) shared->out[OF_THREAD / 4 * threadIdx.x + k] = exponents[k];
    }
    __syncthreads();
    copy_anywhere((u8*)coded.bytes + first, (const u8*)shared->out, left < TILE ? (u32)left : TILE, threadIdx.x, THREADS);
}

template <class Layout, bool FULL> DEVICE void encode_tile(const Frame* frame, u32 tile, EncodeShared* shared) {
    const u64 first = (u64)tile * TILE + OF_THREAD * threadIdx.x, count = frame->count;
    const Written coded = written_of<Layout>(frame);
    const bool is_stored = coded.threads == 0;
    if (threadIdx.x < 256) shared->words[threadIdx.x] = encode_scratch_of(frame)->words[threadIdx.x];
    u32 exponents[OF_THREAD / 4];
    u64 sum = 0;
    const u32 live = threadIdx.x >= CODERS || first >= count ? 0 : count - first < OF_THREAD ? (u32)(count - first) : OF_THREAD;
    if (threadIdx.x < CODERS) sum = split_values<FULL>(frame, first, live, is_stored && Layout::IS_ALIGNED, exponents);
    sum = block_sum(sum, shared->parts);
    if (threadIdx.x == 0) atomicAdd(&state_of(frame)->values, fold(sum));
    if (!is_stored) encode_coded<Layout, FULL>(frame, coded, tile, (u32)first, live, exponents, shared);
    else if (!Layout::IS_ALIGNED) store_exponents(frame, coded, tile, exponents, shared);
}

// Writes the frames of a batch, but for what seals them. A block of 288 threads per tile.
template <class Layout> DEVICE void encode_frames(const Frame* frames, u32 frame_count) {
    __shared__ __align__(16) EncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 tile = own_number() - frame->first_tile;
    if (frame->count - (u64)tile * TILE >= TILE) encode_tile<Layout, true>(frame, tile, &shared);
    else encode_tile<Layout, false>(frame, tile, &shared);
}

extern "C" __global__ void __launch_bounds__(288, 4) huffman_encode_bf16(const Frame* frames, u32 frame_count) {
    encode_frames<SplitLayout>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(288, 4) huffman_encode_compact_bf16(const Frame* frames, u32 frame_count) {
    encode_frames<CompactLayout>(frames, frame_count);
}

// Runs after the encoder: checksum and header of each frame. A grid of (any, frames) blocks.
template <class Layout> DEVICE void seal_coded(const Frame* frames) {
    __shared__ u64 parts[32];
    const Frame* frame = frames + blockIdx.y;
    State* state = state_of(frame);
    EncodeScratch* scratch = encode_scratch_of(frame);
    const u64* fixed = at<const u64>(frame->fixed);
    const Written coded = written_of<Layout>(frame);
    const u64 stride = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 sum = 0;
#pragma unroll 1
    for (u64 word = thread; word < coded.index_words(); word += stride) sum += coded.mix_index(word);
#pragma unroll 1
    for (u64 slot = thread; slot < 2 * (u64)frame->tile_count; slot += stride) bits_of_tiles(frame)[slot] = 0;
    sum = block_sum(sum, parts);
    if (warp_id() != 0) return;
    const u64 of_front = sum_front(fixed);
    if (lane_id() != 0) return;
    atomicAdd(&scratch->index, sum);
    if (!is_last_block(state, gridDim.x)) return;
    // The code says how long words and index are, and nothing of what a compact frame has in front of these.
    const u64 dynamic_len = *at<const u64>(frame->size) + Layout::coded_at(frame->count), index = *(volatile u64*)&scratch->index;
    *at<u64>(frame->size) = dynamic_len;
    const u32 values = *(volatile u32*)&state->values;
    const u32 checksum = values + fold(of_front) + fold(index) + header_sum<Huffman, Layout::TAG>(frame->count, dynamic_len);
    for (u32 word = 0; word < 4; ++word)
        at<u64>(frame->fixed)[word] = header_word<Huffman, Layout::TAG>(word, frame->count, dynamic_len, checksum);
    scratch->index = 0;
    state->values = 0;
    state->done = 0;
    state->ticket = 0;
}

extern "C" __global__ void __launch_bounds__(256) huffman_seal_bf16(const Frame* frames) { seal_coded<SplitLayout>(frames); }
extern "C" __global__ void __launch_bounds__(256) huffman_seal_compact_bf16(const Frame* frames) { seal_coded<CompactLayout>(frames); }
