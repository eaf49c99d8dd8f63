// The decoder of delta+tiered: values from a base and the differences from it.

namespace delta {

struct DecodeShared {
    u8 symbols[TILE];             // of the differences, in their order
    u64 mask[TILE / 64];          // which values differ
    u16 ranks[4][TILE / 64];      // by tier and word: differences before it that are passed on
    u16 marked[TILE / 64];        // by word of the mask: values before it that differ
    u32 bits_at[TILE / STEP];     // by 64 differences: low bits before them
    u16 bytes_at[TILE / STEP];    // ... whole bytes of low bits
    u16 large_at[TILE / STEP];    // ... and large differences
    u64 parts[WARPS];
    u32 totals[WARPS];
};

// Sum over the threads before this one, and over all. Barriers are inside.
DEVICE u32 block_scan(u32 value, u32* totals, u32* all) {
    u32 total;
    const u32 in_warp = warp_scan(value, &total);
    if (lane_id() == 0) totals[warp_id()] = total;
    __syncthreads();
    const u32 of_warp = lane_id() < WARPS ? totals[lane_id()] : 0u;
    const u32 before = __reduce_add_sync(ALL, lane_id() < warp_id() ? of_warp : 0u);
    *all = __reduce_add_sync(ALL, of_warp);
    __syncthreads();
    return in_warp + before;
}

// The lowest `live` bits of a word.
DEVICE u64 live_mask(u32 live) { return live < 64 ? (1ull << live) - 1 : ~0ull; }
// How many of the values of word `word` there are, of `count`.
DEVICE u32 live_of_word(u32 word, u32 count) { return count <= 64 * word ? 0 : count - 64 * word < 64 ? count - 64 * word : 64; }

// Whether the bytes that fill up a part of `len` bytes are not zero; for one thread.
DEVICE bool is_padded(const u8* part, u32 len) {
    u32 all = 0;
#pragma unroll 1
    for (u32 i = len; i < round8(len); ++i) all |= part[i];
    return all != 0;
}

// Marks the values that are listed. Returns whether that list is one that no encoder writes. Barriers are inside.
DEVICE bool mark_listed(const u8* body, const Entry& entry, u32 count, DecodeShared* shared) {
    const u32 groups = (count + GROUP - 1) / GROUP, mine = threadIdx.x;
    shared->mask[mine] = 0;
    const u32 number = mine < groups ? body[mine] : 0u;
    u32 all;
    const u32 first = block_scan(number, shared->totals, &all);
    if (__syncthreads_or(all != entry.coded)) return true;
    bool is_wrong = mine == 0 && (is_padded(body, groups) || is_padded(body + entry.positions_at(count), entry.coded));
    const u8* positions = body + entry.positions_at(count) + first;
    int last = -1;
#pragma unroll 1
    for (u32 i = 0; i < number; ++i) {
        const int position = positions[i];
        const u32 value = GROUP * mine + position;
        if (position <= last || value >= count) {
            is_wrong = true;
            break;
        }
        shared->mask[value / 64] |= 1ull << value % 64; // Words of a group have no other thread.
        last = position;
    }
    return __syncthreads_or(is_wrong);
}

// Marks the values that differ, and counts those before each word. Returns whether the frame contradicts itself. Barriers are inside.
DEVICE bool mark_values(const u8* body, const Entry& entry, u32 count, DecodeShared* shared) {
    const u32 mine = threadIdx.x, live = live_of_word(mine, count);
    bool is_wrong = false;
    if (entry.form == FORM_LISTED) {
        if (mark_listed(body, entry, count, shared)) return true;
    } else {
        u64 bits = live_mask(live);
        if (live && entry.form == FORM_MASKED) bits = ((const u64*)body)[mine];
        is_wrong = (bits & ~live_mask(live)) != 0;
        shared->mask[mine] = bits;
    }
    u32 all;
    shared->marked[mine] = (u16)block_scan(__popcll(shared->mask[mine]), shared->totals, &all);
    return __syncthreads_or(is_wrong || all != entry.coded);
}

// Counts what tiers pass on before each of their words. Returns whether the codes contradict the table. Barriers are inside.
DEVICE bool rank_tiers(const u8* body, const Entry& entry, u32 count, DecodeShared* shared) {
    const u32 mine = threadIdx.x;
    bool is_wrong = mine == 0 && is_padded(body + entry.escapes_at(count), entry.counts[4]);
#pragma unroll
    for (u32 tier = 0; tier < 4; ++tier) {
        const u32 live = live_of_word(mine, entry.counts[tier]);
        u32 passed = 0;
        if (live) {
            const u64* word = (const u64*)(body + entry.tier_at(count, tier)) + 2 * mine;
            passed = (u32)__popcll(word[0] & word[1]);
            is_wrong |= ((word[0] | word[1]) & ~live_mask(live)) != 0;
        }
        u32 all;
        shared->ranks[tier][mine] = (u16)block_scan(passed, shared->totals, &all);
        is_wrong |= all != entry.counts[tier + 1];
    }
    return __syncthreads_or(is_wrong);
}

// The symbol of difference `number`, of codes that do not contradict the table.
DEVICE u32 symbol_of(const u8* body, const Entry& entry, u32 count, u32 number, const DecodeShared* shared) {
    const u8* words = body + entry.tier_at(count, 0);
    u32 symbol = 0, place = 0, tier = 0;
    // Without a way out of the loop, and with loads that are always there: else the compiler does not come to an end.
#pragma unroll
    for (u32 next = 0; next < 4; ++next) {
        const bool is_open = tier == next;
        const u64* word = (const u64*)(words + (is_open ? place : 0)) + (is_open ? 2 * (number / 64) : 0);
        const u64 low = word[0], high = word[1];
        const u32 bit = number % 64, code = ((u32)(low >> bit) & 1u) | ((u32)(high >> bit) & 1u) << 1;
        const u32 passed = shared->ranks[next][number / 64] + (u32)__popcll(low & high & live_mask(bit));
        if (is_open) symbol = 3 * next + code;
        if (is_open && code == 3) {
            number = passed;
            tier = next + 1;
        }
        place += codes_len(entry.counts[next]);
    }
    const u32 escape = words[tier == 4 ? place + number : 0] + BIAS;
    return tier == 4 ? escape & 0xffu : symbol;
}

// The value that difference `number` belongs to.
DEVICE u32 place_of(const Entry& entry, u32 number, const DecodeShared* shared) {
    if (entry.is_dense()) return number;
    u32 word = 0;
#pragma unroll
    for (u32 step = TILE / 128; step; step >>= 1)
        if (shared->marked[word + step] <= number) word += step;
    // The bit of the word before which there are as many as are left.
    u64 bits = shared->mask[word];
    u32 left = number - shared->marked[word], place = 64 * word;
#pragma unroll
    for (u32 width = 32; width; width >>= 1) {
        const u32 below = (u32)__popcll(bits & ((1ull << width) - 1));
        if (left >= below) {
            left -= below;
            bits >>= width;
            place += width;
        }
    }
    return place;
}

// A difference: the value that it belongs to, and how many of its bits are low.
struct Difference {
    u32 place, base, low_bits;
    bool is_there;

