// Tables of rans, made by the device from a sample of a frame: they are there before the first block is coded.

#define TABLE_THREADS 256u
#define MAX_GROUPS 64u   // that are looked at
#define COST_BITS 8u     // of costs in bits, behind the point

struct TableShared {
    Plan plan;
    u32 counts[256]; // of residuals in the sample
    u64 sums[3];
    u32 best;
    u32 is_last;
    u32 costs[SYMBOLS];
};

// Blocks that are looked at, of so many.
DEVICE u32 looked_at(u32 blocks) {
    const u32 least = blocks < 2 ? blocks : 2, number = blocks / 4 < least ? least : blocks / 4;
    return number < MAX_LOOKED_AT ? number : MAX_LOOKED_AT;
}
DEVICE u32 block_to_look_at(u32 number, u32 blocks) { return (u32)((u64)number * blocks / looked_at(blocks)); }

// The bits of a value, and its exponent.
template <class Format> DEVICE u32 value_at(const u8* values, u32 place) {
    if (Format::WIDTH == 1) return values[place];
    return Format::WIDTH == 2 ? ((const u16*)values)[place] : ((const u32*)values)[place];
}
template <class Format> DEVICE u32 exponent_of(u32 value) {
    return value >> (8 * Format::LOWER + Format::MANTISSA) & (((1u << (8 * Format::UPPER - 1)) - 1) >> Format::MANTISSA);
}

// Exponents and values that are not +0 of the groups of a block, as `Plan` has them, by 256 threads.
template <class Format> DEVICE void sum_groups(const u8* values, u32 count, u32* sums) {
#pragma unroll 1
    for (u32 group = warp_id(); group * GROUP < count; group += TABLE_THREADS / 32) {
        const u32 first = group * GROUP + 8 * lane_id(), live = live_of<false>(count, first);
        u32 sum = 0;
        if (live == 8) {
            const Octet<Format::WIDTH> v = *(const Octet<Format::WIDTH>*)(values + Format::WIDTH * first);
            Octet<Format::UPPER> upper;
            uint2 lower[Format::LOWER + 1];
            take_apart(v, &upper, lower);
            const Split parts = split<Format>(upper);
            sum = __dp4a(parts.exponents.x, 0x01010101u, __dp4a(parts.exponents.y, 0x01010101u, nonzero(v) << 20));
        } else {
            for (u32 i = 0; i < live; ++i) {
                const u32 value = value_at<Format>(values, first + i);
                sum += exponent_of<Format>(value) + (value ? 1u << 20 : 0u);
            }
        }
        sum = __reduce_add_sync(ALL, sum);
        if (lane_id() == 0) sums[group] = sum;
    }
}

// Bits of a symbol that has so many of the slots, by squaring: each time that gives a bit of the logarithm.
DEVICE u32 cost_of(u32 frequency) {
    if (frequency == 0) return 0;
    const u32 whole = 31 - (u32)__clz((int)frequency);
    u64 x = (u64)frequency << (31 - whole); // from 1 to 2, with 31 bits behind the point
    u32 log = whole;
#pragma unroll 1
    for (u32 i = 0; i < COST_BITS; ++i) {
        x = x * x >> 31;
        log <<= 1;
        if (x >> 32) x >>= 1, ++log;
    }
    return (SCALE_BITS << COST_BITS) - log;
}

// Bits of a residual in tiers of order `high`.
DEVICE u32 bits_in_tiers(u32 residual) {
    const u32 tier = ((residual + 1) & 0xffu) < 3 ? 1 : ((residual + 3) & 0xffu) < 6 ? 2 : ((residual + 6) & 0xffu) < 9 ? 3 : 4;
    return ((residual + 8) & 0xffu) < 12 ? 2 * tier : 16;
}

// Writes what a symbol that has the slots from `first` on is coded with. A state below 2^31 times the reciprocal, shifted, is
// their quotient: by 1 one less where there is one slot, which the last number makes up for.
DEVICE void write_step(u32 frequency, u32 first, uint4* to) {
    const bool is_single = frequency < 2;
    const u32 shift = is_single ? 0 : 31 - (u32)__clz((int)(frequency - 1)), divisor = is_single ? 1 : frequency;
    u32* words = (u32*)to;
    words[0] = divisor << 19;
    words[1] = is_single ? ALL : (u32)(((1ull << (shift + 32)) + divisor - 1) / divisor);
    words[2] = (SLOTS - divisor) | shift << 16;
    words[3] = first + (is_single ? SLOTS - 1 : 0);
}

