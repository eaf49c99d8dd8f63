// Encoders of rans.
//
// Codes of symbols and words share memory: symbols are coded from the last to the first, and words, of which the last one comes
// first, take the place of those that have been coded. They are in order in the end. What is left in front of the first symbol's place
// is enough for the words of every block that is worth being coded: a word for 16 bits, of which a symbol has 12 at most.

struct RansEncodeShared {
    EncodeShared tiers; // which ends with the list and the codes of tier 2
    u8 more[3328];
    uint4 steps[SYMBOLS];
    u32 passed[4];      // how many values each tier of order `high` passes on
    u32 escapes;
    u32 words;          // ALL if they are too many
    u32 writes;
};

DEVICE u8* room_of(RansEncodeShared* shared) { return (u8*)shared->tiers.list; }
DEVICE u32 room_len(RansEncodeShared* shared) { return (u32)(shared->more + sizeof shared->more - room_of(shared)); }

// Codes of symbols are their places behind the first one of those that all have slots.
struct Codebook {
    u32 start, core, core_len, used;
    // The code of a residual, and whether that is an escape.
    __device__ __forceinline__ u32 code(u32 residual, bool* is_escape) const {
        const u32 place = (residual - start) & 0xffu;
        *is_escape = place >= ESCAPE || !(used >> place & 1u);
        return ((*is_escape ? ESCAPE : place) - core) & 31u;
    }
};

// Puts the codes of a thread's residuals into the room. `escapes` are bits of rows, set where a residual is listed.
template <bool FULL> DEVICE void make_codes(u32 count, const uint2* residuals, const Codebook& book, uint2* escapes, uint2* room) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    *escapes = make_uint2(0, 0);
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        uint2 codes = least_of(residuals[j], 0u - (book.start + book.core), book.core_len);
        const u32 beyond = ((codes.x + rep(SYMBOLS - book.core_len)) | (codes.y + rep(SYMBOLS - book.core_len))) & rep(SYMBOLS);
        if (beyond) {
            u64 of_row = word_of(residuals[j].x, residuals[j].y), found = 0;
            u32 mask = 0;
#pragma unroll 1
            for (u32 i = 0; i < 8; ++i) {
                bool is_escape;
                found = found >> 8 | (u64)book.code((u32)of_row & 0xffu, &is_escape) << 56;
                mask |= (u32)(is_escape && i < live_of<FULL>(count, first + GROUP * j)) << i;
                of_row >>= 8;
            }
            codes = make_uint2((u32)found, (u32)(found >> 32));
            insert(escapes, mask, j);
        }
        room[(first + GROUP * j) / 8] = codes;
    }
}

// Codes the symbols in the room, by one warp. Returns how many words there are, at the end of the room, and leaves the states; ALL if
// the words are too many.
DEVICE u32 encode_by_rans(u8* room, u32 room_len, u32 count, const uint4* steps, u32* state) {
    // Lanes before this one, by way of a shuffle, or the compiler makes them anew in each step.
    const u32 lane = lane_id(), before = __shfl_sync(ALL, (1u << lane) - 1, lane);
    u16* words = (u16*)room;
    u32 x = LOWEST_STATE, at = room_len / 2;
    u32 row = (count - 1) / ROW_LEN;
    // Two rows are loaded ahead: a step is shorter than the latency of device memory.
    u32 next = ((const u32*)room)[ROW_LEN / 4 * row + lane], after = ((const u32*)room)[ROW_LEN / 4 * (row ? row - 1 : 0) + lane];
    // The last row may be a part of one.
    u32 live = ROW_LEN * row + 4 * lane >= count ? 0 : count - ROW_LEN * row - 4 * lane;
#pragma unroll 1
    for (;; --row) {
        const u32 codes = next;
        // A row has 128 words at most.
        if (at < ROW_LEN / 2 * row + ROW_LEN) return ALL;
        next = after;
        if (row > 1) after = ((const u32*)room)[ROW_LEN / 4 * (row - 2) + lane];
        __syncwarp();
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            const u32 i = 3 - k;
            const uint4 step = steps[codes >> 8 * i & 31u];
            const bool takes = i < live, writes = takes && x >= step.x;
            const u32 writers = __ballot_sync(ALL, writes);
            at -= __popc(writers);
            if (writes) {
                words[at + __popc(writers & before)] = (u16)x;
                x >>= 16;
            }
            const u32 coded = x + step.w + (__umulhi(x, step.y) >> (step.z >> 16)) * (step.z & 0xffffu);
            if (takes) x = coded;
        }
        live = 4;
        if (row == 0) break;
    }
    *state = x;
    return room_len / 2 - at;
}

