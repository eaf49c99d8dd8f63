// Decoders of tiered.

struct DecodeShared {
    uint2 list[Bf16::TILE / 8 + 6]; // escapes, then what the tiers 4, 3 and 2 give: residuals, always up to the end
    u16 ranks[3][Bf16::TILE / 64];  // of each word of the tiers 2 to 4: how many values those before it pass on
    u32 totals[2][WARPS];
    u64 bases[GROUPS / 8];
    u64 parts[WARPS];
    __align__(16) u8 tail[TAIL_LEN];
};

// Where the list of what tier `tier` gives begins, or, of tier 5, that of the escapes. Lists end later the deeper they are, so that
// one is read before the one that it goes into is written there, although all begin at multiples of eight.
DEVICE u32 list_at(u32 tier, u32 count) { return Bf16::TILE + 8 * (tier - 2) - round8(count); }

// Eight bytes of a list, from any place on.
DEVICE uint2 read_list(const uint2* list, u32 place) {
    const u32* words = (const u32*)list + place / 4;
    const u32 a = words[0], b = words[1], c = words[2], shift = 8 * (place & 3);
    return make_uint2(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift));
}

// Residuals of an octet from its codes; `passed` are those that the next tiers give, the first one first.
DEVICE uint2 residuals_of(u32 low, u32 high, u32 symbols, uint2 passed) {
    const u32 lows = spread(low), highs = spread(high), codes = lows | highs << 1, threes = lows & highs;
    // The number of threes before each value is its place among those that are passed. Others select the last byte: zero, or
    // there are no others.
    const u32 places = (threes * 0x11111110u) | (0x77777777u & ~(threes * 7u));
    if (threes != LOWEST_BITS) passed.y &= 0x00ffffffu;
    return make_uint2(__byte_perm(symbols, 0, codes & 0x3333u) | __byte_perm(passed.x, passed.y, places),
                      __byte_perm(symbols, 0, codes >> 16) | __byte_perm(passed.x, passed.y, places >> 16));
}

// Whether a word that begins with value `first` of `count` has no bits beyond the last one.
DEVICE bool ends_clear(uint2 word, u32 first, u32 count) {
    const u32 left = first >= count ? 0 : count - first;
    return left >= 64 || word_of(word.x, word.y) >> left == 0;
}

DEVICE u32 popc_both(uint2 low, uint2 high) { return __popc(low.x & high.x) + __popc(low.y & high.y); }

// Reads the bases of the groups.
DEVICE bool read_bases(const u8* from, u32 count, const Entry& entry, DecodeShared* shared) {
    const u32 groups = (count + GROUP - 1) / GROUP, group = threadIdx.x;
    bool is_wrong = false;
    if (group < GROUPS) {
        u32 base = entry.base;
        if (entry.form == FORM_NIBBLES) {
            const u32 nibble = group / 2 < entry.bases_len(count) ? from[group / 2] >> 4 * (group & 1) & 15u : 0;
            is_wrong = group >= groups ? nibble != 0 : nibble < 15 && base + nibble > LAST_BASE;
            base = nibble == 15 ? 0 : base + nibble;
        } else if (entry.form == FORM_BYTES) {
            base = group < entry.bases_len(count) ? from[group] : 0;
            is_wrong = group >= groups && base != 0;
            base = base == 255 ? 0 : base;
        }
        ((u8*)shared->bases)[group] = (u8)base;
    }
    return is_wrong;
}

