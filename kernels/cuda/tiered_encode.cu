// Encoders of tiered.

// Choice for a block, and the counts that it is made from.
struct Plan {
    u32 sums[GROUPS];         // of the exponents of each group; from bit 20 on, how many values are not +0
    u64 bases[GROUPS / 8];    // a byte each, 0 for a group of zeros
    u8 marks[GROUPS];         // bases as the dynamic section has them
    u32 form, order, base;
};

struct EncodeShared {
    Plan plan;
    u32 selectors[256];       // of `__byte_perm`: the bytes of eight whose bits are set come first
    u64 parts[WARPS];
    u32 totals[2][WARPS];
    u32 beyond[2];            // how many values the tiers 3 and 4 pass on
    u64 offset;
    __align__(16) u8 tail[TAIL_LEN];
    // Residuals, a byte each, of the values that a tier passes on; behind them eight that the next tier has the code 0 for.
    uint2 list[Bf16::TILE / 8 + 1];
    uint2 second[Bf16::TILE / 32]; // the codes of tier 2
};

// The mean exponent of values that are not +0, plus so many eighths, rounded down.
DEVICE u32 base_of(u32 exponents, u32 values, u32 eighths) {
    const u32 base = (8 * exponents + eighths * values) / (8 * values);
    return base < LAST_BASE ? base : LAST_BASE;
}

// Chooses form and bases of a block from the sums of its groups, as codec/src/blocks/plan.rs. By one warp.
DEVICE void choose_bases(u32 count, Plan* plan, u32 eighths = EIGHTHS) {
    const u32 groups = (count + GROUP - 1) / GROUP;
    u32 exponents = 0, values = 0, means = 0, lowest = LAST_BASE, highest = 0;
    bool has_zeros = false;
    u64 squares = 0;
#pragma unroll 1
    for (u32 group = lane_id(); group < groups; group += 32) {
        const u32 sum = plan->sums[group] & 0xfffffu, of_group = plan->sums[group] >> 20;
        if (of_group == 0) {
            has_zeros = true;
            continue;
        }
        // A sum over 256 values is a mean with eight bits behind the point.
        const u32 mean = of_group == GROUP ? sum : sum * 256 / of_group, base = base_of(sum, of_group, eighths);
        exponents += sum;
        values += of_group;
        means += mean;
        squares += (u64)mean * mean;
        lowest = base < lowest ? base : lowest;
        highest = base > highest ? base : highest;
    }
    exponents = __reduce_add_sync(ALL, exponents);
    values = __reduce_add_sync(ALL, values);
    means = __reduce_add_sync(ALL, means);
    lowest = values ? __reduce_min_sync(ALL, lowest) : 0;
    highest = __reduce_max_sync(ALL, highest);
    squares = warp_sum(squares);
    bool differ = __any_sync(ALL, has_zeros);
    if (!differ) {
        const u64 number = groups, noise = GAUSSIAN_VARIANCE * groups / values;
        differ = number * squares - (u64)means * means > number * number * (MIN_VARIANCE + noise);
    }
    differ = differ && groups > 1;
    u32 form = FORM_ONE, order = ORDER_HIGH, base = lowest;
    if (differ) {
        form = highest - lowest > MAX_SPAN ? FORM_BYTES : FORM_NIBBLES;
        if (form == FORM_BYTES) base = 0;
    } else {
        const u32 quarter = values ? (8 * exponents + EIGHTHS * values) % (8 * values) / (2 * values) : 0;
        order = quarter == 0 ? ORDER_LOW : quarter < 3 ? ORDER_MIDDLE : ORDER_HIGH;
        base = values ? base_of(exponents, values, eighths) : 0;
    }
#pragma unroll 1
    for (u32 group = lane_id(); group < GROUPS; group += 32) {
        u32 own = base, mark = 0;
        if (differ && group < groups) {
            const u32 sum = plan->sums[group] & 0xfffffu, of_group = plan->sums[group] >> 20;
            own = of_group ? base_of(sum, of_group, eighths) : 0;
            mark = form == FORM_BYTES ? (of_group ? own : 255) : (of_group ? own - base : 15);
        }
        ((u8*)plan->bases)[group] = (u8)own;
        plan->marks[group] = (u8)mark;
    }
    if (lane_id() == 0) {
        plan->form = form;
        plan->order = order;
        plan->base = base;
    }
}

