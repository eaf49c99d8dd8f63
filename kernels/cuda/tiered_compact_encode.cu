// The encoder of tiered in the layout compact, for all types but F32, whose byte planes have forms.
//
// As in the layout split, a lane has eight values of each of eight groups, and what a tier passes on is in a list. But where a body begins is known
// only when all of its lengths are, and these only when all values are coded: so nothing is written before, and rests are taken of values that are
// read again. In whole blocks without a mask, groups that are left out move words of 64 values as they are. In all others, what is coded has no places of
// its own: residuals, and later rests, are collected in the list, in the order of the values, and coded from there: optimised for code size, not speed.

struct CompactEncodeShared {
    EncodeShared tiers;
    u16 kept[GROUPS];  // values before a group in those that are not left out; with LEFT_OUT if it is
    u16 coded[GROUPS]; // values before it that are not +0
    u32 kept_count, coded_count, is_masked;
    Compact block;
};

// A type whose codes of tier 1 are not written as soon as they are made.
template <class Format> struct Unplaced : Format {
    static const bool FIRST_IN_BODY = false;
    // Four rows at a time that write rests: bytes need no more registers than one of them takes, bits are put together from both.
    static const u32 UNROLLED = Format::PLANES ? ROWS / 4 : 1;
};

// Stores eight bytes at any place: a word of 32 bits that has other bytes, too, is not written as a whole.
DEVICE void store_anywhere(u8* to, uint2 bytes) {
    const u32 before = (u32)(0 - (size_t)to) & 3u, behind = 4 - before;
    if (((size_t)to & 7) == 0) {
        store(to, bytes);
    } else if (before == 0) {
        store(to, bytes.x);
        store(to + 4, bytes.y);
    } else {
        if (before & 1) to[0] = (u8)bytes.x;
        if (before & 2) store(to + (before & 1), (u16)(bytes.x >> 8 * (before & 1)));
        store(to + before, __funnelshift_r(bytes.x, bytes.y, 8 * before));
        if (behind & 2) store(to + 4 + before, (u16)(bytes.y >> 8 * before));
        if (behind & 1) to[7] = (u8)(bytes.y >> 24);
    }
}

// ---- What is chosen ----------------------------------------------------------------------------------------------

// Which groups of a block are left out, and whether the zeros of the others are, as codec/src/blocks/plan.rs. By one warp, after `choose_bases`.
template <class Format> DEVICE void choose_kept(u32 count, CompactEncodeShared* shared) {
    const Plan& plan = shared->tiers.plan;
    // In two halves: values that are kept, and those that are not +0.
    u32 sums = 0;
#pragma unroll 1
    for (u32 group = lane_id(); group < GROUPS; group += 32) {
        const u32 nonzero = plan.sums[group] >> 20, own = plan.form == FORM_ONE || nonzero ? values_of_group(count, group) : 0;
        u32 all;
        const u32 before = sums + warp_scan(own | nonzero << 16, &all);
        shared->kept[group] = (u16)((before & 0xffffu) | (own ? 0 : LEFT_OUT));
        shared->coded[group] = (u16)(before >> 16);
        sums += all;
    }
    const u32 kept = sums & 0xffffu, nonzero = sums >> 16, bits_of_zero = 16 + 8 * Format::LOWER + (Format::PLANES ? Format::PLANES : 8);
    if (lane_id() == 0) {
        shared->is_masked = (kept - nonzero) * bits_of_zero > kept;
        shared->kept_count = kept;
        shared->coded_count = shared->is_masked || nonzero == 0 ? nonzero : kept;
    }
}

// ---- Values ------------------------------------------------------------------------------------------------------

// Takes the exponents of a thread's values and sums over groups; returns what `fold_parts` does. A barrier is inside.
template <class Format, bool FULL> DEVICE u32 take_values(const u8* values, u32 tile, u32 count, uint2* bytes, EncodeShared* shared) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    const u64 key = first_key<Format>(tile);
    u64 sum = 0;
    u32 of_group = 0;
    // Not all at once: there are not enough registers.
    const u32 at_once = FULL ? 4 : 2;
