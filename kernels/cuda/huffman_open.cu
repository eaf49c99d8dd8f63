// Runs before the decoder of huffman: compares headers, and makes the tables of the code from the lengths of its words.

struct OpenShared {
    u32 counts[BLOCK_THREADS / 32][36]; // by warp of symbols and length; then those of the warps before
    u32 totals[36];
    u32 starts[36]; // places of the first symbols
    Code code;
    u32 is_complete;
};

// First words and places by length; whether every sequence of bits is one of words. By one thread.
DEVICE bool order_words(OpenShared* shared) {
    u64 next = 0;
    u32 place = 0;
#pragma unroll 1
    for (u32 length = 1; length <= LONGEST; ++length) {
        next <<= 1;
        shared->starts[length] = place;
        shared->code.places[length] = place - (u32)next;
        next += shared->totals[length];
        place += shared->totals[length];
        shared->code.ends[length] = (u32)next;
    }
    return next == 1ull << LONGEST;
}

// Makes the tables of words of these lengths, one for each of the first 256 threads; whether they are those of a code.
DEVICE bool make_code(u32 length, OpenShared* shared) {
    const u32 symbol = threadIdx.x;
    for (u32 i = threadIdx.x; i < BLOCK_THREADS / 32 * 36; i += blockDim.x) shared->counts[i / 36][i % 36] = 0;
    if (threadIdx.x < 36) shared->code.ends[threadIdx.x] = shared->code.places[threadIdx.x] = 0;
    __syncthreads();
    u32 rank = 0;
    if (symbol < 256) {
        const u32 same = __match_any_sync(ALL, length);
        rank = __popc(same & ((1u << lane_id()) - 1));
        if (rank == 0) shared->counts[warp_id()][length] = __popc(same);
    }
    __syncthreads();
    if (threadIdx.x <= LONGEST) {
        u32 total = 0;
#pragma unroll 1
        for (u32 warp = 0; warp < BLOCK_THREADS / 32; ++warp) {
            const u32 own = shared->counts[warp][threadIdx.x];
            shared->counts[warp][threadIdx.x] = total;
            total += own;
        }
        shared->totals[threadIdx.x] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) shared->is_complete = order_words(shared);
    if (symbol < 256) shared->code.symbols[symbol] = 0;
    __syncthreads();
    if (symbol < 256 && length) {
        const u32 place = shared->starts[length] + shared->counts[warp_id()][length] + rank;
        shared->code.symbols[place & 0xffu] = (u8)symbol;
    }
    __syncthreads();
#pragma unroll 1
    for (u32 bits = threadIdx.x; bits < ENTRIES; bits += blockDim.x) {
        const u32 first = find_word(&shared->code, bits, 1, LOOK), length = first >> 8;
        const u32 second = first ? find_word(&shared->code, bits >> length, 1, LOOK - length) : 0;
        const u32 both = second ? (second << 8 & 0xff00u) | (length + (second >> 8)) << 24 : 0;
        shared->code.entries[bits] = (first & 0xffu) | length << 16 | both;
    }
    __syncthreads();
    return shared->is_complete;
}

// A block of 1024 threads per frame.
template <class Layout> DEVICE void open_coded(const Frame* frames) {
    __shared__ __align__(16) OpenShared shared;
    const Frame* frame = frames + blockIdx.x;
    State* state = state_of(frame);
    Scratch* scratch = scratch_of(frame);
    const u8* fixed = at<const u8>(frame->fixed);
    const u64 dynamic_len = *at<const u64>(frame->size), count = frame->count, coded_at = Layout::coded_at(count);
    const Coded<Layout> coded = Coded<Layout>::of(frame);
    u64* sums = words_of_tiles(frame);
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < frame->tile_count; tile += blockDim.x) sums[tile] = 0;
    u32 length = threadIdx.x < 256 ? length_of(fixed, threadIdx.x) : 0;
    const bool is_too_long = __syncthreads_or(length > LONGEST), has_words = __syncthreads_or(length != 0);
    const bool is_stored = coded.threads == 0 && !has_words;
    if (length > LONGEST) length = 0;
    const bool is_code = make_code(length, &shared) && !is_too_long;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < sizeof(Code) / sizeof(uint4); i += blockDim.x)
        ((uint4*)&scratch->code)[i] = ((const uint4*)&shared.code)[i];

    if (warp_id() != 0) return;
    const u64 sum = sum_front((const u64*)fixed);
    if (lane_id() != 0) return;
    scratch->index = 0;
    u32 fault = FAULT_NONE;
    if (((const u32*)fixed)[THREADS_AT / 4 + 1] != 0) fault = FAULT_PADDING;
    if (!is_stored) {
        if (!is_code) fault = FAULT_LENGTHS;
        // The first block has a value.
        if (coded.threads == 0 || count > MOST_VALUES) fault = FAULT_POSITIONS;
        // Encoders store what is not eight bytes shorter; so all words of 32 bits that are looked at are in the section.
        if (coded_at + coded.len() != dynamic_len || coded.len() + 8 > count) fault = FAULT_LENGTH;
    } else if (dynamic_len != coded_at + count) fault = FAULT_LENGTH;
    open_state<Huffman, Layout::TAG>(frame, fixed, 0, fault, 0);
    state->front = sum;
    state->refused = state->status;
}

extern "C" __global__ void __launch_bounds__(1024) huffman_open_bf16(const Frame* frames) { open_coded<SplitLayout>(frames); }
extern "C" __global__ void __launch_bounds__(1024) huffman_open_compact_bf16(const Frame* frames) { open_coded<CompactLayout>(frames); }
