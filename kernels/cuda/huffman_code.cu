// The code of a frame of huffman, made by the device from all exponents: it is there before the first tile is coded.

#define CODE_THREADS 256u
#define CODE_WARPS 8u

// Scratch of encoders, in the place of Scratch.
struct EncodeScratch {
    u64 index;        // sum over the words of gaps and positions
    u64 unused;
    u32 counts[256];  // by exponent
    uint2 words[256]; // by exponent: its word, the first bit lowest, and how many bits that is
};
static_assert(sizeof(EncodeScratch) <= sizeof(Scratch), "there is room for it");

// Parts of a frame that is written, the same in either layout.
typedef Coded<SplitLayout> Written;
template <class Layout> DEVICE Written written_of(const Frame* frame) {
    Written coded = Written::with_threads(at<const u32>(frame->fixed)[THREADS_AT / 4]);
    coded.bytes = at<const u8>(frame->dynamic) + Layout::coded_at(frame->count);
    return coded;
}

DEVICE EncodeScratch* encode_scratch_of(const Frame* frame) { return at<EncodeScratch>(frame->tiles_state); }

struct CodeShared {
    u32 counts[CODE_WARPS][256]; // of each warp; then of all in the first
    u64 leaves[256];             // counts, in ascending order
    u64 packages[256];           // pairs of the items of a level, in ascending order
    u64 items[512];              // of a level, in ascending order: twice the weight, and one for a leaf
    u32 is_leaf[LONGEST][16];    // by level and item, a bit each
    u32 taken[LONGEST];          // by level: leaves that make their words a bit longer
    u32 lengths[256];
    u64 parts[CODE_WARPS];
    u32 is_last;
    u32 is_stored;
};

// How many of up to 256 ascending numbers are below `limit`.
DEVICE u32 number_below(const u64* ascending, u32 len, u64 limit) {
    u32 below = 0;
#pragma unroll 1
    for (u32 step = 256; step; step >>= 1)
        if (below + step <= len && ascending[below + step - 1] < limit) below += step;
    return below;
}

// The length of the word of each thread's symbol in the shortest code, by package-merge as on the CPU (codec/src/canonical/mod.rs): of
// equals, the lower symbol and then leaves are first. `symbols` of them, two or more, occur. Barriers are inside.
DEVICE u32 limit_lengths(u32 count, u32 symbols, CodeShared* shared) {
    const u32 mine = threadIdx.x, most = 2 * symbols - 2;
    shared->counts[0][mine] = count;
    __syncthreads();
    u32 rank = 0;
#pragma unroll 1
    for (u32 symbol = 0; symbol < 256; ++symbol) {
        const u32 other = shared->counts[0][symbol];
        rank += other != 0 && (other < count || (other == count && symbol < mine));
    }
    if (count) shared->leaves[rank] = count;
    __syncthreads();
    u32 packages = 0;
#pragma unroll 1
    for (u32 level = 0; level < LONGEST; ++level) {
        const u32 items = symbols + packages < most ? symbols + packages : most;
        // Two ascending lists are merged: an item's place is the number of those before it in both.
        if (mine < symbols) {
            const u64 leaf = shared->leaves[mine];
            const u32 place = mine + number_below(shared->packages, packages, leaf);
            if (place < items) shared->items[place] = leaf << 1 | 1;
        }
        if (mine < packages) {
            const u64 package = shared->packages[mine];
            const u32 place = mine + number_below(shared->leaves, symbols, package + 1);
            if (place < items) shared->items[place] = package << 1;
        }
        __syncthreads();
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 item = half * CODE_THREADS + mine;
            const u32 leaves = __ballot_sync(ALL, item < items && (shared->items[item] & 1));
            if (lane_id() == 0) shared->is_leaf[level][half * CODE_WARPS + warp_id()] = leaves;
        }
        packages = items / 2;
        if (mine < packages) shared->packages[mine] = (shared->items[2 * mine] >> 1) + (shared->items[2 * mine + 1] >> 1);
        __syncthreads();
    }
    if (warp_id() == 0) {
        // Of the last level all are taken, and of each one before, what is in the packages taken.
        u32 taken = most;
#pragma unroll 1
        for (u32 level = LONGEST; level-- > 0;) {
            const u32 first = 32 * lane_id(), left = taken > first ? taken - first : 0;
            const u32 live = lane_id() < 16 ? shared->is_leaf[level][lane_id()] & (left < 32 ? (1u << left) - 1 : ALL) : 0u;
            const u32 leaves = __reduce_add_sync(ALL, (u32)__popc(live));
            if (lane_id() == 0) shared->taken[level] = leaves;
            taken = 2 * (taken - leaves);
        }
    }
    __syncthreads();
    u32 length = 0;
#pragma unroll 1
    for (u32 level = 0; level < LONGEST; ++level) length += count != 0 && rank < shared->taken[level];
    return length;
}

// The canonical word of a symbol, the first bit lowest, once the lengths of all are there: words before it fill up what it begins behind.
DEVICE u32 canonical_word(u32 length, const CodeShared* shared) {
    u32 word = 0;
#pragma unroll 1
    for (u32 symbol = 0; symbol < 256; ++symbol) {
        const u32 other = shared->lengths[symbol];
        if (other && (other < length || (other == length && symbol < threadIdx.x))) word += 1u << (length - other);
    }
    return __brev(word) >> ((32 - length) & 31u);
}