// Writes those of eight bytes whose bits are set in `mask`, of which there are `count`.
DEVICE void append(u8* to, uint2 bytes, u32 mask, u32 count, const u32* selectors) {
    const u32 selector = selectors[mask];
    u32 four = __byte_perm(bytes.x, bytes.y, selector);
    if (count > 0) to[0] = (u8)four;
    if (count > 1) to[1] = (u8)(four >> 8);
    if (count > 2) to[2] = (u8)(four >> 16);
    if (count > 3) to[3] = (u8)(four >> 24);
    if (count > 4) {
        four = __byte_perm(bytes.x, bytes.y, selector >> 16);
        to[4] = (u8)four;
        if (count > 5) to[5] = (u8)(four >> 8);
        if (count > 6) to[6] = (u8)(four >> 16);
        if (count > 7) to[7] = (u8)(four >> 24);
    }
}

// Puts what stands for nothing behind a list of `count` residuals that tier `tier` codes next: a residual with code 0, or, where
// they are escapes, zero.
DEVICE void pad_list(u32 count, u32 order, u32 tier, EncodeShared* shared) {
    if (threadIdx.x < 8) ((u8*)shared->list)[count + threadIdx.x] = tier > 4 ? 0 : (u8)symbols(order, tier);
}

// Counts, in two halves, those of eight residuals that are not among the `span` from `-less` on.
DEVICE u32 count_beyond(uint2 residuals, u32 less, u32 span) {
    const u32 words[4] = {residuals.x << 8, residuals.x, residuals.y << 8, residuals.y};
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        sum += __viaddmin_u16x2(words[i], upper(less), upper(span));
        sum -= __viaddmin_u16x2(words[i], upper(less), upper(span) - 0x00010001u);
    }
    return sum;
}

// Counts how many of the values in tier 3 are passed on by the tiers 3 and 4: each time those outside of a range. A barrier is at
// the end.
DEVICE void count_passed(u32 count, u32 order, EncodeShared* shared) {
    if (warp_id() * GROUP < count) {
        u32 third = 0, fourth = 0;
#pragma unroll 1
        for (u32 first = 8 * threadIdx.x; first < count; first += ROUND) {
            const uint2 residuals = shared->list[first / 8];
            third += count_beyond(residuals, 6, 9);
            fourth += count_beyond(residuals, order == ORDER_HIGH ? 8 : 9, 12);
        }
        const u32 both = __reduce_add_sync(ALL, __dp4a(third, 0x01010101u, 0u) | __dp4a(fourth, 0x01010101u, 0u) << 16);
        if (lane_id() == 0) {
            atomicAdd(&shared->beyond[0], both & 0xffffu);
            atomicAdd(&shared->beyond[1], both >> 16);
        }
    }
    __syncthreads();
}

// Copies bytes from and to multiples of eight, by all threads.
DEVICE void copy_words(u8* to, const u8* from, u32 count) {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count / 8; i += THREADS) ((u64*)to)[i] = ((const u64*)from)[i];
    const u32 i = count / 8 * 8 + threadIdx.x;
    if (i < count) to[i] = from[i];
}