// Chooses the table from the residuals of a sample, `counted` of the `seen` values of its groups, by the first warp; whether it pays.
DEVICE bool choose_table(const Frame* frame, u32 counted, u32 seen, u32 start, Scratch* scratch, TableShared* shared) {
    const u32 lane = lane_id(), all = counted;
    u32 count = shared->counts[(start + lane) & 0xffu];
    const u32 in_window = __reduce_add_sync(ALL, lane == ESCAPE ? 0u : count);
    if (lane == ESCAPE) count = all - in_window;
    u32 frequency = (u32)(((u64)count * SLOTS + all / 2) / all);
    if (frequency == 0 && (count > 0 || lane == ESCAPE)) frequency = 1;
    // What is missing, or too much, goes to the most frequent symbol, the last of equals.
    const u32 sum = __reduce_add_sync(ALL, frequency), largest = __reduce_max_sync(ALL, frequency << 5 | lane) & 31u;
    if (lane == largest) frequency = frequency + SLOTS > sum ? frequency + SLOTS - sum : 0;
    if (__reduce_add_sync(ALL, frequency) != SLOTS) return false;

    shared->costs[lane] = cost_of(frequency);
    __syncwarp();
    const u32 used = __ballot_sync(ALL, frequency > 0);
    u64 by_rans = 0, in_tiers = 0;
    for (u32 residual = lane; residual < 256; residual += 32) {
        const u32 place = (residual - start) & 0xffu, symbol = place < ESCAPE && used >> place & 1u ? place : ESCAPE;
        by_rans += (u64)shared->counts[residual] * (shared->costs[symbol] + (symbol == ESCAPE ? 8u << COST_BITS : 0u));
        in_tiers += (u64)shared->counts[residual] * (bits_in_tiers(residual) << COST_BITS);
    }
    by_rans = warp_sum(by_rans);
    in_tiers = warp_sum(in_tiers);
    if (by_rans > in_tiers) return false;
    // 2^36 values and 2^26 bits at most.
    const u64 coded = frame->count * counted / seen;
    if ((in_tiers - by_rans) * coded / all >> COST_BITS <= 8 * (TABLE_LEN + (u64)frame->tile_count * STATES_LEN)) return false;

    u32 rank;
    const u32 first = first_slot(frequency, &rank), of_symbols = used & ~(1u << ESCAPE);
    // The symbols around the most frequent one that all have slots.
    const u32 most = __reduce_max_sync(ALL, lane < ESCAPE ? frequency << 5 | lane : 0u) & 31u;
    const u32 unused_below = ~of_symbols & ((1u << most) - 1), core = unused_below ? 32 - (u32)__clz((int)unused_below) : 0;
    const u32 core_len = of_symbols >> most & 1u ? (u32)__ffs((int)~(of_symbols >> core)) - 1 : 0;
    write_step(frequency, first, scratch->steps + ((lane - core) & 31u));
    const u32 next = __shfl_down_sync(ALL, frequency, 1);
    u8* bytes = (u8*)scratch->table;
    if (lane % 2 == 0) {
        const u32 pair = frequency % SLOTS | next % SLOTS << SCALE_BITS;
        for (u32 i = 0; i < 3; ++i) bytes[8 + 3 * (lane / 2) + i] = (u8)(pair >> 8 * i);
    }
    if (lane == 0) {
        scratch->table[0] = start;
        scratch->start = start;
        scratch->core = core;
        scratch->core_len = core_len;
        scratch->used = used;
    }
    return true;
}