// How many of a thread's residuals each tier of order `high` passes on. Barriers are around it.
template <bool FULL> DEVICE void count_tiers(u32 count, const uint2* residuals, u32* passed) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    u32 beyond[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        const uint2 there = live_bytes(live_of<FULL>(count, first + GROUP * j));
        const uint2 live = make_uint2(residuals[j].x & there.x, residuals[j].y & there.y);
        beyond[0] += count_beyond(live, 1, 3);
        beyond[1] += count_beyond(live, 3, 6);
        beyond[2] += count_beyond(live, 6, 9);
        beyond[3] += count_beyond(live, 8, 12);
    }
#pragma unroll
    for (u32 tier = 0; tier < 4; ++tier) {
        const u32 of_warp = __reduce_add_sync(ALL, __dp4a(beyond[tier], 0x01010101u, 0u));
        if (lane_id() == 0) atomicAdd(passed + tier, of_warp);
    }
}

DEVICE u32 tiers_len(u32 count, const u32* passed) {
    return codes_len(count) + codes_len(passed[0]) + codes_len(passed[1]) + codes_len(passed[2]) + round8(passed[3]);
}

// Copies words from the end of the room, filled up with zeros, by all threads.
DEVICE void write_words(u8* to, const u8* room, u32 room_len, u32 words) {
    const u32 len = 2 * words, start = room_len - len, shift = 8 * (start & 2);
    const u32* from = (const u32*)(room + (start & ~3u));
#pragma unroll 1
    for (u32 i = threadIdx.x; 8 * i < len; i += THREADS) {
        const u32 a = from[2 * i], b = from[2 * i + 1], c = from[2 * i + 2];
        const uint2 there = live_bytes(len - 8 * i < 8 ? len - 8 * i : 8);
        const uint2 both = make_uint2(__funnelshift_r(a, b, shift) & there.x, __funnelshift_r(b, c, shift) & there.y);
        *(uint2*)(to + 8 * i) = both;
    }
}

// Writes the residuals that are listed, filled up with zeros. What is in the room in front of the words is overwritten; barriers are
// inside.
DEVICE void write_escapes(u8* to, u32 count, const uint2* residuals, uint2 rows, EncodeShared* shared) {
    const Transpose transpose = Transpose::of_lane();
    const uint2 words = transpose.run(rows);
    u32 total, all;
    const u32 start = scan_words(__popc(words.x) + __popc(words.y), &total);
    const uint2 within = bits_before(rows);
    if (lane_id() == 0) shared->totals[0][warp_id()] = total;
    __syncthreads();
    u8* list = (u8*)shared->list + warps_before(shared->totals[0], &all);
    if (threadIdx.x < 8) ((u8*)shared->list)[count + threadIdx.x] = 0;
#pragma unroll
    for (u32 j = 0; j < ROWS; ++j) {
        const u32 mask = byte_of(rows, j), place = __shfl_sync(ALL, start, (lane_id() & 24) | j) + byte_of(within, j);
        append(list + place, residuals[j], mask, __popc(mask), shared->selectors);
    }
    __syncthreads();
    copy_words(to, (const u8*)shared->list, round8(count));
}

