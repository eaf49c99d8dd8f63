// tiered, compact layout: what is left out, and where things are. Runs before the decoder: compares headers, and finds where bodies begin.
//
// A body has no known length: zeros are left out by groups and by masks, columns may have offsets, and byte planes of F32 have forms. What
// its entry does not say, a warp reads out of the bodies, one after the other. Frames lie where they lie, at any byte.

#define FORM_ZERO 2u
#define FORM_MASK 0x80u
#define COLUMNS_HEAD 8u
#define MIN_ROWS 64u      // that a frame with offsets of columns has
#define FORMS_LEN 16u     // of the byte planes of F32
#define PLANE_HEAD 24u    // in front of a plane in tiers: its symbols, and how many are in each tier
#define UNKNOWN_LEN (~0ull)

enum PlaneForm { PLANE_RAW = 0, PLANE_CONSTANT = 1, PLANE_SPARSE = 2, PLANE_SIGNED = 3, PLANE_TIERS = 4 };

DEVICE u32 four_bytes(const u8* from) { return eight_bytes(from, 4).x; }

// ---- Entries -----------------------------------------------------------------------------------------------------

// Entry of a compact block: `form` is its tag alone.
struct Compact {
    Entry entry;
    bool is_masked, has_columns;
    DEVICE Compact read(const u8* front, u32 tile) {
        const u8* from = front + HEADER_BYTES + 12 * (u64)tile;
        const uint2 words = eight_bytes(from);
        Compact block;
        block.entry = Entry::of(words.x, words.y, four_bytes(from + 8));
        block.is_masked = block.entry.form & FORM_MASK;
        block.has_columns = block.entry.form & FORM_COLUMNS;
        block.entry.form &= 15u;
        return block;
    }
    __device__ __forceinline__ bool is_coded() const { return entry.form != FORM_STORED && entry.form != FORM_ZERO; }
    // Whether groups may be left out.
    __device__ __forceinline__ bool has_groups() const { return entry.form == FORM_NIBBLES || entry.form == FORM_BYTES; }
    // The fault of an entry that no encoder writes, of a block of `count` values.
    __device__ __forceinline__ u32 fault(u32 count) const {
        const u32* counts = entry.counts;
        if (!is_coded()) {
            u32 all = entry.order | entry.base | counts[0] | counts[1] | counts[2] | counts[3] | counts[4];
            return all || is_masked || has_columns ? FAULT_TILE : FAULT_NONE;
        }
        bool fits = entry.form == FORM_ONE ? entry.order <= ORDER_HIGH : has_groups() && entry.order == 0;
        fits = fits && entry.base <= (entry.form == FORM_BYTES ? 0 : LAST_BASE) && counts[0] >= 1 && counts[0] <= count;
        fits = fits && (is_masked || has_groups() || counts[0] == count);
        for (u32 tier = 0; tier < 4; ++tier) fits = fits && counts[tier] >= counts[tier + 1];
        return fits ? FAULT_NONE : FAULT_TILE;
    }
    // Bytes behind the rest.
    __device__ __forceinline__ u32 later_len() const {
        return codes_len(entry.counts[1]) + codes_len(entry.counts[2]) + codes_len(entry.counts[3]) + round8(entry.counts[4]);
    }
};

// Where header and table end, filled up.
DEVICE u64 compact_front_len(u64 tiles) { return round_up(HEADER_BYTES + 12 * tiles, 8); }
// Bytes of the mask of `count` values.
DEVICE u32 mask_len(u32 count) { return (count + 63) / 64 * 8; }
// Bytes of the rest of `count` values, if its planes have no forms.
template <class Format> DEVICE u32 rest_len(u32 count) { return Format::head_len(count) - Format::first_len(count); }
// Whether byte planes have forms.
template <class Format> DEVICE bool has_forms() { return Format::LOWER == 2; }

// Base of a group, from its nibble or byte.
struct Base {
    u32 base;
    bool is_left_out, fits;
    DEVICE Base of(const Entry& entry, const u8* bases, u32 group) {
        Base of = {entry.base, false, true};
        if (entry.form == FORM_NIBBLES) {
            const u32 nibble = bases[group / 2] >> 4 * (group & 1) & 15u;
            of.is_left_out = nibble == 15;
            of.base = entry.base + nibble;
        } else if (entry.form == FORM_BYTES) {
            of.base = bases[group];
            of.is_left_out = of.base == 255;
        }
        of.fits = of.is_left_out || of.base <= LAST_BASE;
        return of;
    }
};

DEVICE u32 values_of_group(u32 count, u32 group) {
    const u32 first = GROUP * group;
    return first >= count ? 0 : count - first < GROUP ? count - first : GROUP;
}

