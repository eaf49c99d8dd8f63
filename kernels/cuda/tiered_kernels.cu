// The kernels of tiered that encode and decode.

// Writes the frames of a batch, but for what `tiered_seal` adds. A block of 512 threads per block of values.
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_bf16(const Frame* frames, u32 frame_count) {
    encode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_f16(const Frame* frames, u32 frame_count) {
    encode_frames<F16>(frames, frame_count);
}
// One block of threads for a multiprocessor: values of four bytes take more than 64 registers, and two blocks would put them into memory.
extern "C" __global__ void __launch_bounds__(512, 1)
tiered_encode_f32(const Frame* frames, u32 frame_count) {
    encode_frames<F32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_e4m3(const Frame* frames, u32 frame_count) {
    encode_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_encode_e5m2(const Frame* frames, u32 frame_count) {
    encode_frames<E5m2>(frames, frame_count);
}

extern "C" __global__ void __launch_bounds__(256) tiered_seal_bf16(const Frame* frames) { seal_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(256) tiered_seal_f16(const Frame* frames) { seal_frames<F16>(frames); }
extern "C" __global__ void __launch_bounds__(256) tiered_seal_f32(const Frame* frames) { seal_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(256) tiered_seal_e4m3(const Frame* frames) { seal_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(256) tiered_seal_e5m2(const Frame* frames) { seal_frames<E5m2>(frames); }

extern "C" __global__ void __launch_bounds__(1024) tiered_open_bf16(const Frame* frames) { open_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_f16(const Frame* frames) { open_frames<F16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_f32(const Frame* frames) { open_frames<F32>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_e4m3(const Frame* frames) { open_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(1024) tiered_open_e5m2(const Frame* frames) { open_frames<E5m2>(frames); }

// Reads the frames of a batch, after `tiered_open`. A block of 512 threads per block of values.
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_bf16(const Frame* frames, u32 frame_count) {
    decode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_f16(const Frame* frames, u32 frame_count) {
    decode_frames<F16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_f32(const Frame* frames, u32 frame_count) {
    decode_frames<F32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_e4m3(const Frame* frames, u32 frame_count) {
    decode_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
tiered_decode_e5m2(const Frame* frames, u32 frame_count) {
    decode_frames<E5m2>(frames, frame_count);
}