// Writes what a block by rANS has in the dynamic section, by all threads: words are the last `2 * entry.counts[1]` bytes of the room. Returns where
// the list of residuals goes.
DEVICE u8* write_by_words(u8* to, u32 count, const Entry& entry, const u8* marks, u32 state, const u8* room, u32 room_len) {
    write_bases(to, count, entry, marks);
    to += entry.bases_len(count);
    if (warp_id() == 0) ((u32*)to)[lane_id()] = state;
    write_words(to + STATES_LEN, room, room_len, entry.counts[1]);
    return to + STATES_LEN + round8(2 * entry.counts[1]);
}

// ---- Places ------------------------------------------------------------------------------------------------------
//
// A frame has a table only if a block uses it and there is room for all. That is not known before the last block, and
// nothing may be written then that does not belong there. So a block writes its part of the dynamic section if it and those before it
// have saved more than the table takes, one of them by the table; others are left to a second launch, which knows. Sums
// over the blocks of a frame are bytes in bits 0 to 39, blocks that use the table above.

#define COUNT_AT 40

DEVICE u64 bytes_in(u64 sum) { return sum & ((1ull << COUNT_AT) - 1); }

// Bytes that a block takes in the dynamic section if it is stored.
template <class Format> DEVICE u32 stored_len(u32 count) { return Format::WIDTH * count - Format::static_body(count); }

// Whether a frame certainly has a table, from the sum up to a block of so many values.
template <class Format> DEVICE bool is_settled(u64 sum, u32 tile, u32 count) {
    const u64 stored = (u64)tile * stored_len<Format>(Format::TILE) + stored_len<Format>(count);
    return sum >> COUNT_AT && stored > bytes_in(sum) + TABLE_LEN;
}

// Finds where a block writes, by the first warp, and whether it does. In a second launch `has_table` is known to be right.
template <class Format>
DEVICE bool place_block(const Frame* frame, u32 tile, u32 count, u32 length, u32 form, bool by_rans, bool has_table, bool again, u64* offset) {
    Scratch* scratch = scratch_of(frame);
    u64* sums = at<u64>(frame->tiles_state);
    const bool is_last = tile == frame->tile_count - 1;
    const u64 own = length | (u64)by_rans << COUNT_AT;
    if (again && has_table) {
        *offset = TABLE_LEN + bytes_in(sums[tile] & PUBLISHED_VALUE) - length;
        return true;
    }
    if (again) sums += frame->tile_count;
    const u64 before = look_back(sums, tile, own);
    *offset = (has_table ? TABLE_LEN : 0) + bytes_in(before);
    if (is_last && lane_id() == 0) *at<u64>(frame->size) = *offset + length;
    if (!has_table) return true;
    const u32 last = values_of_tile<Format>(frame->count, frame->tile_count - 1);
    const u64 all = (u64)(frame->tile_count - 1) * stored_len<Format>(Format::TILE) + stored_len<Format>(last);
    if (lane_id() == 0) {
        // A byte is to be left behind a coded block.
        if (*offset + length + (form != FORM_STORED) > all) atomicOr(&scratch->failed, 1u);
        if (is_last) scratch->coded = (u32)((before + own) >> COUNT_AT);
    }
    return is_settled<Format>(before + own, tile, count);
}

// ---- Blocks ------------------------------------------------------------------------------------------------------

// Loads the values of a block: writes their rests to its body if it is coded, and leaves sums over groups. Exponents go to `bytes`, or to the
// list if values are not all there. Returns what `fold_parts` does; a barrier is inside.
template <class Format, bool FULL>
DEVICE u32 take_block(const u8* values, u8* body, u32 tile, u32 count, bool coded, uint2* bytes, EncodeShared* shared) {
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id();
    const u64 key = first_key<Format>(tile);
    u64 sum = 0;
    u32 of_group = 0;
    uint2 planes[Format::PLANES + 1];
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
            if (FULL) bytes[j] = parts.exponents;
            // Where it takes more to know what is there, registers are too few.
            else shared->list[(first + GROUP * j) / 8] = parts.exponents;
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
    return fold_parts<Format>(sum, shared->parts);
}

