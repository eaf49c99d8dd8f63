// Books of codebook16, made by the device: they are there before the first tile is coded.

#define BOOK_THREADS 256u
#define SPAN 2048u // values of which RUN are in the sample of a frame
#define RUN 128u
#define FEW 32768u // in frames of at most so many values, all are

struct BookShared {
    u32 counts[8][256]; // of each warp; then of all in the first
    u32 chosen[8];
    u32 is_last;
};

// The first value of piece `piece` of the sample.
DEVICE u64 sampled(u64 piece, u64 count) {
    if (count <= FEW) return 8 * piece;
    const u64 span = piece / (RUN / 8);
    return span * SPAN + (5 * span + span / 16) % (SPAN / RUN) * RUN + piece % (RUN / 8) * 8;
}

// Counts of all blocks of a frame: behind a word of each tile, all zero and left so (kernels/src/module.rs has its size).
DEVICE u32* counts_of(const Frame* frame) { return (u32*)(at<u64>(frame->tiles_state) + frame->tile_count); }

// Pieces that a thread loads at once.
#define SAMPLED_AT_ONCE 4u

template <class Type> DEVICE void count_piece(const typename Type::Piece& v, u32* counts) {
#pragma unroll
    for (u32 i = 0; i < 8; ++i) atomicAdd(counts + exponent_of<Type>(v, i), 1u);
}

// Counts the exponents of this block's share of the sample.
template <class Type> DEVICE void count_sample(const u8* values, u64 count, u32 blocks, u32* counts) {
    typedef typename Type::Piece Piece;
    // Pieces of spans that are whole, and all.
    const u64 whole = count <= FEW ? count / 8 : count / SPAN * (RUN / 8), pieces = count <= FEW ? (count + 7) / 8 : (count + SPAN - 1) / SPAN * (RUN / 8);
    const u64 stride = (u64)blocks * BOOK_THREADS;
    u64 piece = (u64)blockIdx.x * BOOK_THREADS + threadIdx.x;
#pragma unroll 1
    for (; piece + (SAMPLED_AT_ONCE - 1) * stride < whole; piece += SAMPLED_AT_ONCE * stride) {
        Piece v[SAMPLED_AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < SAMPLED_AT_ONCE; ++i) v[i] = *(const Piece*)(values + Type::WIDTH * sampled(piece + i * stride, count));
#pragma unroll
        for (u32 i = 0; i < SAMPLED_AT_ONCE; ++i) count_piece<Type>(v[i], counts);
    }
#pragma unroll 1
    for (; piece < pieces; piece += stride) {
        const u64 first = sampled(piece, count);
        const u32 live = first >= count ? 0 : count - first < 8 ? (u32)(count - first) : 8;
        const u8* from = values + Type::WIDTH * first;
        if (live == 8) count_piece<Type>(*(const Piece*)from, counts);
#pragma unroll 1
        for (u32 i = 0; live < 8 && i < live; ++i) {
            const u32 value = Type::WIDTH == 2 ? ((const u16*)from)[i] : from[i];
            atomicAdd(counts + (value >> Type::SHIFT & (Type::EXPONENTS - 1)), 1u);
        }
    }
}

// Makes the book of a frame, of either layout: the most frequent exponents of the sample, the lower one of equals. A grid of (any, frames)
// blocks of 256 threads; the last one of a frame has the counts of all.
template <class Type> DEVICE void make_books(const Frame* frames) {
    __shared__ BookShared shared;
    const Frame* frame = frames + blockIdx.y;
    const u64 count = frame->count;
    const u32 most = count <= FEW ? 1 : frame->tile_count, blocks = gridDim.x < most ? gridDim.x : most;
    if (blockIdx.x >= blocks) return;
    const u8* values = at<const u8>(frame->values);
    u8* fixed = at<u8>(frame->fixed);
    for (u32 warp = 0; warp < 8; ++warp) shared.counts[warp][threadIdx.x] = 0;
    __syncthreads();
    u32* counts = shared.counts[warp_id()];
    count_sample<Type>(values, count, blocks, counts);
    __syncthreads();
    const u32 mine = threadIdx.x;
    u32 found = 0;
    for (u32 warp = 0; warp < 8; ++warp) found += shared.counts[warp][mine];
    if (blocks > 1) {
        u32* all = counts_of(frame);
        if (found) atomicAdd(all + mine, found);
        __threadfence();
        __syncthreads();
        if (mine == 0) shared.is_last = is_last_block(state_of(frame), blocks);
        __syncthreads();
        if (!shared.is_last) return;
        found = atomicExch(all + mine, 0u);
        if (mine == 0) state_of(frame)->done = 0;
    }
    __syncthreads();
    shared.counts[0][mine] = found;
    __syncthreads();
    u32 better = 0;
    for (u32 i = 0; i < Type::EXPONENTS; ++i) {
        const u32 other = shared.counts[0][i];
        better += i < mine ? other >= found : other > found;
    }
    const bool is_chosen = mine < Type::EXPONENTS && better < BOOK_LEN;
    const u32 chosen = __ballot_sync(ALL, is_chosen);
    if (lane_id() == 0) shared.chosen[warp_id()] = chosen;
    __syncthreads();
    u32 place = __popc(chosen & ((1u << lane_id()) - 1));
    for (u32 warp = 0; warp < warp_id(); ++warp) place += __popc(shared.chosen[warp]);
    if (is_chosen) fixed[BOOK_AT + place] = (u8)mine;
}
