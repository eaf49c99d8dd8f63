// The decoder of rans in the layout compact.
//
// A block of values has a block of threads, as in tiered. If it is coded by rANS, one of its warps takes the residuals out of the codes, and
// what states carry of the rest; then all threads bring values to their places, by the sources of tiered, as if the residuals had come from
// tiers. Words are read where they are, at any byte, and none behind the last one.

struct RansCompactShared : CompactShared {
    u8 carried[CARRIED];
};

// The rest of a block, whose last bytes may be those that states carry.
struct CarriedRest {
    const u8* bytes;
    const RansCompactShared* shared;
    u32 stored; // bytes of it in the body
    __device__ __forceinline__ u32 byte(u32 place) const {
        u32 byte;
        if (place < stored) byte = bytes[place];
        else byte = shared->carried[place - stored];
        return byte;
    }
    struct Cursor {
        const CarriedRest* rest;
        u32 place;
        __device__ __forceinline__ u32 operator[](u32 i) const { return rest->byte(place + i); }
    };
    __device__ __forceinline__ Cursor from(u32 place) const {
        const Cursor cursor = {this, place};
        return cursor;
    }
    // Bytes from any place on, of which the first `count` are read.
    __device__ __forceinline__ uint2 some(u32 place, u32 count) const {
        u64 all = 0;
        if (place + count <= stored) {
            all = wide(eight_bytes(bytes + place, count));
        } else {
#pragma unroll 1
            for (u32 i = 0; i < count; ++i) all |= (u64)byte(place + i) << 8 * i;
        }
        return make_uint2((u32)all, (u32)(all >> 32));
    }
};

// ---- Codes -------------------------------------------------------------------------------------------------------

// Decodes the codes of a block, which begin at `codes`: residuals go to the front of the list, two bits of each joint symbol to where tiers have
// codes. Returns whether they contradict themselves or the entry. By one warp.
DEVICE bool decode_codes(const Entry& entry, const u8* codes, const Scratch* scratch, bool carries, RansCompactShared* shared) {
    const u32 count = entry.counts[0], word_count = entry.counts[1], escape_count = entry.counts[2], lane = lane_id();
    const u32 head = (u32)scratch->table[0], start = rep(head & 0xffu);
    const bool is_joint = window_of(head) != 0;
    const u32* slots = (const u32*)scratch->slots;
    const u8* words = codes + STATES_LEN;
    const u8* escapes = words + round8(2 * word_count);
    u32 state = four_bytes(codes + 4 * lane), word = 0, escape = 0;
    bool is_wrong = state < LOWEST_STATE || state >= LOWEST_STATE << 16;
    is_wrong |= 2 * word_count + lane < round8(2 * word_count) && words[2 * word_count + lane] != 0;
    is_wrong |= escape_count + lane < round8(escape_count) && escapes[escape_count + lane] != 0;
#pragma unroll 1
    for (u32 row = 0; ROW_LEN * row < count; ++row) {
        const u32 live = live_of_quad(0, count - ROW_LEN * row);
        u32 symbols = 0;
#pragma unroll
        for (u32 step = 0; step < 4; ++step) {
            const bool takes = step < live;
            const u32 slot = slots[state % SLOTS], times = state >> SCALE_BITS;
            u32 next = (slot >> 8 & 0xfffu) * times + ((slot >> 20) + times);
            const bool reads = takes && next < LOWEST_STATE;
            const u32 readers = __ballot_sync(ALL, reads), place = word + __popc(readers & ((1u << lane) - 1));
            if (reads) {
                u32 read = 0;
                if (place < word_count) read = words[2 * place] | words[2 * place + 1] << 8;
                next = next << 16 | read;
            }
            if (takes) state = next, symbols |= (slot & 0xffu) << 8 * step;
            word += __popc(readers);
        }
        const u32 is_escape = (is_joint ? (symbols + rep(JOINT_SYMBOLS - JOINT_ESCAPES)) >> 1 : symbols + rep(SYMBOLS - ESCAPE)) & rep(SYMBOLS);
        u32 residuals = add_four(is_joint ? symbols >> 2 & rep(15) : symbols, start);
        if (__any_sync(ALL, is_escape)) {
            u32 total;
            u32 place = escape + warp_scan(__popc(is_escape), &total);
#pragma unroll 1
            for (u32 i = 0; i < 4; ++i) {
                if (!(is_escape & SYMBOLS << 8 * i)) continue;
                const u32 residual = place < escape_count ? escapes[place] : 0u;
                residuals = merge(0xffu << 8 * i, residual << 8 * i, residuals);
                ++place;
            }
            escape += total;
        }
        ((u32*)shared->list)[32 * row + lane] = residuals;
        const u32 bits = symbols & rep(3);
        if (is_joint) ((u8*)shared->codes)[32 * row + lane] = (u8)(bits | bits >> 6 | bits >> 12 | bits >> 18);
    }
    is_wrong |= word != word_count || escape != escape_count || (carries ? state >> 24 != 1 : state != LOWEST_STATE);
    if (carries)
        for (u32 i = 0; i < 3; ++i) shared->carried[3 * lane + i] = (u8)(state >> 8 * i);
    return is_wrong;
}