#pragma unroll
    for (u32 row = 0; row < ROWS; row += at_once) {
        Octet<Format::WIDTH> v[at_once];
        load_rows<Format, FULL, at_once>(values, count, row, v, shared->tail);
#pragma unroll
        for (u32 i = 0; i < at_once; ++i) {
            const u32 j = row + i;
            Octet<Format::UPPER> upper;
            uint2 lower[Format::LOWER + 1];
            take_apart(v[i], &upper, lower);
            bytes[j] = split<Format>(upper).exponents;
            sum += mix_octet(v[i], key_of_row<Format>(key, j), live_of<FULL>(count, first + GROUP * j));
            const u32 exponents = __dp4a(bytes[j].x, 0x01010101u, __dp4a(bytes[j].y, 0x01010101u, 0u));
            const u32 in_group = __reduce_add_sync(ALL, nonzero(v[i]) * (1u << 20) + exponents);
            if (lane_id() == j) of_group = in_group;
        }
    }
    if (lane_id() < ROWS) shared->plan.sums[warp_id() * ROWS + lane_id()] = of_group;
    return fold_parts<Format>(sum, shared->parts);
}

// Octet `row` of a thread, which is read again.
template <class Format> struct ListedRow {
    Split parts;
    uint2 lower[Format::LOWER + 1];
    u32 group, kept;         // which group it is in, and what is said of that
    u32 marks;               // which values are not +0
    u32 coded, number, place; // which are coded, how many, and where the first of these is among all
    DEVICE ListedRow read(const u8* values, u32 count, u32 row, const CompactEncodeShared* shared) {
        ListedRow of;
        Octet<Format::WIDTH> v;
        Octet<Format::UPPER> upper;
        load_rows<Format, false, 1>(values, count, row, &v, shared->tiers.tail);
        take_apart(v, &upper, of.lower);
        of.parts = split<Format>(upper);
        of.group = warp_id() * ROWS + row;
        of.kept = shared->kept[of.group];
        of.marks = marks_of(v.raw);
        const u32 there = (1u << live_of<false>(count, GROUP * of.group + 8 * lane_id())) - 1;
        of.coded = shared->is_masked ? of.marks : of.kept & LEFT_OUT ? 0 : there;
        of.number = __popc(of.coded);
        u32 all;
        of.place = (shared->is_masked ? shared->coded[of.group] : of.kept & ~LEFT_OUT) + warp_scan(of.number, &all);
        return of;
    }
};

// ---- Tier 1 ------------------------------------------------------------------------------------------------------

// Collects the residuals of a block in the list and codes them in tier 1; what is passed on is left there. Returns how many values that are. `codes`
// has a byte of the lower and of the upper plane for each round of the list. A barrier is at the end.
template <class Format> DEVICE u32 code_listed(const u8* values, u32 count, uint4* codes, CompactEncodeShared* shared) {
    EncodeShared* tiers = &shared->tiers;
    const u32 coded = shared->coded_count;
    u8* list = (u8*)tiers->list;
    const u64 bases = tiers->plan.bases[warp_id()];
#pragma unroll 1
    for (u32 row = 0; row < ROWS; ++row) {
        const ListedRow<Format> of = ListedRow<Format>::read(values, count, row, shared);
        const uint2 residuals = add_to_bytes(of.parts.exponents, 0u - ((u32)(bases >> 8 * row) & 0xffu));
        append(list + of.place, residuals, of.coded, of.number, tiers->selectors);
    }
    __syncthreads();
    uint2 lows = make_uint2(0, 0), highs = make_uint2(0, 0);
    u32 passed = 0;
#pragma unroll 1
    for (u32 round = 0; ROUND * round < coded; ++round) {
        const u32 first = ROUND * round + 8 * threadIdx.x;
        const uint2 residuals = tiers->list[first / 8];
        const Codes of_octet = first_codes(residuals, live_of<false>(coded, first));
        insert(&lows, of_octet.low, round);
        insert(&highs, of_octet.high, round);
        const u32 mask = of_octet.low & of_octet.high & 0xffu;
        u32 total, all;
        u32 before = warp_scan(__popc(mask), &total);
        // As in `code_tier`.
        u32* totals = tiers->totals[round & 1];
        if (lane_id() == 0) totals[warp_id()] = total;
        __syncthreads();
        before += passed + warps_before(totals, &all);
        append(list + before, residuals, mask, __popc(mask), tiers->selectors);
        passed += all;
    }
    pad_list(passed, tiers->plan.order, 2, tiers);
    __syncthreads();
    *codes = make_uint4(lows.x, lows.y, highs.x, highs.y);
    return passed;
}