// Puts the escapes of a block into the list, ranks the words of all tiers and expands the tiers 4, 3 and 2 in the list. Thread `t`
// has `passed` values that word `t` of tier 1 passes on; `before` is how many are before those. Returns whether the codes are
// what the table says; then, and only then, all barriers of the block have been passed.
DEVICE bool expand_tiers(const u8* from, const Entry& entry, u32 passed, u32* before, bool is_wrong, DecodeShared* shared) {
    const u32* counts = entry.counts;
    const u32 thread = threadIdx.x;
    u32 of_tier[4] = {passed, 0, 0, 0}, planes_at = 0;
#pragma unroll
    for (u32 tier = 2; tier <= 4; ++tier) {
        const u32 count = counts[tier - 1];
        if (64 * thread < count) {
            const uint2* word = (const uint2*)(from + planes_at) + 2 * thread;
            const uint2 low = word[0], high = word[1];
            of_tier[tier - 1] = popc_both(low, high);
            is_wrong |= !ends_clear(make_uint2(low.x | high.x, low.y | high.y), 64 * thread, count);
        }
        planes_at += codes_len(count);
    }
    const uint2* escapes = (const uint2*)(from + planes_at);
    const u32 escape_count = counts[4];
#pragma unroll 1
    for (u32 first = 8 * thread; first < escape_count; first += ROUND) {
        const uint2 bytes = escapes[first / 8];
        shared->list[(list_at(5, escape_count) + first) / 8] = bytes;
        const u32 live = escape_count - first;
        is_wrong |= live < 8 && word_of(bytes.x, bytes.y) >> 8 * live != 0;
    }
    u32 total;
    const u32 low = warp_scan(of_tier[0] | of_tier[1] << 16, &total);
    if (lane_id() == 0) shared->totals[0][warp_id()] = total;
    const u32 high = warp_scan(of_tier[2] | of_tier[3] << 16, &total);
    if (lane_id() == 0) shared->totals[1][warp_id()] = total;
    is_wrong = __syncthreads_or(is_wrong);
    u32 low_all, high_all;
    const u32 low_before = low + warps_before(shared->totals[0], &low_all);
    const u32 high_before = high + warps_before(shared->totals[1], &high_all);
    *before = low_before & 0xffffu;
    shared->ranks[0][thread] = (u16)(low_before >> 16);
    shared->ranks[1][thread] = (u16)high_before;
    shared->ranks[2][thread] = (u16)(high_before >> 16);
    if (is_wrong || low_all != (counts[1] | counts[2] << 16) || high_all != (counts[3] | counts[4] << 16)) return false;
    __syncthreads();
    u32 next = escape_count;
#pragma unroll 1
    for (u32 tier = 4; tier >= 2; --tier) {
        const u32 count = tier == 4 ? counts[3] : tier == 3 ? counts[2] : counts[1];
        const u32 symbols_of_tier = symbols(entry.order_of_tiers(), tier), source = list_at(tier + 1, next), target = list_at(tier, count);
        planes_at -= codes_len(count);
#pragma unroll 1
        for (u32 first = 8 * thread; first < round8(count) + 8 * thread; first += ROUND) {
            // Without a branch: where the compiler meets one here, it does not come to an end.
            const u32 place = first < count ? first : 0, within = place & 63;
            const u64* word = (const u64*)(from + planes_at) + place / 64 * 2;
            const u64 low_bits = word[0], high_bits = word[1];
            const u32 rank = shared->ranks[tier - 2][place / 64] + __popcll(low_bits & high_bits & ((1ull << within) - 1));
            const u32 low = (u32)(low_bits >> within) & 0xffu, high = (u32)(high_bits >> within) & 0xffu;
            const uint2 residuals = residuals_of(low, high, symbols_of_tier, read_list(shared->list, source + rank));
            __syncthreads();
            if (first < count) shared->list[(target + first) / 8] = residuals;
        }
        __syncthreads();
        next = count;
    }
    return true;
}

// Word `word` of the values of a stored block. Only its place is chosen: loads under a condition keep the compiler from ending.
DEVICE uint2 stored_word(const u8* body, const u8* dynamic, u32 in_body, u32 word) {
    const bool is_in_body = 8 * word < in_body;
    return *(const uint2*)((is_in_body ? body : dynamic) + (is_in_body ? 8 * word : 8 * word - in_body));
}
DEVICE void stored_octet(Octet<2>* values, const u8* body, const u8* dynamic, u32 in_body, u32 octet) {
    const uint2 low = stored_word(body, dynamic, in_body, 2 * octet), high = stored_word(body, dynamic, in_body, 2 * octet + 1);
    values->raw = make_uint4(low.x, low.y, high.x, high.y);
}
DEVICE void stored_octet(Octet<4>* values, const u8* body, const u8* dynamic, u32 in_body, u32 octet) {
    const uint2 a = stored_word(body, dynamic, in_body, 4 * octet), b = stored_word(body, dynamic, in_body, 4 * octet + 1);
    const uint2 c = stored_word(body, dynamic, in_body, 4 * octet + 2), d = stored_word(body, dynamic, in_body, 4 * octet + 3);
    values->raw = make_uint4(a.x, a.y, b.x, b.y);
    values->more = make_uint4(c.x, c.y, d.x, d.y);
}
DEVICE void stored_octet(Octet<1>* values, const u8* body, const u8* dynamic, u32 in_body, u32 octet) {
    values->raw = stored_word(body, dynamic, in_body, octet);
}