// ---- Values ------------------------------------------------------------------------------------------------------

// The bits of eight joint symbols from place `place` on, a byte for each.
DEVICE uint2 joint_bits(u32 place, const CompactShared* shared) {
    const u32* words = (const u32*)shared->codes + place / 16;
    u32 bits = __funnelshift_r(words[0], words[1], 2 * (place & 15)) & 0xffffu;
    bits = (bits | bits << 8) & 0x00ff00ffu;
    bits = (bits | bits << 4) & 0x0f0f0f0fu;
    return bytes_of_nibbles((bits | bits << 2) & 0x33333333u);
}

// Puts them into rests that lack them, below the sign.
template <class Format> DEVICE u32 with_joint(u32 rests, u32 bits) {
    const u32 sign = 1u << Joint<Format>::MANTISSA;
    return (rests & rep(sign - 1)) | bits << Joint<Format>::MANTISSA | (rests & rep(sign)) << 2;
}

// Rests of coded values, and their lower bytes; `body` has planes with forms, `rest` others. Whether symbols are joint is no condition, but known
// where this is compiled: vectors that are made one way or another keep the compiler from ending.
template <class Format, bool JOINT>
DEVICE uint2 read_rests(const Body& body, const CarriedRest& rest, u32 all, const Coded& coded, uint2* lower, const CompactShared* shared) {
    const u32 count = coded.count ? coded.count : 1, top = Format::LOWER * round8(all);
#pragma unroll
    for (u32 plane = 0; plane < Format::LOWER; ++plane) {
        if (has_forms<Format>()) lower[plane] = plane_bytes<Format, false>(body, plane, all, coded, shared);
        else lower[plane] = rest.some(plane * round8(all) + coded.place, count);
    }
    if (has_forms<Format>()) return plane_bytes<Format, false>(body, Format::LOWER, all, coded, shared);
    if (JOINT) {
        const uint2 rests = coded_bits<Joint<Format>::PLANES, false>(rest, top, coded), bits = joint_bits(coded.place, shared);
        return make_uint2(with_joint<Format>(rests.x, bits.x), with_joint<Format>(rests.y, bits.y));
    }
    if (Format::PLANES) return coded_bits<Format::PLANES, false>(rest, top, coded);
    return rest.some(top + coded.place, count);
}

