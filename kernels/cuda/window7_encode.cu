// The encoder of window7.

struct EncodeShared {
    Stage stage;
    u8 list[TILE_VALUES];  // exponents of the escapes; in a search, histograms
    u64 parts[WARPS];
    u32 warp_escapes[WARPS];
    u32 warp_edges[WARPS][2];
    u32 counts[4];           // of the escapes: below the window, one below, one above, zero
    u16 histogram[256];
    u8 starts[16];           // of the windows of each 512 values
    u32 start, verdict, best, outside;
    u64 offset;
};

enum Verdict { BEST = 0, SEARCH = 1 };

struct Packed {
    u32 nibbles[4];
    u32 escaped[4]; // the lowest bit of each nibble that is 7
    u32 before;     // escapes of the tile before this group
    u32 rows[4];    // escapes of the group before this lane's piece of each row
};

// Codes of all pieces. `starts` are those of the first and the second two rows in a full group.
template <bool FULL> DEVICE void pack(const uint4* v, const Pieces& pieces, const u8* starts, Packed* packed) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 live = FULL ? 8 : pieces.live(j);
        const u32 start = starts[FULL ? 2 * warp_id() + j / 2 : 2 * warp_id() + (live ? pieces.first(j) / 512 : 0)];
        const u32 less = (0x10000u - start) & 0xffffu, both = less | less << 16;
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 nibbles = 0;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) nibbles |= __viaddmin_u16x2(exponents(words[k]), both, 0x00070007u) << 4 * k;
        // Absent values have code 0.
        if (!FULL) nibbles &= live_nibbles(live) * 15u;
        packed->nibbles[j] = nibbles;
        packed->escaped[j] = sevens(nibbles);
    }
}

// Prefix sums of the escapes over rows and lanes; the exponents of the escapes into `list`, in the order of the values;
// their number. A barrier is at the end.
template <bool FULL> DEVICE u32 collect(const uint4* v, const Pieces& pieces, Packed* packed, EncodeShared* shared) {
    // Two rows in a register: a row has 256 values at most.
    const u32* m = packed->escaped;
    u32 low = __popc(m[0]) | __popc(m[1]) << 16, high = __popc(m[2]) | __popc(m[3]) << 16, low_all, high_all;
    low = warp_scan(low, &low_all);
    high = warp_scan(high, &high_all);
    const u32 row1 = low_all & 0xffffu, row2 = row1 + (low_all >> 16), row3 = row2 + (high_all & 0xffffu);
    packed->rows[0] = low & 0xffffu;
    packed->rows[1] = row1 + (low >> 16);
    packed->rows[2] = row2 + (high & 0xffffu);
    packed->rows[3] = row3 + (high >> 16);
    const u32 of_warp = row3 + (high_all >> 16);
    if (lane_id() == 0) shared->warp_escapes[warp_id()] = of_warp;
    __syncthreads();
    u32 before = 0, total = 0;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; ++warp) {
        if (warp == warp_id()) before = total;
        total += shared->warp_escapes[warp];
    }
    packed->before = before;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 place = before + packed->rows[j];
#pragma unroll 1
        for (u32 left = value_order(packed->escaped[j]); left; left &= left - 1) {
            const u32 bit = (u32)__ffs((int)left) - 1;
            const u32 low = bit & 4 ? words[1] : words[0], high = bit & 4 ? words[3] : words[2];
            shared->list[place++] = (u8)((bit & 8 ? high : low) >> (16 * (bit & 1) + 7));
        }
    }
    __syncthreads();
    return total;
}

// How many values of the tile have the code 0, how many 0 or 1, and how many 6 or none.
template <bool FULL> DEVICE void count_edges(const Pieces& pieces, const Packed& packed, EncodeShared* shared) {
    u32 zeros = 0, lowest = 0, highest = 0;
    // A bit per value and row: the rows share a word.
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 n = packed.nibbles[j], live = FULL ? 0x11111111u : live_nibbles(pieces.live(j));
        zeros |= (~(n | n >> 1 | n >> 2) & live) << j;
        lowest |= (~(n >> 1 | n >> 2) & live) << j;
        highest |= (n >> 1 & n >> 2 & live) << j;
    }
    // The numbers of a warp have eleven bits.
    const u32 first = __reduce_add_sync(ALL, __popc(zeros) | __popc(lowest) << 16);
    const u32 last = __reduce_add_sync(ALL, __popc(highest));
    if (lane_id() == 0) {
        shared->warp_edges[warp_id()][0] = first;
        shared->warp_edges[warp_id()][1] = last;
    }
}

