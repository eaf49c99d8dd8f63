// huffman (DFloat11, arXiv 2504.11651, section 2.3), BF16: exponents in words of one canonical Huffman code.
//
// A thread has 64 bits of the words, a block 256 threads, and the frame says where the first word of each thread and the
// first value of each block are (format.md, "huffman"). A launch has as many blocks as the frame has tiles of 8192 values; they
// share the blocks of the frame, whose number is known on the device only. A tile is also what the checksum folds at once.

#define TILE 8192u
#define BLOCK_THREADS 256u // Threads that a block of the frame has.
#define THREAD_BITS 64u
#define THREADS 288u // Those, and a warp that reads on where the next block begins.
#define WARPS 9u
#define LONGEST 32u
// Bits that one look into the table has.
#define LOOK 11u
#define ENTRIES (1u << LOOK)
// Where front matter has its fields.
#define THREADS_AT 32u
#define LENGTHS_AT 40u
#define FRONT_LEN 232u
// Values that a frame with words has at most: positions have 32 bits, rounded up to octets as well.
#define MOST_VALUES (ALL - 7)

struct Huffman {
    static const u32 CODEC = 9, DTYPE = 0;
};

// How words are read: two by a look into a table where they are short, and by the last word of each length where they are not
// (Moffat and Turpin, 1997). So its size is bounded whatever the code is, and every exponent can have a word.
struct Code {
    // By the next bits, in bytes from the lowest on: two symbols, the bits of the first word, those of both. Where the
    // second word is not in these bits, bytes 1 and 3 are 0, and all are where the first is not.
    u32 entries[ENTRIES];
    u32 ends[36];         // by length: the number behind the last word of this length
    u32 places[36];       // by length: what to add to a word for the place of its symbol
    u8 symbols[256];      // by length of word, then by number
};

// State beside State that the blocks of a frame share (kernels/src/module.rs has its size): behind it there is a
// pair of words for each tile.
struct Scratch {
    u64 index; // sum over the words of gaps and positions
    u64 unused;
    Code code;
};

DEVICE Scratch* scratch_of(const Frame* frame) { return at<Scratch>(frame->tiles_state); }
// Words of the tiles. A decoder has the sum over the values of each in front.
DEVICE u64* words_of_tiles(const Frame* frame) { return (u64*)(scratch_of(frame) + 1); }

// Where a frame has what is coded. In `compact`, static and dynamic section of a description are both the frame, which has front matter and rests at
// the same places as a static section in `split`, and behind them what is coded, at any byte.
struct SplitLayout {
    static const u32 TAG = LAYOUT_SPLIT;
    static const bool IS_ALIGNED = true;
    DEVICE u64 coded_at(u64) { return 0; }
};
struct CompactLayout {
    static const u32 TAG = LAYOUT_COMPACT;
    static const bool IS_ALIGNED = false;
    DEVICE u64 coded_at(u64 count) { return FRONT_LEN + count; }
};

// Four bytes from any place on, by the words of 32 bits that they are in.
DEVICE u32 unaligned_word(const u8* from) {
    const u32* words = (const u32*)((size_t)from & ~(size_t)3);
    const u32 shift = 8 * (u32)((size_t)from & 3);
    return shift ? __funnelshift_r(words[0], words[1], shift) : words[0];
}

template <class Layout> struct Coded {
    const u8* bytes;   // words, gaps and positions
    u32 threads;       // 0 if exponents are stored
    u32 blocks;

    DEVICE Coded of(const Frame* frame) {
        Coded coded = with_threads(at<const u32>(frame->fixed)[THREADS_AT / 4]);
        coded.bytes = at<const u8>(frame->dynamic) + Layout::coded_at(frame->count);
        return coded;
    }
    DEVICE Coded with_threads(u32 threads) {
        const Coded coded = {nullptr, threads, threads / BLOCK_THREADS + (threads % BLOCK_THREADS != 0)};
        return coded;
    }
    __device__ __forceinline__ u64 gaps_at() const { return 8 * (u64)threads; }
    __device__ __forceinline__ u64 positions_at() const { return gaps_at() + (5 * (u64)threads + 7) / 8; }
    __device__ __forceinline__ u64 len() const { return positions_at() + 4 * (u64)blocks; }
    // The four bytes from `place` on, a multiple of 4.
    __device__ __forceinline__ u32 word_at(u64 place) const {
        return Layout::IS_ALIGNED ? *(const u32*)(bytes + place) : unaligned_word(bytes + place);
    }
    // The 64 bits of a thread.
    __device__ __forceinline__ uint2 thread_at(u32 thread) const {
        if (Layout::IS_ALIGNED) return ((const uint2*)bytes)[thread];
        return make_uint2(word_at(8 * (u64)thread), word_at(8 * (u64)thread + 4));
    }
    // Words of gaps and positions, and what one of them adds to the checksum.
    __device__ __forceinline__ u64 index_words() const { return (len() - gaps_at() + 7) / 8; }
    __device__ __forceinline__ u64 mix_index(u64 word) const {
        const u64 place = gaps_at() + 8 * word, left = len() - place;
        // Of the last word nothing is read but what is there: the eight bytes that end with it, more than which are coded.
        const u8* from = bytes + (left < 8 ? len() - 8 : place);
        const u64 value = word_of(unaligned_word(from), unaligned_word(from + 4)) >> (left < 8 ? 64 - 8 * left : 0);
        return mix(value, key(~(FRONT_LEN / 8 + word)));
    }
};

// The sum over the front matter behind the header, by one warp.
DEVICE u64 sum_front(const u64* fixed) {
    const u64 word = HEADER_BYTES / 8 + lane_id();
    return warp_sum(word < FRONT_LEN / 8 ? mix(fixed[word], key(~word)) : 0ull);
}

// The number of bits of the word of an exponent.
DEVICE u32 length_of(const u8* fixed, u32 exponent) {
    const u8* from = fixed + LENGTHS_AT + 6 * exponent / 8;
    // The last lengths of three bytes end with a byte: behind it there is a byte of the first value, which is not looked at.
    return (from[0] | (u32)from[1] << 8) >> (6 * exponent % 8) & 63u;
}

// The symbol of the word that bits begin with, and the length of the word above it, which is `least` or more; 0 if it is more than `most`.
DEVICE u32 find_word(const Code* code, u32 bits, u32 least, u32 most) {
    const u32 word = __brev(bits);
    u32 length = least;
#pragma unroll 1
    while (length <= most && length < LONGEST && word >> (32 - length) >= code->ends[length]) ++length;
    if (length > most) return 0;
    const u32 place = (word >> (32 - length)) + code->places[length];
    return length << 8 | code->symbols[place & 0xffu];
}