// Writes values where they belong, but for those of an octet that is not full: these go to `tail`.
template <class Format> struct Writer {
    static const bool HAS_ROOM = Format::WIDTH < 4; // Registers for rests that come early.
    u64 key; // of this thread's first word
    u64 sum; // over the values, for the checksum
    u8* values; // of this thread
    u8* tail;
    __device__ __forceinline__ void start(u32 tile) {
        key = first_key<Format>(tile);
        sum = 0;
    }
    __device__ __forceinline__ void take(u32 j, const Octet<Format::WIDTH>& v, u32 live) {
        sum += mix_octet(v, key_of_row<Format>(key, j), live);
        if (live == 8) store_octet(values + Format::WIDTH * GROUP * j, v);
        else if (live) *(Octet<Format::WIDTH>*)tail = v;
    }
};

// Writes the values of a stored block.
template <class Format, bool FULL>
DEVICE void read_stored(const u8* body, const u8* dynamic, u32 count, Writer<Format>* writer, DecodeShared* shared) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id(), in_body = Format::static_body(count);
    if (!FULL) {
        const u32 i = Format::WIDTH * (count & ~7u) + threadIdx.x;
        u8 byte = 0;
        if (i < Format::WIDTH * count) byte = i < in_body ? body[i] : dynamic[i - in_body];
        if (threadIdx.x < TAIL_LEN) shared->tail[threadIdx.x] = byte;
        __syncthreads();
    }
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        const u32 live = live_of<FULL>(count, first + GROUP * j);
        Octet<Format::WIDTH> v = Octet<Format::WIDTH>();
        if (live == 8) stored_octet(&v, body, dynamic, in_body, (first + GROUP * j) / 8);
        else if (live) v = *(const Octet<Format::WIDTH>*)shared->tail;
        writer->take(j, v, live);
    }
}

// Part of the static section that a lane reads: a word of each plane, or rests that are bytes.
template <class Format> struct Head {
    static const u32 NUMBER = Format::PLANES ? Format::PLANES : ROWS;
    uint4 codes;
    uint2 rests[NUMBER];
};

template <bool FULL> DEVICE void clear_unless(bool is_there, uint2* word) {
    const u32 mask = FULL || is_there ? ~0u : 0;
    word->x &= mask, word->y &= mask;
}
template <bool FULL> DEVICE void clear_unless(bool is_there, uint4* pair) {
    const u32 mask = FULL || is_there ? ~0u : 0;
    pair->x &= mask, pair->y &= mask, pair->z &= mask, pair->w &= mask;
}
// Reads codes of tier 1. Absent words are read elsewhere and then cleared: loads under a condition keep the compiler from ending.
template <class Format, bool FULL> DEVICE void read_codes(Head<Format>* head, const u8* codes, u32 count) {
    const u32 word = warp_id() * 32 + word_of_lane();
    const bool is_there = FULL || 64 * word < count;
    const u32 place = is_there ? word : 0;
    if (Format::FIRST_IN_BODY) {
        head->codes = __ldcs((const uint4*)codes + place);
    } else {
        // In the dynamic section, parts begin at multiples of eight bytes.
        const uint2 low = __ldcs((const uint2*)codes + 2 * place), high = __ldcs((const uint2*)codes + 2 * place + 1);
        head->codes = make_uint4(low.x, low.y, high.x, high.y);
    }
    clear_unless<FULL>(is_there, &head->codes);
}
// Reads rests of `number` rows from row or plane `begin` on.
template <class Format, bool FULL> DEVICE void read_rests(Head<Format>* head, const u8* body, u32 count, u32 begin, u32 number) {
    const u32 word = warp_id() * 32 + word_of_lane(), first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    const bool is_there = FULL || 64 * word < count;
    const u8* rests = body + Format::rests_at(count);
#pragma unroll
    for (u32 i = begin; i < begin + number; ++i) {
        const bool has = Format::PLANES ? is_there : live_of<FULL>(count, first + GROUP * i) > 0;
        const u32 place = Format::PLANES ? Format::PLANES * word + i : (first + GROUP * i) / 8;
        head->rests[i] = __ldcs((const uint2*)rests + (has ? place : 0));
        clear_unless<FULL>(has, head->rests + i);
    }
}