// Whether the counts prove the window from `start` the best of a tile of `values` values, as crates/paper-codecs/src/kernel/window.rs does
// with a few counts more. Sets `verdict`; barriers are inside.
DEVICE void judge(u32 start, u32 values, u32 escapes, EncodeShared* shared) {
    if (threadIdx.x < 4) shared->counts[threadIdx.x] = 0;
    __syncthreads();
    u32 below = 0, before = 0, behind = 0, zeros = 0;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < escapes; i += THREADS) {
        const u32 exponent = shared->list[i];
        below += exponent < start;
        before += exponent + 1 == start;
        behind += exponent == start + 7;
        zeros += exponent == 0;
    }
    if (__any_sync(ALL, below | behind)) {
        below = __reduce_add_sync(ALL, below);
        before = __reduce_add_sync(ALL, before);
        behind = __reduce_add_sync(ALL, behind);
        zeros = __reduce_add_sync(ALL, zeros);
        if (lane_id() == 0) {
            atomicAdd(&shared->counts[0], below);
            atomicAdd(&shared->counts[1], before);
            atomicAdd(&shared->counts[2], behind);
            atomicAdd(&shared->counts[3], zeros);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 edges = 0, last = 0;
#pragma unroll
        for (u32 warp = 0; warp < WARPS; ++warp) {
            edges += shared->warp_edges[warp][0];
            last += shared->warp_edges[warp][1];
        }
        last -= escapes;
        const u32 first = edges & 0xffffu, lowest = edges >> 16;
        const u32 of_below = shared->counts[0], above = escapes - of_below, covered = values - escapes;
        // The windows beside this one are compared exactly; of equals the lowest wins.
        bool best = !(start > 0 && shared->counts[1] >= last) && !(start < LAST_START && shared->counts[2] > first);
        // The others lose at least the outermost exponents. Zeros may be frequent, so the window from 0 counts apart.
        const u32 others = of_below - shared->counts[3];
        best = best && (start < 2 || (others < last && of_below < (start >= 7 ? covered : last)));
        shared->verdict = best && above <= lowest ? BEST : SEARCH;
    }
    __syncthreads();
}

// Values in the window from `start`.
DEVICE u32 covered(const u16* histogram, u32 start) {
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 7; ++i) sum += histogram[start + i];
    return sum;
}

// Counts the exponents of each 512 values, in numbers of 16 bits. The list of escapes is gone afterwards.
template <bool FULL> DEVICE void count(const uint4* v, const Pieces& pieces, EncodeShared* shared) {
    u32* pairs = (u32*)shared->list;
    __syncthreads();
    for (u32 i = threadIdx.x; i < TILE_VALUES / 4; i += THREADS) pairs[i] = 0;
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 live = FULL ? 8 : pieces.live(j);
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            if (i >= live) continue;
            const u32 exponent = exponent_of(words, i);
            const u32 at = (2 * warp_id() + (FULL ? j / 2 : pieces.first(j) / 512)) * 256 + exponent;
            atomicAdd(pairs + at / 2, 1u << 16 * (at & 1));
        }
    }
    __syncthreads();
}

// The best of the windows from `lane`, `lane + step`, ... : how many values it covers, and what its start is short of 255,
// so that the greatest is the best, the lowest of equals.
DEVICE u32 best_of(const u16* histogram, u32 first, u32 step) {
    u32 best = 0;
#pragma unroll 1
    for (u32 start = first; start <= LAST_START; start += step) {
        const u32 found = covered(histogram, start) << 8 | (255 - start);
        best = found > best ? found : best;
    }
    return __reduce_max_sync(ALL, best);
}

// Chooses the best window from histograms; and one for each 512 values, if too many are outside of it and that pays.
// Returns how many bytes of starts there are.
template <bool FULL> DEVICE u32 search(const uint4* v, const Pieces& pieces, u32 values, EncodeShared* shared) {
    count<FULL>(v, pieces, shared);
    const u16* histograms = (const u16*)shared->list;
    u32 sum = 0;
#pragma unroll
    for (u32 part = 0; part < 16; ++part) sum += histograms[256 * part + threadIdx.x];
    shared->histogram[threadIdx.x] = (u16)sum;
    if (threadIdx.x == 0) shared->best = shared->outside = 0;
    __syncthreads();
    const u32 best = best_of(shared->histogram, threadIdx.x, THREADS);
    if (lane_id() == 0) atomicMax(&shared->best, best);
    __syncthreads();
    const u32 start = 255 - (shared->best & 255u), outside = values - (shared->best >> 8), parts = (values + 511) / 512;
    u32 own = 0;
    if (OUTSIDE * outside > values) {
        for (u32 part = 2 * warp_id(); part < 2 * warp_id() + 2; ++part) {
            const u32 of_part = part < parts ? (values - 512 * part < 512 ? values - 512 * part : 512) : 0;
            const u32 found = best_of(histograms + 256 * part, lane_id(), 32);
            if (lane_id() == 0 && of_part) {
                shared->starts[part] = (u8)(255 - (found & 255u));
                atomicAdd(&shared->outside, of_part - (found >> 8));
            }
        }
        __syncthreads();
        own = shared->outside + parts < outside ? parts : 0;
    }
    if (threadIdx.x == 0) shared->start = own ? OWN_WINDOWS : start;
    if (!own && threadIdx.x < 16) shared->starts[threadIdx.x] = (u8)start;
    __syncthreads();
    return own;
}