// How many values of a block are in groups that are not left out; by one warp.
DEVICE u32 values_in_groups(const Entry& entry, const u8* bases, u32 count) {
    u32 sum = 0;
#pragma unroll 1
    for (u32 group = lane_id(); GROUP * group < count; group += 32)
        if (!Base::of(entry, bases, group).is_left_out) sum += values_of_group(count, group);
    return __reduce_add_sync(ALL, sum);
}

// ---- Byte planes of F32 ------------------------------------------------------------------------------------------

struct Plane {
    u32 form, byte, at; // `at` is where it begins in the rest
    u32 counts[5];      // in tiers; of a sparse one the first is how many bytes are not 0
};

// Reads the forms of the planes of `count` values from the front of a rest, which has no more bytes than `room`; returns the bytes of the
// rest, or 0 if no encoder writes such forms. By one thread.
DEVICE u32 read_planes(const u8* rest, u64 room, u32 count, Plane* planes) {
    if (room < FORMS_LEN || four_bytes(rest + 12) != 0) return 0;
    u32 end = FORMS_LEN;
#pragma unroll 1
    for (u32 number = 0; number < 3; ++number) {
        const u32 stated = four_bytes(rest + 4 * number), form = stated & 0xffu, byte = stated >> 8 & 0xffu, length = stated >> 16;
        Plane* plane = planes + number;
        plane->form = form;
        plane->byte = byte;
        plane->at = end;
        plane->counts[0] = length;
        if (form == PLANE_RAW && stated >> 8 == 0) {
            end += round8(count);
        } else if (form == PLANE_SPARSE && byte == 0) {
            end += mask_len(count) + round8(length);
        } else if (form == PLANE_SIGNED && number == 2 && length == 0 && (byte & 0x7fu) == 0) {
            end += 7 * mask_len(count);
        } else if (form == PLANE_TIERS && stated >> 8 == 0 && end + PLANE_HEAD <= room) {
            const uint2 numbers = eight_bytes(rest + end + 12);
            u32* counts = plane->counts;
            counts[0] = count;
            counts[1] = numbers.x & 0xffffu;
            counts[2] = numbers.x >> 16;
            counts[3] = numbers.y & 0xffffu;
            counts[4] = numbers.y >> 16;
            bool fits = four_bytes(rest + end + 20) == 0;
            end += PLANE_HEAD + round8(counts[4]);
            for (u32 tier = 0; tier < 4; ++tier) {
                fits = fits && counts[tier] >= counts[tier + 1];
                end += codes_len(counts[tier]);
            }
            if (!fits) return 0;
        } else if (form != PLANE_CONSTANT || length != 0) {
            return 0;
        }
    }
    return end;
}

// ---- Columns -----------------------------------------------------------------------------------------------------

// Data between front matter and bodies.
struct Ahead {
    u64 len; // in bytes
    u64 sum; // over its words, not folded; the first warp has it
    u32 fault;
};

// Reads the column offsets behind the front matter, of which `room` bytes are there; by 1024 threads. Without a way
// out in front of its loads: where the compiler meets one, it does not come to an end.
DEVICE Ahead read_columns(const u8* from, u64 room, u64 count, u64 first_word, u64* parts) {
    const uint2 head = eight_bytes(room < COLUMNS_HEAD ? from - COLUMNS_HEAD : from);
    const u32 row = head.x, form = head.y & 0xffu, lowest = head.y >> 8 & 0xffu;
    const u64 len = form == 0 ? ((u64)row + 1) / 2 : row, all = COLUMNS_HEAD + round_up(len, 8);
    const bool is_form = head.y >> 16 == 0 && form <= 1 && (form == 0 || lowest == 0);
    const bool fits = is_form && row >= 2 && (u64)row * MIN_ROWS <= count && all <= room;
    u64 sum = 0;
    u32 behind = 0;
#pragma unroll 1
    for (u64 word = threadIdx.x; fits && word < all / 8; word += blockDim.x) {
        const uint2 bytes = eight_bytes(from + 8 * word);
        sum += mix(word_of(bytes.x, bytes.y), key(~(first_word + word)));
        // What is behind the last offset.
        const u64 end = 8 * (word + 1), last = COLUMNS_HEAD + len;
        if (end > last) behind |= (u32)(word_of(bytes.x, bytes.y) >> (64 - 8 * (end - last)) != 0);
        if (end == all && form == 0 && row % 2 == 1) behind |= (u32)(word_of(bytes.x, bytes.y) >> (60 - 8 * (end - last))) & 15u;
    }
    sum = block_sum(sum, parts);
    const u32 fault = !fits ? FAULT_COLUMNS : __syncthreads_or(behind) ? FAULT_PADDING : FAULT_NONE;
    const Ahead ahead = {fits ? all : 0, sum, fault};
    return ahead;
}

// ---- Places ------------------------------------------------------------------------------------------------------

struct OpenShared {
    u32 totals[32];
    u64 parts[32];
    Plane planes[3];
    u32 fault; // for `delta`
};