// Codes a tier beyond the first: `count` values of the list, of which those that are passed on stay there. Returns how many these
// are. A barrier is at the end.
DEVICE u32 code_tier(u8* to, u32 tier, u32 order, u32 count, EncodeShared* shared) {
    const Lookup lookup = Lookup::of(order, tier);
    u8* list = (u8*)shared->list;
    u32 passed = 0;
#pragma unroll 1
    for (u32 round = 0; round < count; round += ROUND) {
        const u32 first = round + 8 * threadIdx.x;
        // Without a branch: where the compiler meets one here, it does not come to an end.
        const uint2 residuals = shared->list[first / 8];
        u32 mask = 0, before = 0, total = 0;
        if (round + GROUP * warp_id() < count) {
            Codes codes = lookup.codes(residuals);
            if (first >= count) codes.low = codes.high = 0;
            if (first / 64 * 64 < count) {
                u8* word = to + (first / 64 * 16 + (lane_id() & 7));
                word[0] = (u8)codes.low;
                word[8] = (u8)codes.high;
            }
            mask = codes.low & codes.high & 0xffu;
            before = warp_scan(__popc(mask), &total);
        }
        // In turns, so that a barrier in a round is enough.
        u32* totals = shared->totals[round / ROUND & 1];
        if (lane_id() == 0) totals[warp_id()] = total;
        // What is passed on goes to the front of the list: as far as this round, no further.
        __syncthreads();
        u32 all;
        before += passed + warps_before(totals, &all);
        append(list + before, residuals, mask, __popc(mask), shared->selectors);
        passed += all;
    }
    pad_list(passed, order, tier + 1, shared);
    __syncthreads();
    return passed;
}

// Writes the bases of a block to the front of what it has in the dynamic section.
DEVICE void write_bases(u8* to, u32 count, const Entry& entry, const u8* marks) {
    const u32 nibbles = entry.form == FORM_NIBBLES;
    if (threadIdx.x < entry.bases_len(count)) {
        const u8* own = marks + threadIdx.x * (1 + nibbles);
        to[threadIdx.x] = (u8)(nibbles ? own[0] | own[1] << 4 : own[0]);
    }
}

// Writes what a block in tiers has in the dynamic section, less the codes of tier 1. The codes of tier 2 are there, and the values
// in tier 3.
template <class Format> DEVICE void write_dynamic(u8* to, u32 count, const Entry& entry, EncodeShared* shared) {
    const u32 second_at = entry.bases_len(count) + Format::later_len(count), order = entry.order_of_tiers();
    write_bases(to, count, entry, shared->plan.marks);
    const u32 third_at = second_at + codes_len(entry.counts[1]), fourth_at = third_at + codes_len(entry.counts[2]);
    copy_words(to + second_at, (const u8*)shared->second, codes_len(entry.counts[1]));
    code_tier(to + third_at, 3, order, entry.counts[2], shared);
    code_tier(to + fourth_at, 4, order, entry.counts[3], shared);
    copy_words(to + fourth_at + codes_len(entry.counts[3]), (const u8*)shared->list, round8(entry.counts[4]));
}

// Makes residuals of the exponents in a thread's rows.
DEVICE void take_bases(uint2* bytes, const Plan& plan) {
    const u64 bases = plan.bases[warp_id()];
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) bytes[j] = add_to_bytes(bytes[j], 0u - ((u32)(bases >> 8 * j) & 0xffu));
}

// Writes the codes of this thread's word in tier 1.
template <class Format, bool FULL> DEVICE void write_first_tier(u8* to, u32 count, uint4 codes) {
    const u32 word = warp_id() * 32 + word_of_lane();
    if (!FULL && 64 * word >= count) return;
    if (Format::FIRST_IN_BODY) {
        store(to + 16 * word, codes);
    } else {
        store(to + 16 * word, make_uint2(codes.x, codes.y));
        store(to + 16 * word + 8, make_uint2(codes.z, codes.w));
    }
}

