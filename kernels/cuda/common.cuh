// Common code of all codecs: frames as kernels see them, checksums, prefix sums over the tiles of a frame, header and front
// matter. docs/format.md specifies every byte.
//
// One portable subset of CUDA C++ without includes: NVRTC compiles it, and so does a C++ compiler for the tests without
// a GPU. A codec's file follows this one in the same translation unit.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ALL 0xffffffffu

// Whether decoders compare checksums. Without it they are for measuring only.
#ifdef UNCHECKED
#define CHECKED false
#else
#define CHECKED true
#endif
#define DEVICE static __device__ __forceinline__

// A frame to write or to read, as the host describes it (kernels/src/batch.rs has the same fields).
struct Frame {
    u64 values;      // address of the values, a multiple of 16
    u64 count;       // values
    u64 fixed;       // address of the static section, a multiple of 128
    u64 dynamic;     // address of the dynamic section, a multiple of 16
    u64 capacity;    // bytes of room in the dynamic section
    u64 size;        // address of the length of the dynamic section in bytes, a u64
    u64 tiles_state; // address of a u64 for each tile
    u64 state;       // address of the frame's State
    u64 work;        // address of room that an encoder has for each tile, at a multiple of 16; 0 if there is none
    u32 first_tile;  // tiles of the frames before this one in the batch
    u32 tile_count;
};

// State that the blocks of a frame share. Encoders find it all zero and leave it so, but for the hint.
struct State {
    u64 front;    // sum over the words of the front matter behind the header
    u32 values;   // checksum of the values
    u32 done;     // blocks that have ended
    u32 hint;     // what the last tile chose, plus one; a guess only: no byte depends on it
    u32 status;   // decoders: the first fault, 0 if there is none
    u32 refused;  // decoders: whether there was a fault before the first tile
    u32 share;    // decoders: words of the front matter that each tile looks at
    u32 ticket;   // in the variant `tickets`, of the first frame: the next number of a block of an encoder
    u32 unused;
};

// Why a frame is refused (kernels/src/error.rs has the same numbers).
enum Fault {
    FAULT_NONE = 0,
    FAULT_HEADER = 1,   // not the header of such a frame
    FAULT_LENGTH = 2,   // the dynamic section has another length than the tiles say
    FAULT_TILE = 3,     // an entry of the tile table that no encoder writes
    FAULT_CODES = 4,    // codes that contradict what is known about them
    FAULT_PADDING = 5,  // padding that is not zero
    FAULT_CHECKSUM = 6, // a wrong checksum
    FAULT_COLUMNS = 7,  // columns have offsets, which these kernels do not know in `split`, or such as no encoder writes
    FAULT_BOOK = 8,     // a code book that does not ascend, or has exponents that the type does not
    FAULT_LENGTHS = 9,    // lengths of words that are those of no complete code
    FAULT_POSITIONS = 10, // positions of blocks that do not ascend, or pass the last value
    FAULT_WORDS = 11,     // words that do not end where the next ones begin
    FAULT_FREQUENCIES = 12, // frequencies of symbols that are those of no table
};

#define MAGIC 0x5257505au
#define VERSION 1u
#define HEADER_BYTES 32u
#define LAYOUT_SPLIT 0u
#define LAYOUT_COMPACT 1u
#define ALIGN 128u

// The pointer to an address in device memory. The compiler does not know what an integer points to; told so, it need not
// look at every access.
template <class T> DEVICE T* at(u64 address) { return (T*)__cvta_global_to_generic((size_t)address); }

// The address in device memory that a pointer to it has.
DEVICE u64 address_of(const void* pointer) { return __cvta_generic_to_global(pointer); }

// ---- Arithmetic -------------------------------------------------------------------------------------------------

// Bits of `a` where `mask` is set, of `b` elsewhere.
DEVICE u32 merge(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }

DEVICE u64 round_up(u64 value, u64 multiple) { return (value + multiple - 1) / multiple * multiple; }