// Bytes of the body of a block that begins at `body`, of which `room` are there; 0 if that is not enough, or its planes have forms that no
// encoder writes. By one warp.
template <class Format, class Bodies>
DEVICE u32 measure_body(const Compact& block, const u8* body, u64 room, u32 count, const Bodies& bodies, OpenShared* shared) {
    const Entry& entry = block.entry;
    u32 place = entry.bases_len(count);
    if (place > room) return 0;
    if (block.is_masked) place += mask_len(block.has_groups() ? values_in_groups(entry, body, count) : count);
    u32 rest = rest_len<Format>(entry.counts[0]);
    if (has_forms<Format>()) {
        const u32 at = place + Format::first_len(entry.counts[0]);
        if (lane_id() == 0) rest = at <= room ? read_planes(body + at, room - at, entry.counts[0], shared->planes) : 0;
        rest = __shfl_sync(ALL, rest, 0);
    }
    return rest ? place + bodies.len_behind(block, rest) : 0;
}

// Bodies of tiered, for `open_compact`; other codecs with such frames have their own.
struct TieredBodies {
    // Reads what is behind the offsets of columns, which begins at `from` with word `first_word`; `room` bytes are there. By 1024 threads.
    __device__ __forceinline__ void read_ahead(const u8*, u64, u64, Ahead*) const {}
    // The fault of an entry that no encoder writes, of a block of `count` values.
    __device__ __forceinline__ u32 fault(const Compact& block, u32 count) const { return block.fault(count); }
    // Bytes of rest and codes of a coded block, if the rest of its values has `rest`.
    __device__ __forceinline__ u32 len_behind(const Compact& block, u32 rest) const {
        return codes_len(block.entry.counts[0]) + rest + block.later_len();
    }
};

// A block of 1024 threads per frame.
template <class Format, class Bodies = TieredBodies>
DEVICE void open_compact(const Frame* frame, OpenShared* shared, const Bodies& bodies = Bodies()) {
    const u8* front = at<const u8>(frame->fixed);
    u64* lens = at<u64>(frame->tiles_state);
    const u64 front_len = compact_front_len(frame->tile_count), size = *at<const u64>(frame->size);
    const u64 room = size < frame->capacity ? size : frame->capacity;
    bool has_columns = false;
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < frame->tile_count; tile += blockDim.x)
        has_columns |= front[HEADER_BYTES + 12 * (u64)tile] & FORM_COLUMNS;
    Ahead ahead = {0, 0, FAULT_NONE};
    if (__syncthreads_or(has_columns) && room >= front_len)
        ahead = read_columns(front + front_len, room - front_len, frame->count, front_len / 8, shared->parts);
    const u64 behind = front_len + ahead.len;
    bodies.read_ahead(front + behind, room > behind ? room - behind : 0, behind / 8, &ahead);
    if (threadIdx.x == 0) {
        for (u64 i = HEADER_BYTES + 12 * (u64)frame->tile_count; i < front_len; ++i)
            if (front[i]) ahead.fault = FAULT_PADDING;
        open_state<Format, LAYOUT_COMPACT>(frame, front, fold(ahead.sum), ahead.fault, (front_len - HEADER_BYTES) / 8);
    }
    __syncthreads();
    bool has_unknown = false;
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < frame->tile_count; tile += blockDim.x) {
        const Compact block = Compact::read(front, tile);
        const u32 count = values_of_tile<Format>(frame->count, tile), fault = bodies.fault(block, count);
        const bool is_unknown = !fault && block.is_coded() && (has_forms<Format>() || (block.is_masked && block.has_groups()));
        const u32 mask = block.is_masked ? mask_len(count) : 0, coded = block.entry.counts[0];
        const u32 len = block.entry.bases_len(count) + mask + bodies.len_behind(block, rest_len<Format>(coded));
        if (fault) report(frame, fault);
        has_unknown |= is_unknown;
        lens[tile] = fault || block.entry.form == FORM_ZERO ? 0 : is_unknown ? UNKNOWN_LEN : block.is_coded() ? len : Format::WIDTH * count;
    }
    const u64 first = front_len + ahead.len;
    if (__syncthreads_or(has_unknown) && warp_id() == 0) {
        u64 place = first;
#pragma unroll 1
        for (u32 tile = 0; tile < frame->tile_count; ++tile) {
            u64 len = *(volatile u64*)(lens + tile);
            if (len == UNKNOWN_LEN) {
                const u32 count = values_of_tile<Format>(frame->count, tile);
                len = measure_body<Format>(Compact::read(front, tile), front + place, room > place ? room - place : 0, count, bodies, shared);
                if (lane_id() == 0) lens[tile] = len;
                if (len == 0) report(frame, FAULT_LENGTH);
            }
            place += len;
        }
    }
    __syncthreads();
    place_tiles(frame, first, shared->totals, [=](u32 tile) { return (u32)lens[tile]; }, [=](u32, u32 len) { return len; });
}
