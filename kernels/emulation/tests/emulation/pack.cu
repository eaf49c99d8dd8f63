// As a codec's kernel moves bytes: 1024 BF16 values per warp. Each becomes its sign and mantissa, and the distance of its
// exponent from `base` in a nibble, at most 7; how many were farther away is counted per tile.
typedef unsigned char u8;
typedef unsigned int u32;

extern "C" __global__ void __launch_bounds__(256)
pack(const uint4* __restrict__ values, uint2* __restrict__ bytes, u32* __restrict__ nibbles, u32* __restrict__ far,
     u32 base, u32 tiles) {
    __shared__ u32 of_warp[8];
    const u32 lane = threadIdx.x & 31u, warp = threadIdx.x >> 5, tile = blockIdx.x * 8 + warp;
    const u32 minus = (0x10000u - base) & 0xffffu, minus_base = minus | minus << 16;
    u32 count = 0;
    if (tile < tiles) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint4 v = __ldcs(values + (size_t)tile * 128 + j * 32 + lane);
            const u32 in[4] = {v.x, v.y, v.z, v.w};
            u32 kept[4], code = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                kept[k] = (in[k] >> 8 & 0x00800080u) | (in[k] & 0x007f007fu);
                const u32 near = __viaddmin_u16x2(in[k] >> 7 & 0x00ff00ffu, minus_base, 0x00070007u);
                code |= near << (4 * k);
                count += __popc(__vcmpeq2(near, 0x00070007u)) / 16;
            }
            bytes[(size_t)tile * 128 + j * 32 + lane] =
                make_uint2(__byte_perm(kept[0], kept[1], 0x6420), __byte_perm(kept[2], kept[3], 0x6420));
            nibbles[(size_t)tile * 128 + j * 32 + lane] = code;
        }
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            const u32 other = __shfl_up_sync(0xffffffffu, count, d);
            if (lane >= (u32)d) count += other;
        }
    }
    if (lane == 31) of_warp[warp] = count;
    __syncthreads();
    if (threadIdx.x < 8 && blockIdx.x * 8 + threadIdx.x < tiles) far[blockIdx.x * 8 + threadIdx.x] = of_warp[threadIdx.x];
}
