// The kernels of window7. Three blocks of threads are on a multiprocessor, or four that decode BF16: lower halves take more than 64
// registers.

#ifdef DTYPE_BF16
extern "C" __global__ void __launch_bounds__(256, 3) window7_encode_bf16(const Frame* frames, u32 frame_count) {
    encode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256, 3) window7_encode_compact_bf16(const Frame* frames, u32 frame_count) {
    __shared__ CompactEncodeShared shared;
    const Frame* frame = frame_of(frames, frame_count, blockIdx.x);
    const u32 tile = blockIdx.x - frame->first_tile;
    encode_compact(frame, tile, values_of_tile<Bf16>(frame->count, tile), &shared);
}
extern "C" __global__ void __launch_bounds__(256) window7_seal_compact_bf16(const Frame* frames) {
    const Frame* frame = frames + blockIdx.y;
    seal_compact<Bf16>(frame, compact_front_end(frame->tile_count));
}
extern "C" __global__ void __launch_bounds__(256) window7_seal_bf16(const Frame* frames) { seal_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) window7_open_bf16(const Frame* frames) { open_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(256, 4) window7_decode_bf16(const Frame* frames, u32 frame_count) {
    decode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) window7_open_compact_bf16(const Frame* frames) { open_compact_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(256, 4) window7_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    decode_compact_frames<Bf16>(frames, frame_count);
}
#endif

#ifdef DTYPE_F32
extern "C" __global__ void __launch_bounds__(256, 3) window7_encode_f32(const Frame* frames, u32 frame_count) {
    encode_frames<F32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) window7_seal_f32(const Frame* frames) { seal_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(1024) window7_open_f32(const Frame* frames) { open_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(256, 3) window7_decode_f32(const Frame* frames, u32 frame_count) {
    decode_frames<F32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) window7_open_compact_f32(const Frame* frames) { open_compact_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(256, 3) window7_decode_compact_f32(const Frame* frames, u32 frame_count) {
    decode_compact_frames<F32>(frames, frame_count);
}
#endif