// The window that another tile of the frame chose, to be tried first. Read once, so that all threads have the same.
DEVICE void take_hint(const State* state, EncodeShared* shared) {
    if (threadIdx.x >= 16) return;
    u32 hint = 0;
    if (threadIdx.x == 0) hint = *(const volatile u32*)&state->hint;
    hint = __shfl_sync(0xffffu, hint, 0);
    shared->starts[threadIdx.x] = (u8)(hint == NO_HINT ? 0 : hint - 1);
    if (threadIdx.x == 0) shared->start = hint == NO_HINT ? OWN_WINDOWS : hint - 1;
}

// Chooses the window of `values` values and packs them; returns the number of escapes. Barriers are inside.
template <bool FULL>
DEVICE u32 choose_window(State* state, const uint4* v, const Pieces& pieces, u32 values, EncodeShared* shared, Packed* packed) {
    const u32 own = search<FULL>(v, pieces, values, shared);
    pack<FULL>(v, pieces, shared->starts, packed);
    const u32 escapes = collect<FULL>(v, pieces, packed, shared);
    if (threadIdx.x == 0 && !own) *(volatile u32*)&state->hint = shared->start + 1;
    return escapes;
}

// Stores to device memory that is not read soon, or to any.
template <bool STREAMED, class T> DEVICE void store(T* to, T value) {
    if (STREAMED) __stcs(to, value);
    else *to = value;
}

// Writes sign-mantissa bytes and codes of a warp: to device memory, or to a stage.
template <bool FULL, bool STREAMED = FULL>
DEVICE void store_coded(const uint4* v, const Pieces& pieces, const Packed& packed, u8* rest, u8* codes) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const u32 words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
        u32 bytes[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) bytes[k] = merge(0x00800080u, words[k] >> 8, words[k]);
        if (!FULL && lane_id() >= pieces.lanes) continue;
        const u32 low = __byte_perm(bytes[0], bytes[1], 0x6420), high = __byte_perm(bytes[2], bytes[3], 0x6420);
        store<STREAMED>((uint2*)(rest + pieces.first(j)), make_uint2(low, high));
        // The fourth row is in the spare bits of the others.
        const u32 word = packed.nibbles[j] | (packed.nibbles[3] >> j & 0x11111111u) << 3;
        if (j < 3) store<STREAMED>((u32*)(codes + 4 * (j * pieces.lanes + lane_id())), word);
    }
}

// Writes the lower halves of piece `j` to the front of a body.
template <bool FULL> DEVICE void store_lower(const uint4& lower, const Pieces& pieces, u32 j, u8* body) {
    const u32 first = warp_id() * GROUP + pieces.first(j), live = pieces.live(j);
    if (FULL) {
        __stcs((uint4*)(body + 2 * first), lower);
        return;
    }
    const u32 words[4] = {lower.x, lower.y, lower.z, lower.w};
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        if (i < live) ((u16*)body)[first + i] = (u16)(words[i / 2] >> 16 * (i & 1));
}

// Loads the values of a tile, of F32 the upper halves; the lower ones go to the front of the body of a coded tile. Returns the sum over
// the values.
template <class Format, bool FULL>
DEVICE u64 take_values(const u8* values, u8* body, bool coded, u32 count, const Pieces& pieces, u64 tile, uint4* v, Stage* stage) {
    if (!Format::LOWER) {
        load_values<FULL>(values, count, pieces, v, stage);
        if (!FULL) keep_live(v, pieces);
        return mix_values<FULL>(v, pieces, tile);
    }
    u64 sum = 0;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        const Wide wide = load_wide<FULL>(values, pieces, j);
        v[j] = wide.upper();
        if (coded) store_lower<FULL>(wide.lower(), pieces, j, body);
        add_piece(&sum, wide, key_of_piece<Format>(pieces, tile, j), FULL ? 8 : pieces.live(j));
    }
    return sum;
}

