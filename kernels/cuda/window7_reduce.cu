// Frames of window7, decoded and added up.

template <bool FULL>
DEVICE void reduce_tile(const Frame* frames, u32 contributions, u32 tile, u32 count, u32 rounded, DecodeShared* shared) {
    const Pieces pieces = Pieces::of(count);
    float sums[4][8];
    // Adding to -0 changes nothing.
#pragma unroll
    for (u32 i = 0; i < 32; ++i) sums[i / 8][i % 8] = -0.0f;
#pragma unroll 1
    for (u32 number = 0; number < contributions; ++number) {
        const Frame* frame = frames + number;
        uint4 v[4];
        if (frame->fixed) take_tile<FULL>(frame, tile, count, v, shared);
        else load_values<FULL>(at<const u8>(frame->dynamic) + (u64)tile * (2 * TILE_VALUES), count, pieces, v, &shared->stage);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sums[j][i] = add(sums[j][i], bf16_to_f32(words[i / 2], i & 1));
        }
        // The next one may use the stage.
        if (!FULL) __syncthreads();
    }
    const u64 first_value = (u64)tile * TILE_VALUES + warp_id() * GROUP;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) store_sums<FULL>(frames, first_value + pieces.first(j), FULL ? 8 : pieces.live(j), sums[j], rounded);
}

#ifdef DTYPE_BF16
// Adds up `contributions` frames, or values as they are, in FP32 and in their order. The frames of an output follow each
// other; the first one has the address of the output, FP32 or, if `rounded`, BF16. After `window7_open`; a block per tile.
extern "C" __global__ void __launch_bounds__(256, 2)
window7_reduce_bf16(const Frame* frames, u32 output_count, u32 contributions, u32 rounded) {
    __shared__ DecodeShared shared;
    const Frame* first = frame_of(frames, output_count, blockIdx.x, contributions);
    const u32 tile = blockIdx.x - first->first_tile;
    const u32 count = values_of_tile<Bf16>(first->count, tile);
    if (count == TILE_VALUES) reduce_tile<true>(first, contributions, tile, count, rounded, &shared);
}

// The last tiles of the outputs, where they are not full: a block per output. A kernel of its own, because it takes more
// registers.
extern "C" __global__ void __launch_bounds__(256, 1)
window7_reduce_last_bf16(const Frame* frames, u32 output_count, u32 contributions, u32 rounded) {
    __shared__ DecodeShared shared;
    const Frame* first = frames + blockIdx.x * contributions;
    const u32 tile = first->tile_count - 1, count = values_of_tile<Bf16>(first->count, tile);
    if (count < TILE_VALUES) reduce_tile<false>(first, contributions, tile, count, rounded, &shared);
}
#endif