// Writes `NUMBER` planes of bits of this thread's word in a whole block without a mask, if its group is not left out.
template <u32 NUMBER> DEVICE void write_words(u8* to, const uint2* planes, const CompactEncodeShared* shared) {
    const u32 kept = shared->kept[warp_id() * ROWS + (lane_id() & 7)];
    if (kept & LEFT_OUT) return;
    u8* word = to + 8 * NUMBER * (kept / 64 + lane_id() / 8);
#pragma unroll
    for (u32 plane = 0; plane < NUMBER; ++plane) store_anywhere(word + 8 * plane, planes[plane]);
}

// Writes what `code_listed` has left of the codes.
DEVICE void write_listed_codes(u8* to, u32 coded, uint4 codes) {
#pragma unroll 1
    for (u32 round = 0; ROUND * round < coded; ++round) {
        const u32 first = ROUND * round + 8 * threadIdx.x;
        if (first / 64 * 64 >= coded) return;
        u8* word = to + first / 64 * 16 + (lane_id() & 7);
        word[0] = (u8)byte_of(make_uint2(codes.x, codes.y), round);
        word[8] = (u8)byte_of(make_uint2(codes.z, codes.w), round);
    }
}

// ---- Rests -------------------------------------------------------------------------------------------------------

// Writes the rests of a whole block without a mask, whose values are read again.
template <class Format> DEVICE void write_rests(u8* to, const u8* values, const CompactEncodeShared* shared) {
    const u32 plane_len = shared->coded_count;
    u8* upper_rests = to + Format::LOWER * plane_len;
    uint2 planes[Format::PLANES + 1];
// Bytes need no more registers than four rows take; bits are put together from all rows.
#pragma unroll(Unplaced<Format>::UNROLLED)
    for (u32 row = 0; row < ROWS; row += 4) {
        Octet<Format::WIDTH> v[4];
        load_rows<Format, true, 4>(values, Format::TILE, row, v, shared->tiers.tail);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 kept = shared->kept[warp_id() * ROWS + row + i], place = kept + 8 * lane_id();
            Octet<Format::UPPER> upper;
            uint2 lower[Format::LOWER + 1];
            take_apart(v[i], &upper, lower);
            const uint2 rests = split<Format>(upper).rests;
            add_to_planes<Format>(planes, rests, row + i);
            if (kept & LEFT_OUT) continue;
#pragma unroll
            for (u32 plane = 0; plane < Format::LOWER; ++plane) store_anywhere(to + plane * plane_len + place, lower[plane]);
            if (Format::PLANES == 0) store_anywhere(upper_rests + place, rests);
        }
    }
    if (Format::PLANES == 0) return;
    const Transpose transpose = Transpose::of_lane();
#pragma unroll
    for (u32 plane = 0; plane < Format::PLANES; ++plane) planes[plane] = transpose.run(planes[plane]);
    write_words<Format::PLANES>(upper_rests, planes, shared);
}

// Collects byte `PLANE` of the rests of a block in the list, which zeros follow, and writes the mask, if there is one; values are read again. A
// barrier is at both ends.
template <class Format, u32 PLANE> DEVICE void collect_rests(u8* mask, const u8* values, u32 count, CompactEncodeShared* shared) {
    u8* list = (u8*)shared->tiers.list;
    __syncthreads();
#pragma unroll 1
    for (u32 row = 0; row < ROWS; ++row) {
        const ListedRow<Format> of = ListedRow<Format>::read(values, count, row, shared);
        const bool is_marked = shared->is_masked && !(of.kept & LEFT_OUT) && 8 * lane_id() < values_of_group(count, of.group);
        if (PLANE == 0 && is_marked) mask[of.kept / 8 + lane_id()] = (u8)of.marks;
        append(list + of.place, PLANE == Format::LOWER ? of.parts.rests : of.lower[0], of.coded, of.number, shared->tiers.selectors);
    }
    if (threadIdx.x < 8) list[shared->coded_count + threadIdx.x] = 0;
    __syncthreads();
}