// Eight bytes from any place on, of which the first `count`, at least one, are read; what is behind these is anything. Nothing is read but
// words of 32 bits in which there are some of them.
DEVICE uint2 eight_bytes(const u8* from, u32 count = 8) {
    const u32* words = (const u32*)((size_t)from & ~(size_t)3);
    const u32 skipped = (u32)((size_t)from & 3), last = (skipped + count - 1) / 4;
    const u32 first = words[0], second = words[last < 1 ? last : 1], third = words[last];
    return make_uint2(__funnelshift_r(first, second, 8 * skipped), __funnelshift_r(second, third, 8 * skipped));
}

// Four BF16 values from their exponents and from their signs and mantissas.
DEVICE void join_four(u32 exponents, u32 rests, u32* first, u32* second) {
    const u32 low = merge(0x80808080u, exponents << 7, rests), high = merge(0x80808080u, rests, exponents >> 1);
    *first = __byte_perm(low, high, 0x5140);
    *second = __byte_perm(low, high, 0x7362);
}

DEVICE u32 lane_id() { return threadIdx.x & 31u; }
DEVICE u32 warp_id() { return threadIdx.x >> 5; }

DEVICE u64 warp_sum(u64 value) {
#pragma unroll
    for (u32 step = 16; step; step >>= 1) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// Sum of `value` over the lanes before this one; `total` over all.
DEVICE u32 warp_scan(u32 value, u32* total) {
    u32 sum = value;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 other = __shfl_up_sync(ALL, sum, step);
        if (lane_id() >= step) sum += other;
    }
    *total = __shfl_sync(ALL, sum, 31);
    return sum - value;
}

// ---- Checksum (format.md, "Checksum") ----------------------------------------------------------------------------

#define KEY_STEP 0x9e3779b97f4a7c15ull

DEVICE u64 key(u64 index) { return (index + 1) * KEY_STEP; }

DEVICE u64 mix(u64 word, u64 key) {
    const u64 x = word ^ key;
    const u64 product = (u64)(u32)x * (u32)(x >> 32) + x;
    return product ^ product >> 29;
}

DEVICE u32 fold(u64 sum) { return (u32)sum ^ (u32)(sum >> 32); }

DEVICE u64 word_of(u32 low, u32 high) { return (u64)high << 32 | low; }

// The two words of 16 bytes, the first of which has the key `first`.
DEVICE u64 mix_two(uint4 bytes, u64 first) {
    return mix(word_of(bytes.x, bytes.y), first) + mix(word_of(bytes.z, bytes.w), first + KEY_STEP);
}

// ---- Frames of a batch -------------------------------------------------------------------------------------------

// The frame that tile `tile` of the batch belongs to: the last one that begins at or before it.
DEVICE const Frame* frame_of(const Frame* frames, u32 frame_count, u32 tile) {
    u32 low = 0, high = frame_count;
#pragma unroll 1
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (frames[middle].first_tile <= tile) low = middle;
        else high = middle;
    }
    return frames + low;
}

DEVICE State* state_of(const Frame* frame) { return at<State>(frame->state); }

// Keeps the first fault of a frame.
DEVICE void report(const Frame* frame, u32 fault) { atomicCAS(&state_of(frame)->status, 0u, fault); }

// Whether there was a fault before the first tile, for a warp that has loads of its own under way. A compiler would move these behind the branch,
// where they would wait for what decides it.
DEVICE bool is_refused_beside_loads(const Frame* frame) {
    const bool is_refused = state_of(frame)->refused != 0;
    __syncwarp();
    return is_refused;
}

// ---- Prefix sums over tiles: decoupled look-back (Merrill and Garland, 2016) -----------------------------------------
//
// A tile publishes its own length, then the sum of all up to it. It waits for tiles before it only, whose blocks have
// started before its own: blocks start in the order of their numbers, which CUDA does not promise, or take numbers in the order in which they
// start.

#ifdef TICKETS
__shared__ u32 own_ticket;
// The number of this block; to be called once, by all threads. A barrier is inside.
DEVICE u32 take_number(const Frame* frames) {
    if (threadIdx.x == 0) own_ticket = atomicAdd(&state_of(frames)->ticket, 1u);
    __syncthreads();
    return own_ticket;
}
DEVICE u32 own_number() { return own_ticket; }
#else
DEVICE u32 take_number(const Frame*) { return blockIdx.x; }
DEVICE u32 own_number() { return blockIdx.x; }
#endif