// Octets that a thread loads at once where it counts.
#define COUNTED_AT_ONCE 4u

// Counts the exponents of an octet.
DEVICE void count_octet(u32* counts, const uint4& v) {
    const u32 pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        atomicAdd(counts + (pairs[k] >> 7 & 0xffu), 1u);
        atomicAdd(counts + (pairs[k] >> 23 & 0xffu), 1u);
    }
}

// Counts the exponents of this block's share of a frame, by warp.
DEVICE void count_exponents(const Frame* frame, u32 blocks, CodeShared* shared) {
    const uint4* octets = at<const uint4>(frame->values);
    const u64 whole = frame->count / 8, stride = (u64)blocks * CODE_THREADS;
    u32* counts = shared->counts[warp_id()];
    u64 octet = (u64)blockIdx.x * CODE_THREADS + threadIdx.x;
#pragma unroll 1
    for (; octet + (COUNTED_AT_ONCE - 1) * stride < whole; octet += COUNTED_AT_ONCE * stride) {
        uint4 v[COUNTED_AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < COUNTED_AT_ONCE; ++i) v[i] = octets[octet + i * stride];
#pragma unroll
        for (u32 i = 0; i < COUNTED_AT_ONCE; ++i) count_octet(counts, v[i]);
    }
#pragma unroll 1
    for (; octet < whole; octet += stride) count_octet(counts, octets[octet]);
    // Values behind the last octet.
    if (blockIdx.x == 0 && threadIdx.x < frame->count % 8) atomicAdd(counts + (at<const u16>(frame->values)[8 * whole + threadIdx.x] >> 7 & 0xffu), 1u);
}

// Makes the code of a frame of which thread `i` knows how often exponent `i` occurs, and writes front matter and size.
DEVICE void write_code(const Frame* frame, u32 found, CodeShared* shared) {
    const u32 mine = threadIdx.x, present = __syncthreads_count(found != 0);
    shared->counts[0][mine] = found;
    __syncthreads();
    // A code takes two symbols.
    const bool is_added = present == 1 && shared->counts[0][mine ^ 1];
    __syncthreads();
    const u32 length = limit_lengths(is_added ? 1 : found, present == 1 ? 2 : present, shared);
    shared->lengths[mine] = length;
    const u64 bits = block_sum((u64)found * length, shared->parts), count = frame->count;
    u8* fixed = at<u8>(frame->fixed);
    if (mine == 0) {
        const Written coded = Written::with_threads((u32)((bits + THREAD_BITS - 1) / THREAD_BITS));
        // The bits of the code decide, so that of a symbol that was added is one of them. Positions have 32 bits.
        const u64 threads = (bits + (present == 1) + THREAD_BITS - 1) / THREAD_BITS;
        const bool is_stored = Written::with_threads((u32)threads).len() + 8 > count || count > MOST_VALUES;
        shared->is_stored = is_stored;
        ((u32*)fixed)[THREADS_AT / 4] = is_stored ? 0u : coded.threads;
        ((u32*)fixed)[THREADS_AT / 4 + 1] = 0;
        *at<u64>(frame->size) = is_stored ? count : coded.len();
    }
    __syncthreads();
    if (mine < 64) {
        u32 four = 0;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) four |= shared->lengths[4 * mine + k] << 6 * k;
        if (shared->is_stored) four = 0;
#pragma unroll
        for (u32 k = 0; k < 3; ++k) fixed[LENGTHS_AT + 3 * mine + k] = (u8)(four >> 8 * k);
    }
    encode_scratch_of(frame)->words[mine] = make_uint2(canonical_word(length, shared), length);
}

// Makes the codes of a batch. A grid of (any, frames) blocks of 256 threads; the last one of a frame has the counts of all.
extern "C" __global__ void __launch_bounds__(256) huffman_code_bf16(const Frame* frames) {
    __shared__ __align__(16) CodeShared shared;
    const Frame* frame = frames + blockIdx.y;
    EncodeScratch* scratch = encode_scratch_of(frame);
    const u32 blocks = gridDim.x < frame->tile_count ? gridDim.x : frame->tile_count, mine = threadIdx.x;
    if (blockIdx.x >= blocks) return;
#pragma unroll
    for (u32 warp = 0; warp < CODE_WARPS; ++warp) shared.counts[warp][mine] = 0;
    __syncthreads();
    count_exponents(frame, blocks, &shared);
    __syncthreads();
    u32 found = 0;
#pragma unroll
    for (u32 warp = 0; warp < CODE_WARPS; ++warp) found += shared.counts[warp][mine];
    if (found) atomicAdd(&scratch->counts[mine], found);
    __threadfence();
    __syncthreads();
    if (mine == 0) shared.is_last = is_last_block(state_of(frame), blocks);
    __syncthreads();
    if (!shared.is_last) return;
    if (mine == 0) state_of(frame)->done = 0;
    found = atomicExch(&scratch->counts[mine], 0u);
    write_code(frame, found, &shared);
}