// Writes the bit planes of rests that are in the list.
template <class Format> DEVICE void write_listed_planes(u8* to, u32 coded, const uint2* list) {
#pragma unroll 1
    for (u32 first = 8 * threadIdx.x; first / 64 * 64 < coded; first += ROUND) {
        const u32 live = live_of<false>(coded, first), nibbles = nibbles_of(list[first / 8]);
        u8* word = to + first / 64 * (8 * Format::PLANES) + (lane_id() & 7);
#pragma unroll
        for (u32 plane = 0; plane < Format::PLANES; ++plane) word[8 * plane] = (u8)gather(nibbles >> plane & live_bits(live));
    }
}

// Writes mask, if there is one, and rests of a block. The list is of no meaning afterwards.
template <class Format> DEVICE void write_listed_rests(u8* mask, u8* to, const u8* values, u32 count, CompactEncodeShared* shared) {
    const u32 coded = shared->coded_count, filled = mask_len(shared->kept_count), marked = (shared->kept_count + 7) / 8;
    const u8* list = (const u8*)shared->tiers.list;
    if (shared->is_masked && threadIdx.x < filled - marked) mask[marked + threadIdx.x] = 0;
    collect_rests<Format, 0>(mask, values, count, shared);
    if (Format::LOWER) {
        copy_anywhere(to, list, round8(coded), threadIdx.x, THREADS);
        collect_rests<Format, Format::LOWER>(mask, values, count, shared);
        to += round8(coded);
    }
    if (Format::PLANES) write_listed_planes<Format>(to, coded, shared->tiers.list);
    else copy_anywhere(to, list, round8(coded), threadIdx.x, THREADS);
}

// ---- Blocks ------------------------------------------------------------------------------------------------------

// Writes the codes of tiers 2 to 4 and the escapes. The codes of tier 2 are there, and the values in tier 3.
DEVICE void write_later(u8* to, const Entry& entry, EncodeShared* shared) {
    const u32* counts = entry.counts;
    const u32 order = entry.order_of_tiers();
    copy_anywhere(to, (const u8*)shared->second, codes_len(counts[1]), threadIdx.x, THREADS);
    to += codes_len(counts[1]);
    code_tier(to, 3, order, counts[2], shared);
    to += codes_len(counts[2]);
    code_tier(to, 4, order, counts[3], shared);
    copy_anywhere(to + codes_len(counts[3]), (const u8*)shared->list, round8(counts[4]), threadIdx.x, THREADS);
}

// Writes the entry of a block, and what fills up the table behind the last one; by one warp.
DEVICE void write_compact_entry(u8* front, u32 tile, u32 tile_count, const Compact& block) {
    const Entry& entry = block.entry;
    const u32 first = entry.form | (block.is_masked ? FORM_MASK : 0u) | entry.order << 4 | entry.base << 8 | entry.counts[0] << 16;
    const u32 second = entry.counts[1] | entry.counts[2] << 16, third = entry.counts[3] | entry.counts[4] << 16;
    const u32 word = lane_id() < 4 ? first : lane_id() < 8 ? second : lane_id() < 12 ? third : 0;
    const u64 place = HEADER_BYTES + 12 * (u64)tile + lane_id();
    if (lane_id() < 12 || (tile == tile_count - 1 && place < compact_front_len(tile_count))) front[place] = (u8)(word >> 8 * (lane_id() & 3));
}

// Bytes of the mask.
DEVICE u32 marks_len(const CompactEncodeShared* shared) { return shared->is_masked ? mask_len(shared->kept_count) : 0; }

// Decides how a block is kept, finds where its body begins, and writes its entry; by one warp. `second` and `third` values are in these tiers.
template <class Format> DEVICE void place_compact(const Frame* frame, u32 tile, u32 count, u32 second, u32 third, CompactEncodeShared* shared) {
    const Plan& plan = shared->tiers.plan;
    const u32 coded = shared->coded_count, *beyond = shared->tiers.beyond, order = plan.form == FORM_ONE ? plan.order : 0;
    Compact block = {{FORM_ZERO, 0, 0, {0, 0, 0, 0, 0}}, false, false};
    u32 length = 0;
    if (coded) {
        const Compact found = {{plan.form, order, plan.base, {coded, second, third, beyond[0], beyond[1]}}, shared->is_masked != 0, false};
        length = found.entry.bases_len(count) + marks_len(shared) + TieredBodies().len_behind(found, rest_len<Format>(coded));
        if (length < Format::WIDTH * count) {
            block = found;
        } else {
            block.entry.form = FORM_STORED;
            length = Format::WIDTH * count;
        }
    }
    const u64 offset = compact_front_len(frame->tile_count) + look_back(at<u64>(frame->tiles_state), tile, length);
    if (lane_id() == 0) {
        shared->block = block;
        shared->tiers.offset = offset;
        if (tile == frame->tile_count - 1) *at<u64>(frame->size) = offset + length;
    }
    write_compact_entry(at<u8>(frame->fixed), tile, frame->tile_count, block);
}