#define PUBLISHED_OWN (1ull << 62)
#define PUBLISHED_SUM (2ull << 62)
#define PUBLISHED_VALUE ((1ull << 62) - 1)

// Publishes a word, which says all by itself, so nothing else has to be visible before it. An exchange: encoders are up to 1.32 times as fast
// as with a store, of any scope (measured on an H100, docs/benchmarks/gpu.md).
DEVICE void publish(u64* slot, u64 value) { atomicExch(slot, value); }

// Publishes the own length of tile `tile` of a frame, by one thread.
DEVICE void publish_length(u64* slots, u32 tile, u64 length) {
    publish(slots + tile, (tile ? PUBLISHED_OWN : PUBLISHED_SUM) | length);
}

// To be called by one warp, after `publish_length`: publishes the sum and returns that over the tiles before.
DEVICE u64 sum_before(u64* slots, u32 tile, u64 length) {
    const u32 lane = lane_id();
    u64 before = 0;
#pragma unroll 1
    for (long long last = (long long)tile - 1; last >= 0; last -= 32) {
        const long long place = last - (long long)lane;
        u64 found = PUBLISHED_SUM;
        do {
            if (place >= 0) found = *(volatile u64*)(slots + place);
            if (found >> 62 == 0) __nanosleep(20);
        } while (__any_sync(ALL, found >> 62 == 0));
        // The nearest tile that knows its sum ends the search; nearer ones add what is their own.
        const u32 sums = __ballot_sync(ALL, found >> 62 == 2);
        const u32 nearest = sums ? (u32)__ffs((int)sums) - 1 : 31u;
        before += warp_sum(lane <= nearest ? found & PUBLISHED_VALUE : 0ull);
        if (sums) break;
    }
    if (lane == 0 && tile) publish(slots + tile, PUBLISHED_SUM | (before + length));
    return before;
}

// To be called by one warp: publishes `length` for tile `tile` of a frame and returns the sum over the tiles before it.
DEVICE u64 look_back(u64* slots, u32 tile, u64 length) {
    if (lane_id() == 0) publish_length(slots, tile, length);
    return sum_before(slots, tile, length);
}

// ---- Sums of a block ---------------------------------------------------------------------------------------------

// Adds a 64-bit sum over all threads of a block: `parts` has room for one number per warp. The first warp has the result, or 0 if it is not
// NEEDED. A barrier is inside.
template <bool NEEDED = true> DEVICE u64 block_sum(u64 value, u64* parts) {
    if (!NEEDED) {
        __syncthreads();
        return 0;
    }
    value = warp_sum(value);
    __syncthreads();
    if (lane_id() == 0) parts[warp_id()] = value;
    __syncthreads();
    if (warp_id() != 0) return 0;
    return warp_sum(lane_id() < blockDim.x / 32 ? parts[lane_id()] : 0ull);
}

// Whether this is the last of `blocks` blocks of a frame to come here; for one thread of each. What these threads added
// before is then visible.
DEVICE bool is_last_block(State* state, u32 blocks) {
    __threadfence();
    const bool is_last = atomicAdd(&state->done, 1u) == blocks - 1;
    __threadfence();
    return is_last;
}

// ---- Header and front matter -------------------------------------------------------------------------------------
//
// `Format` is a codec with a type:
//   TILE, ENTRY           values of a tile, bytes of its entry
//   CODEC, DTYPE, WIDTH   tags of the header, bytes of a value
//   table_at()            where the table begins
//   front_end(count)      where front matter ends and padding begins
//   dynamic_len(entry, m, &fault)  bytes of the dynamic section that a tile of `m` values has

template <class Format> DEVICE u64 front_len(u64 count) { return round_up(Format::front_end(count), ALIGN); }

template <class Format> DEVICE u32 values_of_tile(u64 count, u64 tile) {
    const u64 left = count - tile * Format::TILE;
    return left < Format::TILE ? (u32)left : (u32)Format::TILE;
}