// Sets the place of a tile in the dynamic section and writes its entry, by the first warp.
template <class Format>
DEVICE void find_place(const Frame* frame, u32 tile, u32 length, bool stored, u32 escapes, EncodeShared* shared) {
    if (warp_id() != 0) return;
    const u64 offset = sum_before(at<u64>(frame->tiles_state), tile, length);
    if (lane_id() != 0) return;
    shared->offset = offset;
    if (tile == frame->tile_count - 1) *at<u64>(frame->size) = offset + length;
    u16* entry = (u16*)(at<u8>(frame->fixed) + Format::table_at() + (u64)tile * Format::ENTRY);
    entry[0] = (u16)(stored ? MODE_STORED << 8 : shared->start | MODE_CODED << 8);
    entry[1] = (u16)(stored ? 0 : escapes);
}

template <class Format, bool FULL> DEVICE void encode_tile(const Frame* frame, u32 tile, u32 count, EncodeShared* shared) {
    State* state = state_of(frame);
    const Pieces pieces = Pieces::of(count);
    u8* stage = (u8*)shared->stage.bytes;
    const u8* values = at<const u8>(frame->values) + (u64)tile * (Format::WIDTH * TILE_VALUES);
    u8* fixed = at<u8>(frame->fixed);
    u8* body = fixed + front_len<Format>(frame->count) + (u64)tile * Format::static_body(TILE_VALUES);
    const bool coded = FULL || Format::has_codes(count);
    uint4 v[4];
    const u64 sum = take_values<Format, FULL>(values, body, coded, count, pieces, tile, v, &shared->stage);
    take_hint(state, shared);
    const u32 of_values = fold_tile<Format>(sum, shared->parts);
    if (threadIdx.x == 0) atomicAdd(&state->values, of_values);

    Packed packed = {};
    u32 escapes = 0, own = 0;
    if (coded) {
        const u32 hint = shared->start;
        bool is_final = false;
        if (hint != OWN_WINDOWS) {
            pack<FULL>(v, pieces, shared->starts, &packed);
            count_edges<FULL>(pieces, packed, shared);
            escapes = collect<FULL>(v, pieces, &packed, shared);
            judge(hint, count, escapes, shared);
            is_final = shared->verdict == BEST && OUTSIDE * escapes <= count;
        }
        if (!is_final) {
            escapes = choose_window<FULL>(state, v, pieces, count, shared, &packed);
            own = windows_len(shared->start, count);
        }
    }
    const u32 in_body = Format::static_body(count);
    const bool stored = !coded || in_body + own + escapes >= Format::WIDTH * count;
    const u32 length = stored ? Format::WIDTH * count - in_body : own + escapes;
    // Others wait for the length, so it comes first; values are stored while theirs come.
    if (threadIdx.x == 0) publish_length(at<u64>(frame->tiles_state), tile, length);
    // The escape index: what is before each 512 values.
    u16* index = (u16*)(fixed + Format::index_at(frame->count)) + (u64)tile * (TILE_VALUES / 512) + 2 * warp_id();
    if (pieces.count > 0 && lane_id() == 0) index[0] = (u16)(stored ? 0 : packed.before);
    if (pieces.count > 512) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
            if (lane_id() < pieces.lanes && pieces.first(j) == 512)
                index[1] = (u16)(stored ? 0 : packed.before + packed.rows[j]);
    }
    u8 *coded_body = body + Format::LOWER * count, *to = FULL ? coded_body : stage;
    if (!stored) store_coded<FULL>(v, pieces, packed, to + warp_id() * GROUP, to + (FULL ? count : CODES_AT) + warp_id() * 384);
    find_place<Format>(frame, tile, length, stored, escapes, shared);
    __syncthreads();
    u8* dynamic = at<u8>(frame->dynamic) + shared->offset;
    if (!stored) {
        if (!FULL) {
            copy_bytes(coded_body, stage, count);
            copy_bytes(coded_body + count, stage + CODES_AT, codes_len(count));
        }
        if (threadIdx.x < own) dynamic[threadIdx.x] = shared->starts[threadIdx.x];
        copy_bytes(dynamic + own, shared->list, escapes);
    } else {
        copy_bytes(body, values, in_body);
        copy_bytes(dynamic, values + in_body, length);
    }
}

// Writes the frames of a batch, but for what `seal_frames` adds. A block of 256 threads per tile.
template <class Format> DEVICE void encode_frames(const Frame* frames, u32 frame_count) {
    __shared__ EncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 tile = own_number() - frame->first_tile;
    const u32 count = values_of_tile<Format>(frame->count, tile);
    if (count == TILE_VALUES) encode_tile<Format, true>(frame, tile, count, &shared);
    else encode_tile<Format, false>(frame, tile, count, &shared);
}