// Codes residuals in tier 1, and puts what is passed on into the list, in the order of the values. Returns how many values that
// are. `codes` are those of this thread's word, which are written to the body if they belong there. A barrier is inside and another at
// the end.
template <class Format, bool FULL>
DEVICE u32 code_first_tier(u8* body, uint4* codes, u32 count, const uint2* bytes, EncodeShared* shared) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    uint2 lows = make_uint2(0, 0), highs = make_uint2(0, 0);
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        const Codes of_row = first_codes(bytes[j], live_of<FULL>(count, first + GROUP * j));
        insert(&lows, of_row.low, j);
        insert(&highs, of_row.high, j);
    }
    const uint2 passed = make_uint2(lows.x & highs.x, lows.y & highs.y);
    const Transpose transpose = Transpose::of_lane();
    const uint2 low = transpose.run(lows), high = transpose.run(highs);
    *codes = make_uint4(low.x, low.y, high.x, high.y);
    if (Format::FIRST_IN_BODY) write_first_tier<Format, FULL>(body, count, *codes);
    u32 total, all;
    const u32 start = scan_words(__popc(low.x & high.x) + __popc(low.y & high.y), &total);
    const uint2 within = bits_before(passed);
    if (lane_id() == 0) shared->totals[0][warp_id()] = total;
    __syncthreads();
    u8* list = (u8*)shared->list + warps_before(shared->totals[0], &all);
    pad_list(all, shared->plan.order, 2, shared);
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        const u32 mask = byte_of(passed, j), place = __shfl_sync(ALL, start, (lane_id() & 24) | j) + byte_of(within, j);
        append(list + place, bytes[j], mask, __popc(mask), shared->selectors);
    }
    __syncthreads();
    return all;
}

// Stores the lower bytes of an octet, and its rests where these are bytes: `body` is that of its block, further by its place there.
template <class Format> DEVICE void store_rests(u8* body, u32 count, const uint2* lower, uint2 rests) {
#pragma unroll
    for (u32 plane = 0; plane < Format::LOWER; ++plane) store(body + Format::lower_at(count, plane), lower[plane]);
    if (Format::PLANES == 0) store(body + Format::rests_at(count), rests);
}

// Puts the rests of an octet, if these are bit planes, into those of its rows.
template <class Format> DEVICE void add_to_planes(uint2* planes, uint2 rests, u32 row) {
    const u32 nibbles = nibbles_of(rests);
#pragma unroll
    for (u32 plane = 0; plane < Format::PLANES; ++plane) {
        if (row == 0) planes[plane] = make_uint2(0, 0);
        insert(planes + plane, gather(nibbles >> plane & LOWEST_BITS), row);
    }
}

// Writes the bit planes of the rests.
template <class Format, bool FULL> DEVICE void write_planes(u8* to, u32 count, const uint2* planes) {
    const Transpose transpose = Transpose::of_lane();
    const u32 word = warp_id() * 32 + word_of_lane();
#pragma unroll
    for (u32 plane = 0; plane < Format::PLANES; ++plane) {
        const uint2 bits = transpose.run(planes[plane]);
        if (FULL || 64 * word < count) store(to + 8 * (Format::PLANES * word + plane), bits);
    }
}

// For each byte of marks, the places of those that are set, four bits each. By the first 256 threads.
DEVICE void make_selectors(EncodeShared* shared) {
    if (threadIdx.x >= 256) return;
    u32 selector = 0, shift = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        if (threadIdx.x >> i & 1) selector |= i << shift, shift += 4;
    shared->selectors[threadIdx.x] = selector;
}