// Codes a block by the threads of a block; `adds` says whether its values are still to be added to the checksum.
template <class Format, bool FULL>
DEVICE void encode_block(const Frame* frame, u32 tile, u32 count, bool has_table, bool again, bool adds, RansEncodeShared* both) {
    EncodeShared* shared = &both->tiers;
    const Scratch* scratch = scratch_of(frame);
    const u32 first = warp_id() * (ROWS * GROUP) + 8 * lane_id(), in_body = Format::static_body(count);
    const u8* values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * Format::TILE);
    u8* fixed = at<u8>(frame->fixed);
    u8* body = fixed + front_len<Format>(frame->count) + (u64)tile * Format::static_body(Format::TILE);
    const bool coded = FULL || Format::has_codes(count);
    make_selectors(shared);
    if (threadIdx.x < SYMBOLS) both->steps[threadIdx.x] = scratch->steps[threadIdx.x];
    if (threadIdx.x < 4) both->passed[threadIdx.x] = 0;
    if (threadIdx.x < 2) shared->beyond[threadIdx.x] = 0;
    if (threadIdx.x == 0) both->escapes = 0;
    if (!FULL) load_tail<Format>(values, count, shared->tail);
    uint2 bytes[ROWS];
    const u32 of_values = take_block<Format, FULL>(values, body, tile, count, coded, bytes, shared);
    if (threadIdx.x == 0 && adds) atomicAdd(&state_of(frame)->values, of_values);

    Entry entry = {FORM_STORED, 0, 0, {0, 0, 0, 0, 0}};
    u32 length = stored_len<Format>(count), state = 0;
    bool by_rans = false;
    uint2 escapes = make_uint2(0, 0);
    uint4 codes = make_uint4(0, 0, 0, 0);
    if (coded) {
        if (warp_id() == 0) choose_bases(count, &shared->plan, has_table ? scratch->eighths : EIGHTHS);
        __syncthreads();
#pragma unroll
        for (u32 j = 0; !FULL && j < ROWS; ++j) bytes[j] = shared->list[(first + GROUP * j) / 8];
        take_bases(bytes, shared->plan);
        const u32 form = shared->plan.form, base = shared->plan.base;
        if (has_table) {
            const Codebook book = {scratch->start, scratch->core, scratch->core_len, scratch->used};
            make_codes<FULL>(count, bytes, book, &escapes, shared->list);
            const u32 listed = __reduce_add_sync(ALL, __popc(escapes.x) + __popc(escapes.y));
            if (lane_id() == 0 && listed) atomicAdd(&both->escapes, listed);
            __syncthreads();
            if (warp_id() == 0) {
                const u32 words = encode_by_rans(room_of(both), room_len(both), count, both->steps, &state);
                if (lane_id() == 0) both->words = words;
            }
            __syncthreads();
            const u32 words = both->words, listed_in_all = both->escapes;
            if (words != ALL) {
                const Entry found = {form, ORDER_RANS, base, {count, words, listed_in_all, 0, 0}};
                const u32 len = rans_len(words, listed_in_all);
                by_rans = found.bases_len(count) + len < length;
                // More than three bits for each value: tiers may be shorter.
                if (by_rans && 64 * len > 24 * count) {
                    count_tiers<FULL>(count, bytes, both->passed);
                    __syncthreads();
                    by_rans = tiers_len(count, both->passed) >= len;
                }
                if (by_rans) {
                    entry = found;
                    length = found.bases_len(count) + len;
                }
            }
        }
        if (!by_rans) {
            const u32 order = shared->plan.order, second = code_first_tier<Format, FULL>(0, &codes, count, bytes, shared);
            const u32 third = code_tier((u8*)shared->second, 2, order, second, shared);
            count_passed(third, order, shared);
            const u32 own_order = form == FORM_ONE ? order : 0;
            const Entry found = {form, own_order, base, {count, second, third, shared->beyond[0], shared->beyond[1]}};
            const u32 len = Format::later_len(count) + found.dynamic_len(count);
            if (len < length) {
                entry = found;
                length = len;
            }
        }
    }
    if (warp_id() == 0) {
        u64 offset;
        const bool writes = place_block<Format>(frame, tile, count, length, entry.form, by_rans, has_table, again, &offset);
        if (lane_id() == 0) {
            shared->offset = offset;
            both->writes = writes;
            entry.write(fixed + Format::table_at() + (u64)tile * Format::ENTRY);
        }
    }
    __syncthreads();
    if (!both->writes) return;
    u8* dynamic = at<u8>(frame->dynamic) + shared->offset;
    if (entry.form == FORM_STORED) {
        copy_words(body, values, in_body);
        copy_words(dynamic, values + in_body, length);
    } else if (by_rans) {
        u8* list = write_by_words(dynamic, count, entry, shared->plan.marks, state, room_of(both), room_len(both));
        if (entry.counts[2]) write_escapes(list, entry.counts[2], bytes, escapes, shared);
    } else {
        write_first_tier<Format, FULL>(dynamic + entry.bases_len(count), count, codes);
        write_dynamic<Format>(dynamic, count, entry, shared);
    }
}

