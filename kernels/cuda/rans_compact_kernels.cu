// The kernels that decode rans in the layout compact.

extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_bf16(const Frame* frames) { open_rans_compact<RansBf16>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_f16(const Frame* frames) { open_rans_compact<RansF16>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_f32(const Frame* frames) { open_rans_compact<RansF32>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_e4m3(const Frame* frames) { open_rans_compact<RansE4m3>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_e5m2(const Frame* frames) { open_rans_compact<RansE5m2>(frames + blockIdx.x); }

extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansBf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_f16(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansF16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 1)
rans_decode_compact_f32(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansF32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_e4m3(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansE4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_e5m2(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansE5m2>(frames, frame_count);
}
