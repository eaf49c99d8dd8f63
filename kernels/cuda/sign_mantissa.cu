// Signs and mantissas by themselves (format.md): frames of BF16 in the split layout, whose signs and mantissas, the *rests*, travel apart from them.
//
// Rests are taken out of values before anything is coded. Encoders and decoders know whole frames only: behind an encoder a kernel writes the
// static section without rests, the *bare* one, and in front of a decoder two put a frame together in memory of its own, because what was
// received may still be on its way to others. A block of 256 threads has a tile.

// What a frame is apart (kernels/src/sign_mantissa.rs has the same fields).
struct Apart {
    u64 rests;   // address of the rests, a multiple of 16
    u64 bare;    // address of the static section without them, a multiple of 128
    u64 dynamic; // decoders: address of the dynamic section that has come, a multiple of 16
};

DEVICE bool is_aligned(const void* pointer) { return ((size_t)pointer & 15) == 0; }

// Copies bytes, by all threads of a block.
DEVICE void move_bytes(u8* to, const u8* from, u64 len) {
    u64 moved = 0;
    if (is_aligned(to) && is_aligned(from)) {
        moved = len / 16 * 16;
#pragma unroll 4
        for (u64 i = threadIdx.x; i < len / 16; i += blockDim.x) __stcs((uint4*)to + i, __ldcs((const uint4*)from + i));
    }
#pragma unroll 1
    for (u64 i = moved + threadIdx.x; i < len; i += blockDim.x) to[i] = from[i];
}

// Copies the share that this tile has of `len` bytes, which begin at multiples of 16.
DEVICE void move_share(const Frame* frame, u32 tile, u8* to, const u8* from, u64 len) {
    const u64 share = round_up((len + frame->tile_count - 1) / frame->tile_count, 16), begin = tile * share;
    if (begin < len) move_bytes(to + begin, from + begin, len - begin < share ? len - begin : share);
}

// The bodies of a tile in the static sections.
template <class Format> struct Bodies {
    const Frame* frame;
    Apart parts;
    u32 tile, count, whole_len, bare_len;
    u8 *whole, *bare;

    DEVICE Bodies find(const Frame* frames, u32 frame_count, const Apart* all) {
        Bodies own;
        own.frame = frame_of(frames, frame_count, blockIdx.x);
        own.parts = all[own.frame - frames];
        own.tile = blockIdx.x - own.frame->first_tile;
        own.count = values_of_tile<Format>(own.frame->count, own.tile);
        own.whole_len = Format::static_body(own.count);
        own.bare_len = own.whole_len - own.count;
        const u64 front = front_len<Format>(own.frame->count), full = Format::static_body(Format::TILE);
        own.whole = at<u8>(own.frame->fixed) + front + own.tile * full;
        own.bare = at<u8>(own.parts.bare) + front + own.tile * (full - Format::TILE);
        return own;
    }
    // Front matter is in both static sections; `front` is where it is read.
    __device__ __forceinline__ const u8* entry(const u8* front) const { return front + Format::table_at() + (u64)tile * Format::ENTRY; }
    __device__ __forceinline__ const u8* rests() const { return at<const u8>(parts.rests) + (u64)tile * Format::TILE; }
    __device__ __forceinline__ u8* values() const { return at<u8>(frame->values) + (u64)tile * (2 * Format::TILE); }
};

// Where a tile's part of the dynamic section begins, for all threads of a block; `is_wrong` is whether a tile before has an entry that no encoder writes.
template <class Format> DEVICE u64 dynamic_before(const Frame* frame, const u8* front, u32 tile, u64* sums, bool* is_wrong) {
    u64 sum = 0;
    u32 fault = FAULT_NONE;
    bool needs_common = false;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < frame->tile_count; i += blockDim.x) {
        const u8* entry = front + Format::table_at() + (u64)i * Format::ENTRY;
        needs_common |= Format::needs_common(entry);
        if (i < tile) sum += Format::dynamic_len(entry, values_of_tile<Format>(frame->count, i), &fault);
    }
    sum = block_sum(sum, sums);
    if (threadIdx.x == 0) sums[0] = sum;
    *is_wrong = __syncthreads_or(fault != FAULT_NONE);
    return sums[0] + (__syncthreads_or(needs_common) ? Format::COMMON_LEN : 0u);
}

// Writes the rests of all values; the frames are described as if these were their static sections.
template <class Format> DEVICE void take_rests(const Frame* frames, u32 frame_count) {
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u64 first = (u64)(blockIdx.x - frame->first_tile) * Format::TILE;
    const u32 count = values_of_tile<Format>(frame->count, first / Format::TILE);
    const u16* values = at<const u16>(frame->values) + first;
    u8* rests = at<u8>(frame->fixed) + first;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < count / 8; i += blockDim.x) {
        const uint4 v = __ldcs((const uint4*)values + i);
        uint2 exponents, own;
        split_four(v.x, v.y, &exponents.x, &own.x);
        split_four(v.z, v.w, &exponents.y, &own.y);
        __stcs((uint2*)rests + i, own);
    }
    const u32 i = count / 8 * 8 + threadIdx.x;
    if (i < count) rests[i] = (u8)((values[i] >> 8 & 0x80) | (values[i] & 0x7f));
}