template <class Format>
DEVICE void encode_block_of(const Frame* frame, u32 tile, bool has_table, bool again, bool adds, RansEncodeShared* shared) {
    const u32 count = values_of_tile<Format>(frame->count, tile);
    if (count == Format::TILE) encode_block<Format, true>(frame, tile, count, has_table, again, adds, shared);
    else encode_block<Format, false>(frame, tile, count, has_table, again, adds, shared);
}

// ---- Blocks in three launches ------------------------------------------------------------------------------------
//
// Full blocks of frames with a table are split by all threads, coded by a warp each, so that many chains run on a multiprocessor, and then
// written. What that has no room for is left to the threads of a block: in the last launch, which codes it from the values on.

#define WORK_ROOM 33792u   // bytes of codes, and of words in front of which they have to be
#define WORK_ESCAPES 2048u // residuals that can be listed
#define CHAIN_WARPS 4u

// Work on a block between launches (kernels/src/module.rs has its size).
struct Work {
    uint2 room[WORK_ROOM / 8]; // codes; then words, at the end
    u8 escapes[WORK_ESCAPES];  // residuals that are listed, filled up with zeros
    u8 marks[GROUPS];          // bases as the dynamic section has them
    u32 state[32];
    u32 form, base, listed;
    u32 words;                 // ALL if there is no room
};
static_assert(sizeof(Work) == 36112, "there is room for it");

DEVICE Work* work_of(const Frame* frame, u32 tile) { return frame->work ? at<Work>(frame->work) + tile : nullptr; }

// Splits the values of a full block, and makes codes and the list of residuals that have none.
template <class Format> DEVICE void split_block(const Frame* frame, u32 tile, Work* work, EncodeShared* shared) {
    const u32 count = Format::TILE;
    const Scratch* scratch = scratch_of(frame);
    const u8* values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * Format::TILE);
    u8* body = at<u8>(frame->fixed) + front_len<Format>(frame->count) + (u64)tile * Format::static_body(Format::TILE);
    make_selectors(shared);
    if (threadIdx.x == 0) shared->beyond[0] = 0;
    uint2 bytes[ROWS], escapes;
    const u32 of_values = take_block<Format, true>(values, body, tile, count, true, bytes, shared);
    if (threadIdx.x == 0) atomicAdd(&state_of(frame)->values, of_values);
    if (warp_id() == 0) choose_bases(count, &shared->plan, scratch->eighths);
    __syncthreads();
    take_bases(bytes, shared->plan);
    const Codebook book = {scratch->start, scratch->core, scratch->core_len, scratch->used};
    make_codes<true>(count, bytes, book, &escapes, work->room);
    const u32 of_warp = __reduce_add_sync(ALL, __popc(escapes.x) + __popc(escapes.y));
    if (lane_id() == 0 && of_warp) atomicAdd(&shared->beyond[0], of_warp);
    __syncthreads();
    const u32 listed = shared->beyond[0];
    if (threadIdx.x < GROUPS) work->marks[threadIdx.x] = shared->plan.marks[threadIdx.x];
    if (threadIdx.x == 0) {
        work->form = shared->plan.form;
        work->base = shared->plan.base;
        work->listed = listed;
        work->words = listed > WORK_ESCAPES ? ALL : 0;
    }
    if (listed && listed <= WORK_ESCAPES) write_escapes(work->escapes, listed, bytes, escapes, shared);
}