    // Without a branch: where the compiler meets one here, it does not come to an end.
    DEVICE Difference of(const Entry& entry, const u16* base, u32 number, const DecodeShared* shared) {
        const bool is_there = number < entry.coded;
        const u32 place = place_of(entry, is_there ? number : 0, shared), value = base[place], exponent = value >> 7 & 0xffu;
        const u32 below = exponent && exponent < entry.reference ? entry.reference - exponent : 0;
        const Difference found = {place, value, is_there ? (below < 8 ? below : 8) : 0, is_there};
        return found;
    }
};

// Finds all symbols, and where the low bits of each 64 differences and their large ones are. Returns whether there are more or fewer than the
// table says. Barriers are inside.
DEVICE bool find_parts(const u8* body, const Entry& entry, u32 count, const u16* base, DecodeShared* shared) {
#pragma unroll 1
    for (u32 number = threadIdx.x; number < entry.coded; number += THREADS)
        shared->symbols[number] = (u8)symbol_of(body, entry, count, number, shared);
    __syncthreads();
#pragma unroll 1
    for (u32 step = warp_id(); step < TILE / STEP; step += WARPS) {
        u32 bits = 0, large = 0, live = 0;
        bool is_whole = true;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 number = STEP * step + 32 * half + lane_id();
            const Difference found = Difference::of(entry, base, number, shared);
            bits += found.low_bits;
            is_whole = is_whole && (!found.is_there || found.low_bits == 8);
            live += found.is_there;
            large += found.is_there && shared->symbols[number] == LARGE;
        }
        const bool all_whole = __all_sync(ALL, is_whole);
        const u32 all_bits = __reduce_add_sync(ALL, bits), all_live = __reduce_add_sync(ALL, live), all_large = __reduce_add_sync(ALL, large);
        if (lane_id() == 0) {
            shared->bits_at[step] = all_whole ? 0 : all_bits;
            shared->bytes_at[step] = (u16)(all_whole ? all_live : 0);
            shared->large_at[step] = (u16)all_large;
        }
    }
    __syncthreads();
    const u32 mine = threadIdx.x, own_bits = shared->bits_at[mine], own_bytes = shared->bytes_at[mine], own_large = shared->large_at[mine];
    u32 bits, bytes, large;
    shared->bits_at[mine] = block_scan(own_bits, shared->totals, &bits);
    shared->bytes_at[mine] = (u16)block_scan(own_bytes, shared->totals, &bytes);
    shared->large_at[mine] = (u16)block_scan(own_large, shared->totals, &large);
    bool is_wrong = bytes != entry.low_bytes || (bits + 63) / 64 != entry.low_words || large != entry.large;
    if (mine == 0 && !is_wrong) {
        is_wrong = is_padded(body + entry.low_bytes_at(count), entry.low_bytes) || is_padded(body + entry.large_at(count), 2 * entry.large);
        if (bits % 64) is_wrong |= ((const u64*)(body + entry.low_words_at(count)))[bits / 64] >> bits % 64 != 0;
    }
    return __syncthreads_or(is_wrong);
}

