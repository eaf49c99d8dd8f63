// Sums of frames of tiered, and of values as they are.

// Adds values up.
struct Adder {
    static const bool HAS_ROOM = false;
    u64 key;
    u64 sum;
    float sums[ROWS][8];
    __device__ __forceinline__ void start(u32 tile) {
        key = first_key<Bf16>(tile);
        sum = 0;
    }
    __device__ __forceinline__ void add_row(u32 j, const Octet<2>& v) {
        const u32 words[4] = {v.raw.x, v.raw.y, v.raw.z, v.raw.w};
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sums[j][i] = add(sums[j][i], bf16_to_f32(words[i / 2], i & 1));
    }
    __device__ __forceinline__ void take(u32 j, const Octet<2>& v, u32 live) {
        sum += mix_octet(v, key_of_row<Bf16>(key, j), live);
        add_row(j, v);
    }
};

template <bool FULL>
DEVICE void reduce_tile(const Frame* frames, u32 contributions, u32 tile, u32 count, u32 rounded, DecodeShared* shared) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    Adder adder;
    // Adding to -0 changes nothing.
#pragma unroll
    for (u32 i = 0; i < 8 * ROWS; ++i) adder.sums[i / 8][i % 8] = -0.0f;
#pragma unroll 1
    for (u32 number = 0; number < contributions; ++number) {
        const Frame* frame = frames + number;
        if (frame->fixed) {
            take_tile<Bf16, FULL>(frame, tile, count, &adder, shared);
        } else {
            const u8* values = at<const u8>(frame->dynamic) + (u64)tile * (2 * Bf16::TILE);
            if (!FULL) load_tail<Bf16>(values, count, shared->tail);
#pragma unroll
            for (u32 row = 0; row < ROWS; row += 2) {
                Octet<2> v[2];
                load_rows<Bf16, FULL, 2>(values, count, row, v, shared->tail);
                adder.add_row(row, v[0]);
                adder.add_row(row + 1, v[1]);
            }
        }
        // The next one uses the same memory.
        __syncthreads();
    }
    const u64 first_value = (u64)tile * Bf16::TILE + first;
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j)
        store_sums<FULL>(frames, first_value + GROUP * j, live_of<FULL>(count, first + GROUP * j), adder.sums[j], rounded);
}

#ifdef DTYPE_BF16
// What `window7_reduce` is to window7. One block at a time: 64 sums are in the registers of a thread.
extern "C" __global__ void __launch_bounds__(512, 1)
tiered_reduce_bf16(const Frame* frames, u32 output_count, u32 contributions, u32 rounded) {
    __shared__ DecodeShared shared;
    const Frame* first = frame_of(frames, output_count, blockIdx.x, contributions);
    const u32 tile = blockIdx.x - first->first_tile;
    const u32 count = values_of_tile<Bf16>(first->count, tile);
    if (count == Bf16::TILE) reduce_tile<true>(first, contributions, tile, count, rounded, &shared);
}

// The last tiles of the outputs, where they are not full: a block per output.
extern "C" __global__ void __launch_bounds__(512, 1)
tiered_reduce_last_bf16(const Frame* frames, u32 output_count, u32 contributions, u32 rounded) {
    __shared__ DecodeShared shared;
    const Frame* first = frames + blockIdx.x * contributions;
    const u32 tile = first->tile_count - 1, count = values_of_tile<Bf16>(first->count, tile);
    if (count < Bf16::TILE) reduce_tile<false>(first, contributions, tile, count, rounded, &shared);
}
#endif