// The four words of a header.
template <class Format, u32 LAYOUT = LAYOUT_SPLIT> DEVICE u64 header_word(u32 word, u64 count, u64 dynamic_len, u32 checksum) {
    if (word == 0) {
        const u32 tags = VERSION | Format::CODEC << 8 | Format::DTYPE << 16 | LAYOUT << 24;
        return word_of(MAGIC, tags);
    }
    return word == 1 ? count : word == 2 ? dynamic_len : (u64)checksum;
}

// The part of the checksum that the header has.
template <class Format, u32 LAYOUT = LAYOUT_SPLIT> DEVICE u32 header_sum(u64 count, u64 dynamic_len) {
    u64 sum = 0;
#pragma unroll 1
    for (u32 word = 0; word < 4; ++word) sum += mix(header_word<Format, LAYOUT>(word, count, dynamic_len, 0), key(~(u64)word));
    return fold(sum);
}

// Runs after an encoder: padding, checksum and header of each frame. A grid of (any, frames) blocks.
template <class Format> DEVICE void seal_frames(const Frame* frames) {
    __shared__ u64 parts[32];
    const Frame* frame = frames + blockIdx.y;
    State* state = state_of(frame);
    u8* fixed = at<u8>(frame->fixed);
    const u64 end = Format::front_end(frame->count), words = front_len<Format>(frame->count) / 8;
    const u64 stride = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 sum = 0;
#pragma unroll 1
    for (u64 word = HEADER_BYTES / 8 + thread; word < words; word += stride) {
        u64 value = 0;
        if (8 * word < end) value = ((const u64*)fixed)[word];
        if (8 * (word + 1) > end) {
            const u32 live = 8 * word < end ? (u32)(end - 8 * word) : 0u;
            if (live) value &= (1ull << 8 * live) - 1;
            ((u64*)fixed)[word] = value;
        }
        sum += mix(value, key(~word));
    }
#pragma unroll 1
    for (u64 tile = thread; tile < frame->tile_count; tile += stride) at<u64>(frame->tiles_state)[tile] = 0;
    sum = block_sum(sum, parts);
    if (threadIdx.x != 0) return;
    atomicAdd(&state->front, sum);
    if (is_last_block(state, gridDim.x)) {
        const u64 dynamic_len = *at<const u64>(frame->size);
        const u64 front = *(volatile u64*)&state->front;
        const u32 values = *(volatile u32*)&state->values;
        const u32 checksum = values + fold(front) + header_sum<Format>(frame->count, dynamic_len);
        for (u32 word = 0; word < 4; ++word)
            ((u64*)fixed)[word] = header_word<Format>(word, frame->count, dynamic_len, checksum);
        state->front = 0;
        state->values = 0;
        state->done = 0;
        state->ticket = 0;
    }
}

// A word of the front matter. Frames in the layout compact begin at any byte.
template <u32 LAYOUT> DEVICE u64 front_word(const u8* front, u64 word) {
    if (LAYOUT == LAYOUT_SPLIT) return ((const u64*)front)[word];
    const uint2 bytes = eight_bytes(front + 8 * word);
    return word_of(bytes.x, bytes.y);
}

// Front of the dynamic section, which all tiles of a frame need.
struct Common {
    u64 len;   // in bytes
    u32 sum;   // its part of the checksum
    u32 fault; // what is wrong with it
};

// Makes the state of a frame ready for its decoder, and compares the header. `values` is the part of the checksum over values that is known
// already, `words` how many of front matter the blocks share. By one thread.
template <class Format, u32 LAYOUT = LAYOUT_SPLIT>
DEVICE void open_state(const Frame* frame, const u8* front, u32 values, u32 fault, u64 words) {
    State* state = state_of(frame);
    const u64 dynamic_len = *at<const u64>(frame->size);
    state->front = 0;
    state->values = values;
    state->done = 0;
    if (dynamic_len > frame->capacity) fault = FAULT_LENGTH;
    for (u32 word = 0; word < 3; ++word)
        if (front_word<LAYOUT>(front, word) != header_word<Format, LAYOUT>(word, frame->count, dynamic_len, 0)) fault = FAULT_HEADER;
    if (front_word<LAYOUT>(front, 3) >> 32 != 0) fault = FAULT_HEADER; // The id of a table.
    state->status = fault;
    state->share = (u32)((words + frame->tile_count - 1) / frame->tile_count);
}

