// Common code of encoders of compact frames. Frames, and the bodies in them, begin at any byte: a word of 32 bits at an edge has bytes of two
// bodies, or of two frames, which other blocks of threads write. So words are written inside of a part only, and bytes at its edges; no word is
// read to be written again.

// Copies bytes from a multiple of four to any place, by so many threads. ROUNDS is how many words each of them has, if that is always the same.
template <u32 ROUNDS = 0> DEVICE void copy_anywhere(u8* to, const u8* from, u32 count, u32 thread, u32 threads) {
    const u32 first = (u32)(0 - (size_t)to) & 3u, head = first < count ? first : count, words = (count - head) / 4, tail = head + 4 * words;
    const u32 *source = (const u32*)from, next = head ? 1 : 0;
    u32* target = (u32*)(to + head);
    // All words that are read have bytes of the part: the next one is read only where it is needed.
    if constexpr (ROUNDS != 0) {
#pragma unroll
        for (u32 round = 0; round < ROUNDS; ++round) {
            // One less than that, where the first bytes are none of a whole word.
            const u32 i = round * threads + thread;
            if (round + 1 < ROUNDS || i < words) __stcs(target + i, __funnelshift_r(source[i], source[i + next], 8 * head));
        }
    } else {
#pragma unroll 1
        for (u32 i = thread; i < words; i += threads) __stcs(target + i, __funnelshift_r(source[i], source[i + next], 8 * head));
    }
    if (thread < head) to[thread] = from[thread];
    if (thread < count - tail) to[tail + thread] = from[tail + thread];
}

// Whether one of eight values is +0. What is taken from the bits above it makes no other one look so, unless it is +0 itself.
DEVICE bool has_zero(const uint4& v) {
    const u32 ones = 0x00010001u;
    return (((v.x - ones) & ~v.x) | ((v.y - ones) & ~v.y) | ((v.z - ones) & ~v.z) | ((v.w - ones) & ~v.w)) & ones << 15;
}
DEVICE bool has_zero(const uint2& v) {
    const u32 ones = 0x01010101u;
    return (((v.x - ones) & ~v.x) | ((v.y - ones) & ~v.y)) & ones << 7;
}

// Which of eight values are not +0, a bit each. Absent ones are +0.
DEVICE u32 marked_pair(u32 pair) {
    const u32 marks = (((pair & 0x7fff7fffu) + 0x7fff7fffu) | pair) >> 15 & 0x00010001u;
    return (marks | marks >> 15) & 3u;
}
DEVICE u32 marked_four(u32 four) {
    const u32 marks = (((four & 0x7f7f7f7fu) + 0x7f7f7f7fu) | four) >> 7 & 0x01010101u;
    return marks * 0x10204080u >> 28;
}
DEVICE u32 marks_of(const uint4& v) { return marked_pair(v.x) | marked_pair(v.y) << 2 | marked_pair(v.z) << 4 | marked_pair(v.w) << 6; }
DEVICE u32 marks_of(const uint2& v) { return marked_four(v.x) | marked_four(v.y) << 4; }

// Writes the entry of a tile, six bytes at any place, by a warp.
DEVICE void write_entry(u8* to, u32 low, u32 high) {
    if (lane_id() < 6) to[lane_id()] = (u8)(word_of(low, high) >> 8 * lane_id());
}

// Word `word` of front matter that ends at byte `end`; what is behind it counts as zeros.
DEVICE u64 front_until(const u8* front, u64 word, u64 end) {
    const u32 live = end - 8 * word < 8 ? (u32)(end - 8 * word) : 8u;
    const uint2 bytes = eight_bytes(front + 8 * word, live);
    return word_of(bytes.x, bytes.y) << (64 - 8 * live) >> (64 - 8 * live);
}

// Writes the header of a frame, at any byte, by one thread.
template <class Format> DEVICE void write_header(u8* front, u64 count, u64 len, u32 checksum) {
#pragma unroll 1
    for (u32 i = 0; i < HEADER_BYTES; ++i)
        front[i] = (u8)(header_word<Format, LAYOUT_COMPACT>(i / 8, count, len, checksum) >> 8 * (i % 8));
}

// Runs after an encoder of compact frames, as `seal_frames`: checksum and header of a frame whose front matter ends at byte `end`. By
// `gridDim.x` blocks of threads.
template <class Format> DEVICE void seal_compact(const Frame* frame, u64 end) {
    __shared__ u64 parts[32];
    State* state = state_of(frame);
    u8* front = at<u8>(frame->fixed);
    const u64 stride = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 sum = 0;
#pragma unroll 1
    for (u64 word = HEADER_BYTES / 8 + thread; 8 * word < end; word += stride) sum += mix(front_until(front, word, end), key(~word));
#pragma unroll 1
    for (u64 tile = thread; tile < frame->tile_count; tile += stride) at<u64>(frame->tiles_state)[tile] = 0;
    sum = block_sum(sum, parts);
    if (threadIdx.x != 0) return;
    atomicAdd(&state->front, sum);
    if (!is_last_block(state, gridDim.x)) return;
    const u64 len = *at<const u64>(frame->size);
    const u64 of_front = *(volatile u64*)&state->front;
    const u32 values = *(volatile u32*)&state->values;
    const u32 checksum = values + fold(of_front) + header_sum<Format, LAYOUT_COMPACT>(frame->count, len);
    write_header<Format>(front, frame->count, len, checksum);
    state->front = 0;
    state->values = 0;
    state->done = 0;
    state->ticket = 0;
}