// A BF16 value as an integer in the order of what values stand for, and back.
DEVICE u32 ordered(u32 bits) { return bits & 0x8000u ? bits ^ 0x7fffu : bits; }

// The value that differs so from a base value.
DEVICE u32 apply(const Entry& entry, u32 difference, u32 base) {
    if (entry.is_xor) return (difference ^ base) & 0xffffu;
    const u32 step = difference & 1u ? ~(difference >> 1) : difference >> 1;
    return ordered((ordered(base) + step) & 0xffffu);
}

// Writes the values that differ, one warp 64 of them. Returns whether a large difference has more bits than a value.
DEVICE bool write_changed(const u8* body, const Entry& entry, u32 count, const u16* base, u16* values, const DecodeShared* shared) {
    const u8* low_bytes = body + entry.low_bytes_at(count);
    const u64* low_words = (const u64*)(body + entry.low_words_at(count));
    const u16* large = (const u16*)(body + entry.large_at(count));
    const u32 less = entry.is_dense() ? 0 : 1, below = (1u << lane_id()) - 1;
    bool is_wrong = false;
#pragma unroll 1
    for (u32 step = warp_id(); STEP * step < entry.coded; step += WARPS) {
        Difference found[2];
        u32 low[2] = {0, 0};
#pragma unroll
        for (u32 half = 0; half < 2; ++half) found[half] = Difference::of(entry, base, STEP * step + 32 * half + lane_id(), shared);
        if (__all_sync(ALL, (!found[0].is_there || found[0].low_bits == 8) && (!found[1].is_there || found[1].low_bits == 8))) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half)
                if (found[half].is_there) low[half] = low_bytes[shared->bytes_at[step] + 32 * half + lane_id()];
        } else {
            const u32 first = found[0].low_bits, second = found[1].low_bits, most = __reduce_max_sync(ALL, first > second ? first : second);
            u32 bit = shared->bits_at[step];
#pragma unroll 1
            for (u32 plane = 0; plane < most; ++plane) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 have = __ballot_sync(ALL, found[half].low_bits > plane), at_bit = bit + __popc(have & below);
                    if (found[half].low_bits > plane) low[half] |= ((u32)(low_words[at_bit / 64] >> at_bit % 64) & 1u) << plane;
                    bit += __popc(have);
                }
            }
        }
        u32 next = shared->large_at[step];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 number = STEP * step + 32 * half + lane_id(), low_bits = found[half].low_bits;
            u32 high = found[half].is_there ? shared->symbols[number] : 0u;
            const u32 are_large = __ballot_sync(ALL, high == LARGE);
            if (high == LARGE) {
                high = large[next + __popc(are_large & below)];
                is_wrong |= high > 0xffffu >> low_bits;
            }
            next += __popc(are_large);
            if (found[half].is_there)
                values[found[half].place] = (u16)apply(entry, ((high << low_bits | low[half]) + less) & 0xffffu, found[half].base);
        }
    }
    return is_wrong;
}

// Copies the values of a block, of which `count` are there, by all threads. What is copied onto itself is not.
DEVICE void copy_values(u16* to, const u16* from, u32 count) {
    if (to == from) return;
#pragma unroll 1
    for (u32 octet = threadIdx.x; octet < count / 8; octet += THREADS) ((uint4*)to)[octet] = ((const uint4*)from)[octet];
    const u32 i = (count & ~7u) + threadIdx.x;
    if (i < count) to[i] = from[i];
}