// Tiles of a thread that are placed at once: what it reads of them is on its way together.
#define PLACED_AT_ONCE 8u

// An entry of a tile as it is in a table that begins at a multiple of two bytes, or of four if entries are such multiples.
template <u32 LEN> struct Raw {
    u32 words[(LEN + 3) / 4];
    DEVICE Raw read(const u8* from) {
        Raw raw = Raw();
#pragma unroll
        for (u32 i = 0; LEN % 4 == 0 && i < LEN / 4; ++i) raw.words[i] = ((const u32*)from)[i];
#pragma unroll
        for (u32 i = 0; LEN % 4 != 0 && i < LEN / 2; ++i) raw.words[i / 2] |= (u32)((const u16*)from)[i] << 16 * (i & 1);
        return raw;
    }
};

// Sums of what tiles have before them: `before` and lengths, which `len_of` gives of what `read` has loaded; returns the sum over all. By 1024
// threads, each of which has AT_ONCE tiles in a row: half as many where what is loaded of a tile takes four registers.
template <class Read, class LenOf>
DEVICE u64 scan_tiles(u64* offsets, u32 tile_count, u64 before, u32* totals, const Read& read, const LenOf& len_of) {
    const u32 AT_ONCE = sizeof(decltype(read(0u))) > 12 ? PLACED_AT_ONCE / 2 : PLACED_AT_ONCE;
#pragma unroll 1
    for (u32 first = 0; first < tile_count; first += AT_ONCE * blockDim.x) {
        const u32 tile = first + AT_ONCE * threadIdx.x;
        decltype(read(tile)) found[AT_ONCE];
        u32 lens[AT_ONCE], sum = 0;
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) found[i] = read(tile + i < tile_count ? tile + i : tile_count - 1);
        // Keeps loads in front of branches.
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            lens[i] = tile + i < tile_count ? len_of(tile + i, found[i]) : 0;
            sum += lens[i];
        }
        u32 total;
        const u32 in_warp = warp_scan(sum, &total);
        if (lane_id() == 31) totals[warp_id()] = total;
        __syncthreads();
        u32 all;
        const u32 of_warps = warp_scan(lane_id() < blockDim.x / 32 ? totals[lane_id()] : 0u, &all);
        u64 offset = before + in_warp + __shfl_sync(ALL, of_warps, warp_id());
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            if (tile + i < tile_count) offsets[tile + i] = offset;
            offset += lens[i];
        }
        before += all;
        __syncthreads();
    }
    return before;
}

// Finds where each tile's part of the dynamic section begins: `before`, and the lengths of the tiles before, which `len_of` gives of what `read`
// has loaded, and reports what is wrong with. Ends the opening of a frame. By 1024 threads.
template <class Read, class LenOf> DEVICE void place_tiles(const Frame* frame, u64 before, u32* totals, const Read& read, const LenOf& len_of) {
    const u64 end = scan_tiles(at<u64>(frame->tiles_state), frame->tile_count, before, totals, read, len_of);
    if (threadIdx.x == 0) {
        State* state = state_of(frame);
        if (end != *at<const u64>(frame->size)) report(frame, FAULT_LENGTH);
        state->refused = *(volatile u32*)&state->status;
    }
}

// Runs before a decoder: compares the header, and finds where each tile's part of the dynamic section begins. A block of
// 1024 threads per frame.
template <class Format> DEVICE void open_frames(const Frame* frames, Common common = Common()) {
    __shared__ u32 totals[32];
    const Frame* frame = frames + blockIdx.x;
    const u8* fixed = at<const u8>(frame->fixed);
    if (threadIdx.x == 0)
        open_state<Format>(frame, fixed, common.sum, common.fault, front_len<Format>(frame->count) / 8 - HEADER_BYTES / 8);
    __syncthreads();
    typedef Raw<Format::ENTRY> Entry;
    const u8* table = fixed + Format::table_at();
    const u64 count = frame->count;
    const auto read = [=](u32 tile) { return Entry::read(table + (u64)tile * Format::ENTRY); };
    place_tiles(frame, common.len, totals, read, [=](u32 tile, const Entry& entry) {
        u32 fault = FAULT_NONE;
        const u32 len = Format::dynamic_len((const u8*)entry.words, values_of_tile<Format>(count, tile), &fault);
        if (fault) report(frame, fault);
        return len;
    });
}

