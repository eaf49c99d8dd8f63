// The kernels of tiered.

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

#ifdef DTYPE_BF16
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_bf16(const Frame* frames, u32 frame_count) {
    encode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_bf16(const Frame* frames) { seal_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_bf16(const Frame* frames) { open_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_bf16(const Frame* frames, u32 frame_count) {
    decode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) tiered_open_compact_bf16(const Frame* frames) { open_compact_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    decode_compact_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_compact_bf16(const Frame* frames, u32 frame_count) {
    encode_compact_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_compact_bf16(const Frame* frames) { seal_compact_frames<Bf16>(frames); }
#endif

#ifdef DTYPE_F16
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_f16(const Frame* frames, u32 frame_count) {
    encode_frames<F16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_f16(const Frame* frames) { seal_frames<F16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_f16(const Frame* frames) { open_frames<F16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_f16(const Frame* frames, u32 frame_count) {
    decode_frames<F16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) tiered_open_compact_f16(const Frame* frames) { open_compact_frames<F16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_compact_f16(const Frame* frames, u32 frame_count) {
    decode_compact_frames<F16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_compact_f16(const Frame* frames, u32 frame_count) {
    encode_compact_frames<F16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_compact_f16(const Frame* frames) { seal_compact_frames<F16>(frames); }
#endif

#ifdef DTYPE_F32
// One block of threads for a multiprocessor: values of four bytes take more than 64 registers, and two blocks would put them into memory.
extern "C" __global__ void __launch_bounds__(512, 1)
tiered_encode_f32(const Frame* frames, u32 frame_count) {
    encode_frames<F32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_f32(const Frame* frames) { seal_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_f32(const Frame* frames) { open_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_f32(const Frame* frames, u32 frame_count) {
    decode_frames<F32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) tiered_open_compact_f32(const Frame* frames) { open_compact_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(512, 1)
tiered_decode_compact_f32(const Frame* frames, u32 frame_count) {
    decode_compact_frames<F32>(frames, frame_count);
}
#endif

#ifdef DTYPE_E4M3
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_e4m3(const Frame* frames, u32 frame_count) {
    encode_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_e4m3(const Frame* frames) { seal_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_e4m3(const Frame* frames) { open_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_e4m3(const Frame* frames, u32 frame_count) {
    decode_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) tiered_open_compact_e4m3(const Frame* frames) { open_compact_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_compact_e4m3(const Frame* frames, u32 frame_count) {
    decode_compact_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_compact_e4m3(const Frame* frames, u32 frame_count) {
    encode_compact_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_compact_e4m3(const Frame* frames) { seal_compact_frames<E4m3>(frames); }
#endif

#ifdef DTYPE_E5M2
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_e5m2(const Frame* frames, u32 frame_count) {
    encode_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_e5m2(const Frame* frames) { seal_frames<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_e5m2(const Frame* frames) { open_frames<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_e5m2(const Frame* frames, u32 frame_count) {
    decode_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) tiered_open_compact_e5m2(const Frame* frames) { open_compact_frames<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_compact_e5m2(const Frame* frames, u32 frame_count) {
    decode_compact_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_compact_e5m2(const Frame* frames, u32 frame_count) {
    encode_compact_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) tiered_seal_compact_e5m2(const Frame* frames) { seal_compact_frames<E5m2>(frames); }
#endif