// The first launch. A block of 512 threads per block of values.
template <class Format> DEVICE void split_blocks(const Frame* frames, u32 frame_count) {
    __shared__ EncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    if (scratch_of(frame)->has_table && values_of_tile<Format>(frame->count, tile) == Format::TILE)
        split_block<Format>(frame, tile, work_of(frame, tile), &shared);
}

// The second launch. A warp per block of values.
template <class Format> DEVICE void chain_blocks(const Frame* frames, u32 frame_count) {
    __shared__ uint4 steps[CHAIN_WARPS][SYMBOLS];
    const u32 number = blockIdx.x * CHAIN_WARPS + warp_id();
    if (number >= frames[frame_count - 1].first_tile + frames[frame_count - 1].tile_count) return;
    const Frame* frame = frame_of(frames, frame_count, number);
    const Scratch* scratch = scratch_of(frame);
    const u32 tile = number - frame->first_tile;
    if (!scratch->has_table || values_of_tile<Format>(frame->count, tile) < Format::TILE) return;
    Work* work = work_of(frame, tile);
    if (work->words == ALL) return;
    steps[warp_id()][lane_id()] = scratch->steps[lane_id()];
    __syncwarp();
    u32 state = 0;
    const u32 words = encode_by_rans((u8*)work->room, WORK_ROOM, Format::TILE, steps[warp_id()], &state);
    work->state[lane_id()] = state;
    if (lane_id() == 0) work->words = words;
}

// Writes a block that the launches before have coded. Returns whether that is all: other choices are left to `encode_block`. Called, as with both in
// one function registers are too few for the other one on sm_80.
template <class Format> static __device__ __noinline__ bool write_worked(const Frame* frame, u32 tile, const Work& work, RansEncodeShared* both) {
    const u32 count = Format::TILE, words = work.words;
    const Entry entry = {work.form, ORDER_RANS, work.base, {count, words, work.listed, 0, 0}};
    const u32 len = rans_len(words, work.listed), length = entry.bases_len(count) + len;
    if (words == ALL || length >= stored_len<Format>(count) || 64 * len > 24 * count) return false;
    if (warp_id() == 0) {
        u64 offset;
        const bool writes = place_block<Format>(frame, tile, count, length, entry.form, true, true, false, &offset);
        if (lane_id() == 0) {
            both->tiers.offset = offset;
            both->writes = writes;
            entry.write(at<u8>(frame->fixed) + Format::table_at() + (u64)tile * Format::ENTRY);
        }
    }
    __syncthreads();
    if (!both->writes) return true;
    u8* to = at<u8>(frame->dynamic) + both->tiers.offset;
    u8* list = write_by_words(to, count, entry, work.marks, work.state[lane_id()], (const u8*)work.room, WORK_ROOM);
    copy_words(list, work.escapes, round8(work.listed));
    return true;
}

// Writes the frames of a batch, after `make_tables`, but for what `encode_again` and `seal` add. A block of 512 threads per block of values.
template <class Format> DEVICE void encode_blocks(const Frame* frames, u32 frame_count) {
    __shared__ RansEncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, take_number(frames));
    const u32 tile = own_number() - frame->first_tile;
    const bool has_table = scratch_of(frame)->has_table != 0;
    const Work* work = work_of(frame, tile);
    const bool is_split = work && has_table && values_of_tile<Format>(frame->count, tile) == Format::TILE;
    if (is_split && write_worked<Format>(frame, tile, *work, &shared)) return;
    encode_block_of<Format>(frame, tile, has_table, false, !is_split, &shared);
}

// Whether a frame for which a table was made has it.
DEVICE bool has_kept_table(const Scratch* scratch) { return !scratch->failed && scratch->coded; }

