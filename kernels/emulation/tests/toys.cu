typedef unsigned int u32;
typedef unsigned long long u64;

// Sums 256 values per block: warps by shuffles, then the block in shared memory.
extern "C" __global__ void __launch_bounds__(256) block_sums(const u32* __restrict__ values, u32* __restrict__ sums) {
    __shared__ u32 of_warp[8];
    u32 sum = values[blockIdx.x * blockDim.x + threadIdx.x];
#pragma unroll
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31u) == 0) of_warp[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < 8 ? of_warp[threadIdx.x] : 0;
        sum = __reduce_add_sync(0xffffffffu, sum);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

// Exclusive sums over blocks by decoupled look-back: a block waits for those before it, which run at the same time.
#define AGGREGATE (1ull << 62)
#define PREFIX (2ull << 62)
#define VALUE ((1ull << 62) - 1)
extern "C" __global__ void __launch_bounds__(64) look_back(const u32* counts, u64* before, u64* state, u32* ticket) {
    __shared__ u32 shared_block;
    if (threadIdx.x == 0) shared_block = atomicAdd(ticket, 1u);
    __syncthreads();
    const u32 block = shared_block, lane = threadIdx.x;
    if (lane >= 32) return;
    const u64 mine = counts[block];
    if (lane == 0) {
        __threadfence();
        atomicExch(&state[block], (block ? AGGREGATE : PREFIX) | mine);
    }
    u64 sum = 0;
    for (int last = (int)block - 1; block != 0; last -= 32) {
        const int other = last - (int)lane;
        u64 seen;
        do {
            seen = other >= 0 ? *(volatile u64*)&state[other] : PREFIX;
            if (seen >> 62 == 0) __nanosleep(20);
        } while (__any_sync(0xffffffffu, seen >> 62 == 0));
        const u32 ends = __ballot_sync(0xffffffffu, seen >> 62 == 2);
        const u32 first = ends ? (u32)__ffs((int)ends) - 1 : 31u;
        u64 part = lane <= first ? seen & VALUE : 0;
        for (int d = 16; d; d >>= 1) part += __shfl_xor_sync(0xffffffffu, part, d);
        sum += part;
        if (ends) break;
    }
    if (lane == 0) {
        __threadfence();
        atomicExch(&state[block], PREFIX | (sum + mine));
        before[block] = sum;
    }
}

// Reverses each block's values, a few times over: needs a barrier before and after each exchange.
extern "C" __global__ void __launch_bounds__(128) reverse(u32* values, u32 rounds) {
    __shared__ u32 all[128];
    u32 mine = values[blockIdx.x * 128 + threadIdx.x];
    for (u32 i = 0; i < rounds; ++i) {
        all[threadIdx.x] = mine;
        __syncthreads();
        mine = all[127 - threadIdx.x] + 1;
        __syncthreads();
    }
    values[blockIdx.x * 128 + threadIdx.x] = mine;
}

extern "C" __global__ void diverge(u32* out) {
    if (threadIdx.x & 1) {
        out[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
    } else {
        __syncthreads();
    }
}

// Dynamic shared memory under two names.
extern "C" __global__ void dynamic_sum(const u32* values, u32* sum, u32 count) {
    extern __shared__ uint4 quads[];
    extern __shared__ __align__(16) unsigned char bytes[];
    ((u32*)bytes)[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    u32 x = 0;
    for (u32 i = threadIdx.x; i < count / 4; i += blockDim.x) x += quads[i].x + quads[i].y + quads[i].z + quads[i].w;
    atomicAdd(sum, x);
}

extern "C" __global__ void fill(u32* values, u32 count, u32 value) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = value;
}

extern "C" __global__ void add(u32* values, const u32* others, u32 count) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] += others[i];
}
