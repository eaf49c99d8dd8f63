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

// Every warp collective, once: 32 lanes write their results one after the other.
extern "C" __global__ void collectives(u64* out) {
    const u32 lane = threadIdx.x, all = 0xffffffffu;
    u64* row = out + lane;
#define PUT(value)           \
    *row = (u64)(value);     \
    row += 32
    PUT(__ballot_sync(all, lane % 3 == 0));
    PUT(__any_sync(all, lane == 7));
    PUT(__all_sync(all, lane != 7));
    PUT(__shfl_sync(all, lane * 10, 5));
    PUT(__shfl_sync(all, lane * 10, 9, 8));
    PUT(__shfl_up_sync(all, lane, 3));
    PUT(__shfl_up_sync(all, lane, 3, 8));
    PUT(__shfl_down_sync(all, lane, 3));
    PUT(__shfl_down_sync(all, lane, 3, 8));
    PUT(__shfl_xor_sync(all, lane, 5));
    PUT(__shfl_xor_sync(all, lane, 12, 8));
    PUT(__shfl_sync(all, (u64)lane << 40 | lane, 31 - (int)lane));
    PUT(__match_any_sync(all, lane / 5));
    int same;
    PUT(__match_all_sync(all, lane / 32, &same));
    PUT(same);
    PUT(__match_all_sync(all, lane / 16, &same));
    PUT(same);
    PUT(__reduce_add_sync(all, lane));
    PUT(__reduce_min_sync(all, lane + 4));
    PUT(__reduce_max_sync(all, lane + 4));
    PUT((u32)__reduce_min_sync(all, (int)lane - 9));
    PUT((u32)__reduce_max_sync(all, (int)lane - 40));
    PUT(__reduce_and_sync(all, lane | 64));
    PUT(__reduce_or_sync(all, lane & 5));
    PUT(__reduce_xor_sync(all, lane * lane));
    // Halves of the warp at the same time, and an exchange that a part of the lanes has alone.
    const u32 half = lane < 16 ? 0xffffu : 0xffff0000u;
    PUT(__ballot_sync(half, lane & 1));
    u32 few = 99;
    if (lane >= 20 && lane < 24) few = __shfl_xor_sync(0xf00000u, lane, 1);
    __syncwarp();
    PUT(few);
    // Lanes that have exited count as there.
    if (lane >= 10) return;
    PUT(__ballot_sync(all, 1));
#undef PUT
}

extern "C" __global__ void barriers(u32* out) {
    const u32 t = threadIdx.x;
    out[t] = __syncthreads_count(t % 5 == 0);
    out[100 + t] = __syncthreads_and(t < 99);
    out[200 + t] = __syncthreads_or(t == 99);
    if (t >= 60) return;
    out[300 + t] = __syncthreads_count(1);
}

extern "C" __global__ void shape(u32* out) {
    const u32 t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const u32 b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[b * blockDim.x * blockDim.y * blockDim.z + t] = threadIdx.z * 10000 + blockIdx.z * 1000 + threadIdx.y * 100 + blockIdx.x;
}

struct Mixed {
    unsigned char small;
    u64 large;
    unsigned short last;
};
extern "C" __global__ void parameters(u64* out, unsigned char a, u64 b, Mixed c, float d) {
    out[0] = a;
    out[1] = b;
    out[2] = c.small + c.large + c.last;
    out[3] = __float_as_uint(d);
}

extern "C" __global__ void atomics(u32* words, u64* longs) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&words[0], 1);
    atomicOr(&words[1], 1u << (i & 31));
    atomicAnd(&words[2], ~(1u << (i & 31)));
    atomicMax(&words[3], i);
    atomicMin(&words[4], i);
    atomicMin((int*)&words[5], -(int)i);
    atomicXor(&words[6], i);
    atomicAdd(&longs[0], (u64)i << 20);
    atomicMax(&longs[1], (u64)i << 33);
    while (atomicCAS(&words[7], 0u, 1u) != 0u) __nanosleep(10);
    longs[2] += i;
    __threadfence();
    atomicExch(&words[7], 0u);
}

// What shared memory holds before anything is written.
extern "C" __global__ void unwritten(u32* out) {
    __shared__ u32 values[32];
    extern __shared__ u32 more[];
    out[threadIdx.x] = values[threadIdx.x];
    out[32 + threadIdx.x] = more[threadIdx.x];
    values[threadIdx.x] = more[threadIdx.x] = 1;
}

// The ways to meet wrongly.
extern "C" __global__ void not_in_mask() {
    __ballot_sync(0x7fffffffu, 1);
}
extern "C" __global__ void different_masks() {
    __ballot_sync(threadIdx.x < 16 ? 0xffffffffu : 0xffff0001u | 1u << threadIdx.x, 1);
}
extern "C" __global__ void never_come() {
    if (threadIdx.x != 3) __syncwarp();
    if (threadIdx.x == 3) __syncthreads();
}
extern "C" __global__ void from_outside(u32* out) {
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, threadIdx.x, 8);
}
extern "C" __global__ void wait_for_ever(volatile u32* flag) {
    while (*flag == 0) __nanosleep(100);
}
extern "C" __global__ void behind_dynamic() {
    extern __shared__ u32 few[];
    few[threadIdx.x] = 1;
}

// Reads a word where only a byte may be read.
extern "C" __global__ void not_aligned(unsigned* values) {
    const unsigned char* odd = (const unsigned char*)values + 1;
    values[threadIdx.x] = *(const unsigned*)odd;
}