// The sum over the values of a block, folded by 8192 of them; thread 0 has it. Barriers are inside.
DEVICE u32 sum_values(const u16* values, u32 block, u32 count, u64* parts) {
    u64 sum = 0;
#pragma unroll 1
    for (u32 j = 0; j < 16; ++j) {
        // Four warps have 8192 values, in words of four.
        const u32 word = warp_id() / 4 * 2048 + 128 * j + (threadIdx.x & 127u), live = count <= 4 * word ? 0 : count - 4 * word;
        u64 bits = 0;
        if (live >= 4) bits = ((const u64*)values)[word];
        else for (u32 i = 0; i < live; ++i) bits |= (u64)values[4 * word + i] << 16 * i;
        if (live) sum += mix(bits, key((u64)block * (TILE / 4) + word));
    }
    sum = warp_sum(sum);
    if (lane_id() == 0) parts[warp_id()] = sum;
    __syncthreads();
    u32 folded = 0;
    if (threadIdx.x == 0)
        for (u32 part = 0; part < 4; ++part) folded += fold(parts[4 * part] + parts[4 * part + 1] + parts[4 * part + 2] + parts[4 * part + 3]);
    return folded;
}

// Decodes a block; a report and any values if something is wrong. Barriers are inside.
DEVICE void decode_block(const Frame* frame, u32 block, u32 count, DecodeShared* shared) {
    const u8* front = at<const u8>(frame->dynamic);
    const u16* base = at<const u16>(frame->fixed) + (u64)block * TILE;
    u16* values = at<u16>(frame->values) + (u64)block * TILE;
    const Entry entry = Entry::read(entry_of(frame, block));
    const u8* body = front + places_of(frame)[block];
    if (!entry.is_dense()) copy_values(values, base, count);
    if (entry.form == FORM_SAME) return;
    // Each of these has a barrier that all come to; so values are copied before others take their place.
    const bool is_wrong = mark_values(body, entry, count, shared) || rank_tiers(body, entry, count, shared) ||
        find_parts(body, entry, count, base, shared) || write_changed(body, entry, count, base, values, shared);
    if (is_wrong) report(frame, FAULT_CODES);
}

// Adds a block's share of the front matter's checksum, and compares that of the frame in the last one. By the first warp.
DEVICE void close_block(const Frame* frame, u32 block, u32 values) {
    const State* state = state_of(frame);
    const u8* front = at<const u8>(frame->dynamic);
    const u64 all = front_end(frame->tile_count) / 8, from = HEADER_BYTES / 8 + (u64)block * state->share;
    const u64 to = from + state->share < all ? from + state->share : all;
    u64 sum = 0;
#pragma unroll 1
    for (u64 word = from + lane_id(); word < to; word += 32) sum += mix(((const u64*)front)[word], key(~word));
    close_share<Delta, LAYOUT_COMPACT>(frame, front, sum, values);
}

// Decodes a block of the inner frame to its place; what is wrong with that frame is so with this one. Barriers are inside.
DEVICE void decode_direct(const Frame* frame, u32 block, CompactShared* shared) {
    const Frame* inner = &inner_of(frame)->frame;
    const u32 number = (u32)places_of(frame)[block];
    const u32 of_values = decode_compact_block<Bf16>(inner, number, at<u8>(frame->values) + (u64)block * (2 * TILE), shared);
    if (warp_id() == 0) close_compact<Bf16>(inner, number, compact_front_len(inner->tile_count), of_values);
    __syncthreads();
    const u32 fault = *(volatile u32*)&state_of(inner)->status;
    if (threadIdx.x == 0 && fault) report(frame, fault);
}

union Shared {
    DecodeShared differences;
    CompactShared direct;
};

DEVICE void decode_frames(const Frame* frames, u32 frame_count) {
    __shared__ __align__(16) Shared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 block = blockIdx.x - frame->first_tile, count = values_of_block(frame->count, block);
    if (is_direct(frame, block)) {
        decode_direct(frame, block, &shared.direct);
    } else {
        decode_block(frame, block, count, &shared.differences);
    }
    __syncthreads();
    const u32 of_values = sum_values(at<const u16>(frame->values) + (u64)block * TILE, block, count, shared.differences.parts);
    if (warp_id() == 0) close_block(frame, block, of_values);
}

} // namespace delta

// Reads the frames of a batch, after `delta_open`. A block of 512 threads per block of values.
extern "C" __global__ void __launch_bounds__(512, 2) delta_decode_bf16(const Frame* frames, u32 frame_count) {
    delta::decode_frames(frames, frame_count);
}