template <class Format, bool FULL> DEVICE void encode_tile(const Frame* frame, u32 tile, u32 count, EncodeShared* shared) {
    const u32 width = Format::WIDTH, first = warp_id() * (ROWS * GROUP) + 8 * lane_id(), in_body = Format::static_body(count);
    const u8* values = at<u8>(frame->values) + (u64)tile * (width * Format::TILE);
    u8* fixed = at<u8>(frame->fixed);
    u8* body = fixed + front_len<Format>(frame->count) + (u64)tile * Format::static_body(Format::TILE);
    const bool coded = FULL || Format::has_codes(count);
    make_selectors(shared);
    if (threadIdx.x < 2) shared->beyond[threadIdx.x] = 0;
    if (!FULL) load_tail<Format>(values, count, shared->tail);
    const u64 key = first_key<Format>(tile);
    u64 sum = 0;
    u32 of_group = 0;
    uint2 bytes[ROWS], planes[Format::PLANES + 1];
    // Not all at once: there are not enough registers.
    const u32 at_once = FULL && Format::WIDTH < 4 ? 4 : 2;
#pragma unroll
    for (u32 row = 0; row < ROWS; row += at_once) {
        Octet<Format::WIDTH> v[at_once];
        load_rows<Format, FULL, at_once>(values, count, row, v, shared->tail);
#pragma unroll
        for (u32 i = 0; i < at_once; ++i) {
            const u32 j = row + i, live = live_of<FULL>(count, first + GROUP * j);
            Octet<Format::UPPER> upper;
            uint2 lower[Format::LOWER + 1];
            take_apart(v[i], &upper, lower);
            const Split parts = split<Format>(upper);
            bytes[j] = parts.exponents;
            sum += mix_octet(v[i], key_of_row<Format>(key, j), live);
            const u32 exponents = __dp4a(parts.exponents.x, 0x01010101u, __dp4a(parts.exponents.y, 0x01010101u, 0u));
            const u32 in_group = __reduce_add_sync(ALL, nonzero(v[i]) * (1u << 20) + exponents);
            if (lane_id() == j) of_group = in_group;
            if (coded && live) store_rests<Format>(body + first + GROUP * j, count, lower, parts.rests);
            add_to_planes<Format>(planes, parts.rests, j);
        }
    }
    if (Format::PLANES && coded) write_planes<Format, FULL>(body + Format::rests_at(count), count, planes);
    if (lane_id() < ROWS) shared->plan.sums[warp_id() * ROWS + lane_id()] = of_group;
    const u32 of_values = fold_parts<Format>(sum, shared->parts);
    if (threadIdx.x == 0) atomicAdd(&state_of(frame)->values, of_values);

    Entry entry = {FORM_STORED, 0, 0, {0, 0, 0, 0, 0}};
    u32 length = width * count - in_body;
    if (coded) {
        if (warp_id() == 0) choose_bases(count, &shared->plan);
        __syncthreads();
        const u32 form = shared->plan.form, order = shared->plan.order;
        uint4 codes;
        take_bases(bytes, shared->plan);
        const u32 second = code_first_tier<Format, FULL>(body, &codes, count, bytes, shared);
        const u32 third = code_tier((u8*)shared->second, 2, order, second, shared);
        count_passed(third, order, shared);
        const u32 own_order = form == FORM_ONE ? order : 0;
        const Entry found = {form, own_order, shared->plan.base, {count, second, third, shared->beyond[0], shared->beyond[1]}};
        if (found.dynamic_len(count) < length) {
            entry = found;
            length = found.dynamic_len(count);
        }
    }
    if (warp_id() == 0) {
        const u64 offset = look_back(at<u64>(frame->tiles_state), tile, length);
        if (lane_id() == 0) {
            shared->offset = offset;
            if (tile == frame->tile_count - 1) *at<u64>(frame->size) = offset + length;
            entry.write(fixed + Format::table_at() + (u64)tile * Format::ENTRY);
        }
    }
    __syncthreads();
    u8* dynamic = at<u8>(frame->dynamic) + shared->offset;
    if (entry.form == FORM_STORED) {
        copy_words(body, values, in_body);
        copy_words(dynamic, values + in_body, length);
    } else {
        write_dynamic<Format>(dynamic, count, entry, shared);
    }
}

// Writes the frames of a batch, but for what `seal_frames` adds. A block of 512 threads per block of values.
template <class Format> DEVICE void encode_frames(const Frame* frames, u32 frame_count) {
    __shared__ EncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 tile = own_number() - frame->first_tile;
    const u32 count = values_of_tile<Format>(frame->count, tile);
    if (count == Format::TILE) encode_tile<Format, true>(frame, tile, count, &shared);
    else encode_tile<Format, false>(frame, tile, count, &shared);
}
