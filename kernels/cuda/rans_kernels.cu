// The kernels of rans. One block of threads encodes on a multiprocessor, but for BF16: lower bytes and bit planes take more than 64
// registers, and two blocks would put them into memory.

#ifdef DTYPE_BF16
extern "C" __global__ void __launch_bounds__(256) rans_table_bf16(const Frame* frames) { make_tables<RansBf16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_encode_bf16(const Frame* frames, u32 frame_count) {
    encode_blocks<RansBf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 1)
rans_again_bf16(const Frame* frames, u32 frame_count) {
    encode_again<RansBf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) rans_seal_bf16(const Frame* frames) { seal_blocks<RansBf16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_bf16(const Frame* frames) { open_blocks<RansBf16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_bf16(const Frame* frames, u32 frame_count) {
    decode_blocks<RansBf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_bf16(const Frame* frames) { open_rans_compact<RansBf16>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansBf16>(frames, frame_count);
}
#endif

#ifdef DTYPE_F16
extern "C" __global__ void __launch_bounds__(256) rans_table_f16(const Frame* frames) { make_tables<RansF16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 1)
rans_encode_f16(const Frame* frames, u32 frame_count) {
    encode_blocks<RansF16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 1)
rans_again_f16(const Frame* frames, u32 frame_count) {
    encode_again<RansF16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) rans_seal_f16(const Frame* frames) { seal_blocks<RansF16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_f16(const Frame* frames) { open_blocks<RansF16>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_f16(const Frame* frames, u32 frame_count) {
    decode_blocks<RansF16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_f16(const Frame* frames) { open_rans_compact<RansF16>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_f16(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansF16>(frames, frame_count);
}
#endif

#ifdef DTYPE_F32
extern "C" __global__ void __launch_bounds__(256) rans_table_f32(const Frame* frames) { make_tables<RansF32>(frames); }
extern "C" __global__ void __launch_bounds__(512, 1)
rans_encode_f32(const Frame* frames, u32 frame_count) {
    encode_blocks<RansF32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 1)
rans_again_f32(const Frame* frames, u32 frame_count) {
    encode_again<RansF32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) rans_seal_f32(const Frame* frames) { seal_blocks<RansF32>(frames); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_f32(const Frame* frames) { open_blocks<RansF32>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_f32(const Frame* frames, u32 frame_count) {
    decode_blocks<RansF32>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_f32(const Frame* frames) { open_rans_compact<RansF32>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(512, 1)
rans_decode_compact_f32(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansF32>(frames, frame_count);
}
#endif

#ifdef DTYPE_E4M3
extern "C" __global__ void __launch_bounds__(256) rans_table_e4m3(const Frame* frames) { make_tables<RansE4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 1)
rans_encode_e4m3(const Frame* frames, u32 frame_count) {
    encode_blocks<RansE4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 1)
rans_again_e4m3(const Frame* frames, u32 frame_count) {
    encode_again<RansE4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) rans_seal_e4m3(const Frame* frames) { seal_blocks<RansE4m3>(frames); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_e4m3(const Frame* frames) { open_blocks<RansE4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_e4m3(const Frame* frames, u32 frame_count) {
    decode_blocks<RansE4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_e4m3(const Frame* frames) { open_rans_compact<RansE4m3>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_e4m3(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansE4m3>(frames, frame_count);
}
#endif

#ifdef DTYPE_E5M2
extern "C" __global__ void __launch_bounds__(256) rans_table_e5m2(const Frame* frames) { make_tables<RansE5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 1)
rans_encode_e5m2(const Frame* frames, u32 frame_count) {
    encode_blocks<RansE5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(512, 1)
rans_again_e5m2(const Frame* frames, u32 frame_count) {
    encode_again<RansE5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) rans_seal_e5m2(const Frame* frames) { seal_blocks<RansE5m2>(frames); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_e5m2(const Frame* frames) { open_blocks<RansE5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_e5m2(const Frame* frames, u32 frame_count) {
    decode_blocks<RansE5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_e5m2(const Frame* frames) { open_rans_compact<RansE5m2>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(512, 2)
rans_decode_compact_e5m2(const Frame* frames, u32 frame_count) {
    decode_rans_compact<RansE5m2>(frames, frame_count);
}
#endif