// Lower bytes of an octet from value `place` on, of which `live` are there; whether there is something behind these.
template <class Format, bool FULL> DEVICE bool read_lower(uint2* lower, const u8* body, u32 count, u32 place, u32 live) {
    bool is_wrong = false;
#pragma unroll
    for (u32 plane = 0; plane < Format::LOWER; ++plane) {
        lower[plane] = __ldcs((const uint2*)(body + Format::lower_at(count, plane)) + (FULL || live ? place / 8 : 0));
        if (FULL) continue;
        const uint2 there = live_bytes(live), all = lower[plane];
        lower[plane] = make_uint2(all.x & there.x, all.y & there.y);
        is_wrong |= live && ((all.x & ~there.x) | (all.y & ~there.y)) != 0;
    }
    return is_wrong;
}

// Rests of the octet in row `j`, from the bytes of its planes, or as they are.
template <class Format> DEVICE uint2 rests_of_row(const uint2* rests, u32 j) {
    if (Format::PLANES == 0) return rests[j];
    u32 nibbles = 0;
#pragma unroll
    for (u32 plane = 0; plane < Format::PLANES; ++plane) nibbles |= spread(byte_of(rests[plane], j)) << plane;
    const u32 even = nibbles & 0x0f0f0f0fu, odd = nibbles >> 4 & 0x0f0f0f0fu;
    return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

// Writes the values of a tile, row after row, as a lane of `encode_tile` has them; reports what is wrong, and then writes any values or none.
template <class Format, bool FULL>
DEVICE void read_tile(const Frame* frame, u32 tile, u32 count, Writer<Format>* writer, DecodeShared* shared) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    const u8* fixed = at<const u8>(frame->fixed);
    const u8* body = fixed + front_len<Format>(frame->count) + (u64)tile * Format::static_body(Format::TILE);
    Head<Format> head;
    // Loads that depend on nothing come first.
    if (FULL && Format::FIRST_IN_BODY) read_codes<Format, FULL>(&head, body, count);
    if (FULL && Writer<Format>::HAS_ROOM) read_rests<Format, FULL>(&head, body, count, 0, Head<Format>::NUMBER);
    const Entry entry = Entry::read(fixed + Format::table_at() + (u64)tile * Format::ENTRY);
    const u8* dynamic = at<const u8>(frame->dynamic) + at<const u64>(frame->tiles_state)[tile];
    if (is_refused_beside_loads(frame)) return;
    if (entry.form == FORM_STORED) {
        read_stored<Format, FULL>(body, dynamic, count, writer, shared);
        return;
    }
    const u8* codes = dynamic + entry.bases_len(count);
    if (!FULL || !Format::FIRST_IN_BODY) read_codes<Format, FULL>(&head, Format::FIRST_IN_BODY ? body : codes, count);
    if (!FULL && Writer<Format>::HAS_ROOM) read_rests<Format, FULL>(&head, body, count, 0, Head<Format>::NUMBER);
    const uint2 low = make_uint2(head.codes.x, head.codes.y), high = make_uint2(head.codes.z, head.codes.w);
    bool is_wrong = read_bases(dynamic, count, entry, shared);
    if (!FULL) {
        const u32 begin = 64 * (warp_id() * 32 + word_of_lane());
        is_wrong |= !ends_clear(make_uint2(low.x | high.x, low.y | high.y), begin, count);
#pragma unroll
        for (u32 plane = 0; plane < Format::PLANES; ++plane) is_wrong |= !ends_clear(head.rests[plane], begin, count);
    }
    const u32 passed = __shfl_sync(ALL, popc_both(low, high), lane_of_word());
    u32 before;
    if (!expand_tiers(codes + Format::later_len(count), entry, passed, &before, is_wrong, shared)) {
        report(frame, FAULT_CODES);
        return;
    }
    const Transpose transpose = Transpose::of_lane();
    const uint2 lows = transpose.run(low), highs = transpose.run(high);
    const uint2 within = bits_before(make_uint2(lows.x & highs.x, lows.y & highs.y));
#pragma unroll
    for (u32 plane = 0; plane < Format::PLANES; ++plane) head.rests[plane] = transpose.run(head.rests[plane]);
    const u32 list = list_at(2, entry.counts[1]);
    const u64 bases = shared->bases[warp_id()];
    is_wrong = false;
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        if (!Writer<Format>::HAS_ROOM && j % 2 == 0) read_rests<Format, FULL>(&head, body, count, j, 2);
        const u32 place = list + __shfl_sync(ALL, before, 4 * j + lane_id() / 8) + byte_of(within, j);
        const uint2 residuals = residuals_of(byte_of(lows, j), byte_of(highs, j), 0x00ff0100u, read_list(shared->list, place));
        Split parts = {add_to_bytes(residuals, (u32)(bases >> 8 * j) & 0xffu), rests_of_row<Format>(head.rests, j)};
        if (!FULL) {
            const uint2 there = live_bytes(live_of<FULL>(count, first + GROUP * j));
            is_wrong |= ((parts.rests.x & ~there.x) | (parts.rests.y & ~there.y)) != 0;
            parts.exponents = make_uint2(parts.exponents.x & there.x, parts.exponents.y & there.y);
            parts.rests = make_uint2(parts.rests.x & there.x, parts.rests.y & there.y);
        }
        // More bits than the type has.
        if (Format::UPPER == 1) is_wrong |= ((parts.exponents.x | parts.exponents.y) & ~rep(0x7fu >> Format::MANTISSA)) != 0;
        Octet<Format::UPPER> upper;
        join<Format>(parts, &upper);
        uint2 lower[Format::LOWER + 1];
        const u32 live = live_of<FULL>(count, first + GROUP * j);
        is_wrong |= read_lower<Format, FULL>(lower, body, count, first + GROUP * j, live);
        Octet<Format::WIDTH> v;
        put_together(upper, lower, &v);
        writer->take(j, v, live);
    }
    if (is_wrong) report(frame, FAULT_CODES);
}

