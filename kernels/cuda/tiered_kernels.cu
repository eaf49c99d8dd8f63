// The kernels of tiered for one type: kernels/src/module.rs puts its name in the place of `Dtype` and `dtype`. Two blocks of threads are on a multiprocessor,
// or one of F32 that encodes or decodes `compact`: values of four bytes take more than 64 registers, and two blocks would put them into memory.

template <class Format> DEVICE void open_compact_frames(const Frame* frames) {
    __shared__ OpenShared shared;
    open_compact<Format>(frames + blockIdx.x, &shared);
}

// Reads the frames of a batch, after `open_compact_frames`. A block of 512 threads per block of values.
template <class Format> DEVICE void decode_compact_frames(const Frame* frames, u32 frame_count) {
    __shared__ CompactShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    if (state_of(frame)->refused) return;
    const u32 tile = blockIdx.x - frame->first_tile;
    u8* values = at<u8>(frame->values) + (u64)tile * (Format::WIDTH * Format::TILE);
    const u32 of_values = decode_compact_block<Format>(frame, tile, values, &shared);
    if (warp_id() == 0) close_compact<Format>(frame, tile, compact_front_len(frame->tile_count), of_values);
}

typedef Dtype OwnFormat;

extern "C" __global__ void __launch_bounds__(512, Dtype::WIDTH == 4 ? 1 : 2)
tiered_encode_dtype(const Frame* frames, u32 frame_count) { encode_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) tiered_seal_dtype(const Frame* frames) { seal_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_dtype(const Frame* frames) { open_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) tiered_decode_dtype(const Frame* frames, u32 frame_count) { decode_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_compact_dtype(const Frame* frames) { open_compact_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(512, Dtype::WIDTH == 4 ? 1 : 2)
tiered_decode_compact_dtype(const Frame* frames, u32 frame_count) { decode_compact_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(32) tiered_close_dtype(const Frame* frames) { close_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(32) tiered_close_compact_dtype(const Frame* frames) { close_frames<Dtype, LAYOUT_COMPACT>(frames); }