// Whether what fills up the planes of `count` values, of which `bits` are bit planes behind `bytes` byte planes, is not zero.
DEVICE bool is_rest_wrong(const CarriedRest& rest, u32 bytes, u32 bits, u32 count) {
    bool is_wrong = false;
    const u32 thread = threadIdx.x;
#pragma unroll 1
    for (u32 plane = 0; plane < bytes; ++plane)
        is_wrong |= count + thread < round8(count) && rest.byte(plane * round8(count) + count + thread) != 0;
    if (count % 64 != 0 && thread < bits)
        is_wrong |= wide(rest.some(bytes * round8(count) + 8 * (count / 64 * bits + thread), 8)) >> count % 64 != 0;
    return is_wrong;
}

// Writes the values of a block whose residuals are in the list. Returns whether exponents have more bits than the type.
template <class Format, bool JOINT>
DEVICE bool write_listed(const Compact& block, const Body& body, const CarriedRest& rest, Output<Format>* out, const CompactShared* shared) {
    const Columns columns = columns_of(out->frame, block);
    bool is_wrong = false;
#pragma unroll 1
    for (u32 j = 0; j < ROWS; ++j) {
        const Coded coded = coded_of_row<false>(body, block.is_masked, out->count, j, shared);
        Split parts;
        uint2 lower[Format::LOWER + 1];
        parts.exponents = read_list(shared->list, coded.place);
        parts.rests = read_rests<Format, JOINT>(body, rest, block.entry.counts[0], coded, lower, shared);
        is_wrong |= write_octet<Format, false>(block, out, columns, j, coded, parts, lower, shared);
    }
    return is_wrong;
}

// Writes the values of a block that is coded by rANS. Returns whether it contradicts itself. Barriers are inside.
template <class Format> DEVICE bool write_by_rans(const Compact& block, Body body, Output<Format>* out, RansCompactShared* shared) {
    if (read_head<Format>(block, out->count, &body, shared)) return true;
    const Scratch* scratch = scratch_of(out->frame);
    const bool is_joint = window_of((u32)scratch->table[0]) != 0;
    const u32 all = block.entry.counts[0], rest_len = is_joint ? joint_rest_len<Format>(all) : body.later - body.rest;
    const u32 carried = carried_len<Format>(rest_len), end = body.rest + rest_len - carried;
    const CarriedRest rest = {body.bytes + body.rest, shared, rest_len - carried};
    bool is_wrong = false;
    if (warp_id() == 0) is_wrong = decode_codes(block.entry, body.bytes + end, scratch, carried != 0, shared);
    if (__syncthreads_or(is_wrong)) return true;
    if (has_forms<Format>()) is_wrong = is_rest_filled<Format>(body, all, shared);
    else if (is_joint) is_wrong = is_rest_wrong(rest, Format::LOWER, Joint<Format>::PLANES, all);
    else is_wrong = is_rest_wrong(rest, Format::LOWER + (Format::PLANES ? 0 : 1), Format::PLANES, all);
    if (has_forms<Format>() && rank_sparse(body, all, shared)) return true;
    if (!has_forms<Format>() && is_joint) is_wrong |= write_listed<Format, true>(block, body, rest, out, shared);
    else is_wrong |= write_listed<Format, false>(block, body, rest, out, shared);
    return add_planes(block, body, out, shared) || is_wrong;
}

// Reads the frames of a batch, after `rans_open_compact`. A block of 512 threads per block of values.
template <class Format> DEVICE void decode_rans_compact(const Frame* frames, u32 frame_count) {
    __shared__ RansCompactShared of_block;
    RansCompactShared* shared = &of_block;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 tile = blockIdx.x - frame->first_tile;
    u8* values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * Format::TILE);
    const u32 of_values =
        decode_compact_block<Format>(frame, tile, values, shared, [=](const Compact& block, const Body& body, Output<Format>* out) {
            if (block.entry.order == ORDER_RANS) return write_by_rans<Format>(block, body, out, shared);
            return write_block<Format>(block, body, out, shared);
        });
    if (warp_id() == 0) close_compact<Format>(frame, tile, compact_front_len(frame->tile_count), of_values);
}