template <class Format, bool FULL> DEVICE void decode_tile(const Frame* frame, u32 tile, u32 count, DecodeShared* shared) {
    u8* values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * Format::TILE);
    Writer<Format> writer;
    writer.values = values + Format::WIDTH * (warp_id() * (ROWS * GROUP) + 8 * lane_id());
    writer.tail = shared->tail;
    writer.start(tile);
    read_tile<Format, FULL>(frame, tile, count, &writer, shared);
    // A barrier is in it: the tail is there.
    const u32 of_values = fold_parts<Format, CHECKED>(writer.sum, shared->parts);
    if (warp_id() == 0) close_tile<Format>(frame, tile, of_values);
    const u32 i = Format::WIDTH * (count & ~7u) + threadIdx.x;
    if (!FULL && i < Format::WIDTH * count) values[i] = shared->tail[threadIdx.x];
}

// Reads the frames of a batch, after `open_frames`. A block of 512 threads per block of values.
template <class Format> DEVICE void decode_frames(const Frame* frames, u32 frame_count) {
    __shared__ DecodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    const u32 count = values_of_tile<Format>(frame->count, tile);
    if (count == Format::TILE) decode_tile<Format, true>(frame, tile, count, &shared);
    else decode_tile<Format, false>(frame, tile, count, &shared);
}