// Read anew where they are needed: while values are coded, registers are too few to keep them.
DEVICE u32 own_tile(const Frame* frame) { return own_number() - *(const volatile u32*)&frame->first_tile; }
template <class Format> DEVICE const u8* own_values(const Frame* frame) {
    return at<const u8>(*(const volatile u64*)&frame->values) + (u64)own_tile(frame) * (Format::WIDTH * Format::TILE);
}

template <class Format> DEVICE void encode_compact_block(const Frame* frame, CompactEncodeShared* shared) {
    const u32 count = values_of_tile<Format>(frame->count, own_tile(frame));
    EncodeShared* tiers = &shared->tiers;
    make_selectors(tiers);
    if (threadIdx.x < 2) tiers->beyond[threadIdx.x] = 0;
    uint2 bytes[ROWS];
    u32 of_values;
    if (count == Format::TILE) {
        of_values = take_values<Format, true>(own_values<Format>(frame), own_tile(frame), count, bytes, tiers);
    } else {
        uint2 unused[ROWS];
        load_tail<Format>(own_values<Format>(frame), count, tiers->tail);
        of_values = take_values<Format, false>(own_values<Format>(frame), own_tile(frame), count, unused, tiers);
    }
    if (threadIdx.x == 0) atomicAdd(&state_of(frame)->values, of_values);
    if (warp_id() == 0) {
        choose_bases(count, &tiers->plan);
        __syncwarp();
        choose_kept<Format>(count, shared);
    }
    __syncthreads();
    const bool is_listed = count < Format::TILE || shared->is_masked;
    uint4 codes = make_uint4(0, 0, 0, 0);
    u32 second = 0, third = 0;
    if (shared->coded_count) {
        if (is_listed) {
            second = code_listed<Format>(own_values<Format>(frame), count, &codes, shared);
        } else {
            take_bases(bytes, tiers->plan);
            second = code_first_tier<Unplaced<Format>, true>(0, &codes, count, bytes, tiers);
        }
        third = code_tier((u8*)tiers->second, 2, tiers->plan.order, second, tiers);
        count_passed(third, tiers->plan.order, tiers);
    }
    if (warp_id() == 0) place_compact<Format>(frame, own_tile(frame), count, second, third, shared);
    __syncthreads();
    const Compact& block = shared->block;
    const u8* values = own_values<Format>(frame);
    u8* to = at<u8>(frame->fixed) + tiers->offset;
    if (block.entry.form == FORM_STORED) copy_anywhere(to, values, Format::WIDTH * count, threadIdx.x, THREADS);
    if (!block.is_coded()) return;
    write_bases(to, count, block.entry, tiers->plan.marks);
    u8* mask = to + block.entry.bases_len(count);
    u8* first = mask + marks_len(shared);
    u8* rests = first + codes_len(shared->coded_count);
    write_later(rests + rest_len<Format>(shared->coded_count), block.entry, tiers);
    if (is_listed) {
        write_listed_codes(first, shared->coded_count, codes);
        write_listed_rests<Format>(mask, rests, values, count, shared);
    } else {
        const uint2 planes[2] = {make_uint2(codes.x, codes.y), make_uint2(codes.z, codes.w)};
        write_words<2>(first, planes, shared);
        write_rests<Format>(rests, values, shared);
    }
}

// Writes compact frames, but for what `seal_compact_frames` adds. A block of 512 threads per block of values.
template <class Format> DEVICE void encode_compact_frames(const Frame* frames, u32 frame_count) {
    __shared__ CompactEncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    encode_compact_block<Format>(frame, &shared);
}

template <class Format> DEVICE void seal_compact_frames(const Frame* frames) {
    const Frame* frame = frames + blockIdx.y;
    seal_compact<Format>(frame, compact_front_len(frame->tile_count));
}

extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_compact_dtype(const Frame* frames, u32 frame_count) { encode_compact_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) tiered_seal_compact_dtype(const Frame* frames) { seal_compact_frames<Dtype>(frames); }