// Compares the checksum of a frame with what its blocks have summed, and `more`; by one thread.
template <class Format, u32 LAYOUT> DEVICE void compare_sums(const Frame* frame, u32 more = 0) {
    const State* state = state_of(frame);
    const u64 dynamic_len = *at<const u64>(frame->size);
    const u64 of_front = *(const volatile u64*)&state->front;
    const u32 of_values = *(const volatile u32*)&state->values;
    const u32 checksum = of_values + fold(of_front) + more + header_sum<Format, LAYOUT>(frame->count, dynamic_len);
    if (checksum != (u32)front_word<LAYOUT>(at<const u8>(frame->fixed), 3)) report(frame, FAULT_CHECKSUM);
}

// Runs after a decoder whose blocks fold what they sum. A block of threads per frame: a grid of (1, frames).
template <class Format, u32 LAYOUT = LAYOUT_SPLIT> DEVICE void close_frames(const Frame* frames) {
    if (threadIdx.x == 0) compare_sums<Format, LAYOUT>(frames + blockIdx.y);
}

// Adds a block's share of the front matter's checksum, which its first warp has summed, and the sum over its values, folded.
template <class Format, u32 LAYOUT = LAYOUT_SPLIT> DEVICE void close_share(const Frame* frame, u64 sum, u32 values) {
    State* state = state_of(frame);
    sum = warp_sum(sum);
    if (lane_id() != 0) return;
    atomicAdd(&state->front, sum);
    atomicAdd(&state->values, values);
}

// Work of the first warp of every decoding block besides its tile: the tile's share of the front matter's checksum.
// `values` is the sum over this block's values, folded.
template <class Format> DEVICE void close_tile(const Frame* frame, u32 tile, u32 values) {
    if (!CHECKED) return;
    State* state = state_of(frame);
    const u8* fixed = at<const u8>(frame->fixed);
    const u64 end = Format::front_end(frame->count), all = front_len<Format>(frame->count) / 8;
    const u64 from = HEADER_BYTES / 8 + (u64)tile * state->share, to = from + state->share < all ? from + state->share : all;
    u64 sum = 0;
#pragma unroll 1
    for (u64 word = from + lane_id(); word < to; word += 32) {
        const u64 value = ((const u64*)fixed)[word];
        const u64 live = 8 * word >= end ? 0 : end - 8 * word;
        if (live < 8 && value >> 8 * live != 0) report(frame, FAULT_PADDING);
        sum += mix(value, key(~word));
    }
    close_share<Format>(frame, sum, values);
}

// The same of a compact frame, whose front matter ends at byte `end` without padding.
template <class Format> DEVICE void close_compact(const Frame* frame, u32 tile, u64 end, u32 values) {
    if (!CHECKED) return;
    const u32 share = state_of(frame)->share;
    const u8* front = at<const u8>(frame->fixed);
    const u64 all = (end + 7) / 8, from = HEADER_BYTES / 8 + (u64)tile * share, to = from + share < all ? from + share : all;
    u64 sum = 0;
#pragma unroll 1
    for (u64 word = from + lane_id(); word < to; word += 32) {
        const u32 live = end - 8 * word < 8 ? (u32)(end - 8 * word) : 8u;
        const uint2 bytes = eight_bytes(front + 8 * word, live);
        sum += mix(word_of(bytes.x, bytes.y) << (64 - 8 * live) >> (64 - 8 * live), key(~word));
    }
    close_share<Format, LAYOUT_COMPACT>(frame, sum, values);
}

// Exponents of four values of BF16, and signs and mantissas.
DEVICE void split_four(u32 first, u32 second, u32* exponents, u32* rests) {
    const u32 low = __byte_perm(first, second, 0x6420), high = __byte_perm(first, second, 0x7531);
    *rests = merge(0x80808080u, high, low);
    *exponents = merge(0xfefefefeu, high << 1, low >> 7);
}