// Writes the table of a frame, by one thread.
template <class Format> DEVICE void write_table(const Frame* frame) {
    const u64* table = scratch_of(frame)->table;
    const u64 first = front_len<Format>(frame->count) / 8;
    u64 sum = 0;
#pragma unroll 1
    for (u32 word = 0; word < TABLE_LEN / 8; ++word) {
        at<u64>(frame->dynamic)[word] = table[word];
        sum += mix(table[word], key(~(first + word)));
    }
    atomicAdd(&state_of(frame)->values, fold(sum));
}

// A block that is coded once more. Called, as it is at two places and hardly ever needed.
template <class Format> static __device__ __noinline__ void encode_once_more(const Frame* frame, u32 tile, bool has_table, RansEncodeShared* shared) {
    encode_block_of<Format>(frame, tile, has_table, true, false, shared);
}

// Writes the tables of frames, and the blocks that could not know whether there is one: hardly ever any. So threads look for them, in as many
// blocks as there are multiprocessors.
template <class Format> DEVICE void encode_again(const Frame* frames, u32 frame_count) {
    __shared__ RansEncodeShared shared;
    __shared__ u32 marks[WARPS];
    const u32 tiles = frames[frame_count - 1].first_tile + frames[frame_count - 1].tile_count;
    // Blocks of values of frames that have a table, in any order: the first launch has found their places.
#pragma unroll 1
    for (u32 first = blockIdx.x * THREADS; first < tiles; first += gridDim.x * THREADS) {
        bool waits = false;
        if (first + threadIdx.x < tiles) {
            const Frame* frame = frame_of(frames, frame_count, first + threadIdx.x);
            const u32 tile = first + threadIdx.x - frame->first_tile;
            if (scratch_of(frame)->has_table && has_kept_table(scratch_of(frame))) {
                if (tile == 0) write_table<Format>(frame);
                waits = !is_settled<Format>(at<const u64>(frame->tiles_state)[tile] & PUBLISHED_VALUE, tile, values_of_tile<Format>(frame->count, tile));
            }
        }
        const u32 of_warp = __ballot_sync(ALL, waits);
        if (lane_id() == 0) marks[warp_id()] = of_warp;
        __syncthreads();
#pragma unroll 1
        for (u32 warp = 0; warp < WARPS; ++warp) {
#pragma unroll 1
            for (u32 left = marks[warp]; left; left &= left - 1) {
                const u32 number = first + 32 * warp + (u32)__ffs((int)left) - 1;
                const Frame* frame = frame_of(frames, frame_count, number);
                encode_once_more<Format>(frame, number - frame->first_tile, true, &shared);
                __syncthreads();
            }
        }
        __syncthreads();
    }
    // All blocks of frames that have none after all. They wait for those before them, so each one that starts takes the next.
#pragma unroll 1
    for (u32 first = 0; first < frame_count; first += THREADS) {
        const u32 mine = first + threadIdx.x;
        if (!__syncthreads_or(mine < frame_count && scratch_of(frames + mine)->has_table && !has_kept_table(scratch_of(frames + mine)))) continue;
#pragma unroll 1
        for (u32 number = first; number < frame_count && number < first + THREADS; ++number) {
            const Frame* frame = frames + number;
            Scratch* scratch = scratch_of(frame);
            bool is_left = scratch->has_table && !has_kept_table(scratch);
#pragma unroll 1
            while (is_left) {
                __syncthreads();
                if (threadIdx.x == 0) marks[0] = atomicAdd(&scratch->next, 1u);
                __syncthreads();
                const u32 tile = marks[0];
                is_left = tile < frame->tile_count;
                if (is_left) encode_once_more<Format>(frame, tile, false, &shared);
            }
        }
    }
}

template <class Format> DEVICE void seal_blocks(const Frame* frames) {
    const Frame* frame = frames + blockIdx.y;
    // Sums of the second launch.
    for (u64 tile = (u64)blockIdx.x * blockDim.x + threadIdx.x; tile < frame->tile_count; tile += (u64)gridDim.x * blockDim.x)
        at<u64>(frame->tiles_state)[frame->tile_count + tile] = 0;
    seal_frames<Format>(frames);
}