// Runs behind an encoder: writes static sections without rests, and exponents in place of the values of stored tiles.
template <class Format> DEVICE void strip_frames(const Frame* frames, u32 frame_count, const Apart* all) {
    __shared__ u64 sums[32];
    const Bodies<Format> own = Bodies<Format>::find(frames, frame_count, all);
    const Frame* frame = own.frame;
    const u8* front = at<const u8>(frame->fixed);
    move_share(frame, own.tile, at<u8>(own.parts.bare), front, front_len<Format>(frame->count));
    if (!Format::is_stored(own.entry(front))) {
        const u32 before = Format::rests_at(own.count);
        move_bytes(own.bare, own.whole, before);
        move_bytes(own.bare + before, own.whole + before + own.count, own.bare_len - before);
        return;
    }
    bool is_wrong;
    u8* tail = at<u8>(frame->dynamic) + dynamic_before<Format>(frame, front, own.tile, sums, &is_wrong);
    const u16* values = (const u16*)own.values();
#pragma unroll 1
    for (u32 i = threadIdx.x; i < own.count; i += blockDim.x)
        (i < own.bare_len ? own.bare + i : tail + (i - own.bare_len))[0] = (u8)(values[i] >> 7);
}

// Runs in front of a decoder: writes front matter, coded tiles and dynamic sections of whole frames. What is wrong with a frame, its decoder finds.
template <class Format> DEVICE void merge_frames(const Frame* frames, u32 frame_count, const Apart* all) {
    const Bodies<Format> own = Bodies<Format>::find(frames, frame_count, all);
    const Frame* frame = own.frame;
    const u8* front = at<const u8>(own.parts.bare);
    move_share(frame, own.tile, at<u8>(frame->fixed), front, front_len<Format>(frame->count));
    const u64 dynamic_len = *at<const u64>(frame->size);
    if (dynamic_len <= frame->capacity)
        move_share(frame, own.tile, at<u8>(frame->dynamic), at<const u8>(own.parts.dynamic), dynamic_len);
    // A tile that is too short for codes is stored, or wrong.
    if (Format::is_stored(own.entry(front)) || !Format::has_codes(own.count)) return;
    const u32 before = Format::rests_at(own.count);
    move_bytes(own.whole, own.bare, before);
    move_bytes(own.whole + before, own.rests(), own.count);
    move_bytes(own.whole + before + own.count, own.bare + before, own.bare_len - before);
}

// Runs behind `merge_frames`: puts the values of stored tiles together, where exponents were.
template <class Format> DEVICE void merge_stored(const Frame* frames, u32 frame_count, const Apart* all) {
    __shared__ u64 sums[32];
    const Bodies<Format> own = Bodies<Format>::find(frames, frame_count, all);
    const Frame* frame = own.frame;
    const u8* front = at<const u8>(own.parts.bare);
    if (!Format::is_stored(own.entry(front))) return;
    bool is_wrong;
    const u64 offset = dynamic_before<Format>(frame, front, own.tile, sums, &is_wrong);
    const u64 dynamic_len = *at<const u64>(frame->size);
    if (is_wrong || dynamic_len > frame->capacity || offset + (own.count - own.bare_len) > dynamic_len) return;
    const u8 *rests = own.rests(), *came = at<const u8>(own.parts.dynamic) + offset;
    u8* tail = at<u8>(frame->dynamic) + offset;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < 2 * own.count; i += blockDim.x) {
        const u32 rest = rests[i / 2], exponent = i / 2 < own.bare_len ? own.bare[i / 2] : came[i / 2 - own.bare_len];
        const u32 byte = i % 2 ? (rest & 0x80) | exponent >> 1 : exponent << 7 | (rest & 0x7f);
        (i < own.whole_len ? own.whole + i : tail + (i - own.whole_len))[0] = (u8)byte;
    }
}

extern "C" __global__ void __launch_bounds__(256) codec_rests_dtype(const Frame* frames, u32 frame_count) { take_rests<OwnFormat>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) codec_strip_dtype(const Frame* frames, u32 frame_count, const Apart* parts) {
    strip_frames<OwnFormat>(frames, frame_count, parts);
}
extern "C" __global__ void __launch_bounds__(256) codec_merge_dtype(const Frame* frames, u32 frame_count, const Apart* parts) {
    merge_frames<OwnFormat>(frames, frame_count, parts);
}
extern "C" __global__ void __launch_bounds__(256) codec_merge_stored_dtype(const Frame* frames, u32 frame_count, const Apart* parts) {
    merge_stored<OwnFormat>(frames, frame_count, parts);
}