// Counts the residuals of the groups that are looked at, by all threads; their number, and that of values in these groups.
template <class Format>
DEVICE void count_residuals(const Frame* frame, const u32* sums, u32 eighths, u32* counted, u32* seen, TableShared* shared) {
    const u32 number_of = looked_at(frame->tile_count);
    shared->counts[threadIdx.x] = 0;
#pragma unroll 1
    for (u32 number = 0; number < number_of; ++number) {
        const u32 block = block_to_look_at(number, frame->tile_count), count = values_of_tile<Format>(frame->count, block);
        const u32 groups = (count + GROUP - 1) / GROUP, most = MAX_GROUPS / number_of, step = (groups + most - 1) / most;
        __syncthreads();
        if (threadIdx.x < groups) shared->plan.sums[threadIdx.x] = sums[number * GROUPS + threadIdx.x];
        __syncthreads();
        if (warp_id() == 0) choose_bases(count, &shared->plan, eighths);
        __syncthreads();
        const u8* values = at<const u8>(frame->values) + (u64)block * (Format::WIDTH * Format::TILE);
#pragma unroll 1
        for (u32 group = number % step; group < groups; group += step) {
            const u32 place = group * GROUP + threadIdx.x, of_group = count - group * GROUP < GROUP ? count - group * GROUP : GROUP;
            *seen += of_group;
            // A group of zeros has no base.
            if (shared->plan.form != FORM_ONE && shared->plan.sums[group] >> 20 == 0) continue;
            *counted += of_group;
            if (place >= count) continue;
            const u32 residual = exponent_of<Format>(value_at<Format>(values, place)) - ((const u8*)shared->plan.bases)[group];
            atomicAdd(&shared->counts[residual & 0xffu], 1u);
        }
    }
    __syncthreads();
}

// Makes the table of a frame, if one pays. A grid of (any, frames) blocks of 256 threads; those of a frame keep their sums where decoders
// have slots.
template <class Format> DEVICE void make_tables(const Frame* frames) {
    __shared__ TableShared shared;
    const Frame* frame = frames + blockIdx.y;
    Scratch* scratch = scratch_of(frame);
    const u32 number_of = looked_at(frame->tile_count), blocks = gridDim.x < number_of ? gridDim.x : number_of;
    if (blockIdx.x >= blocks) return;
    u32* sums = (u32*)scratch->slots;
#pragma unroll 1
    for (u32 number = blockIdx.x; number < number_of; number += blocks) {
        const u32 block = block_to_look_at(number, frame->tile_count);
        const u8* values = at<const u8>(frame->values) + (u64)block * (Format::WIDTH * Format::TILE);
        sum_groups<Format>(values, values_of_tile<Format>(frame->count, block), sums + number * GROUPS);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.is_last = is_last_block(state_of(frame), blocks);
    __syncthreads();
    if (!shared.is_last) return;
    if (threadIdx.x < 3) shared.sums[threadIdx.x] = 0;
    if (threadIdx.x == 0) shared.best = 0;
    __syncthreads();
    u64 exponents = 0, values = 0;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < number_of * GROUPS; i += TABLE_THREADS) {
        const u32 block = block_to_look_at(i / GROUPS, frame->tile_count), count = values_of_tile<Format>(frame->count, block);
        const u32 sum = i % GROUPS * GROUP < count ? ((volatile u32*)sums)[i] : 0;
        exponents += sum & 0xfffffu;
        values += sum >> 20;
    }
    exponents = warp_sum(exponents);
    values = warp_sum(values);
    if (lane_id() == 0) {
        atomicAdd(&shared.sums[0], exponents);
        atomicAdd(&shared.sums[1], values);
    }
    __syncthreads();
    exponents = shared.sums[0];
    values = shared.sums[1];
    bool pays = false;
    const u32 rounded = values ? (u32)((8 * exponents + values / 2) / values % 8) : 0, eighths = 4 + (8 - rounded) % 8;
    if (values) {
        u32 counted = 0, seen = 0;
        count_residuals<Format>(frame, sums, eighths, &counted, &seen, &shared);
        // The window with the most residuals, the lowest of equals.
        u32 in_window = 0;
        for (u32 i = 0; i < ESCAPE; ++i) in_window += shared.counts[(threadIdx.x + i) & 0xffu];
        atomicMax(&shared.best, in_window << 8 | (255 - threadIdx.x));
        __syncthreads();
        if (warp_id() == 0) pays = counted && choose_table(frame, counted, seen, 255 - (shared.best & 0xffu), scratch, &shared);
    }
    if (threadIdx.x != 0) return;
    scratch->has_table = pays;
    scratch->eighths = eighths;
    scratch->failed = 0;
    scratch->coded = 0;
    scratch->next = 0;
    state_of(frame)->done = 0;
}
