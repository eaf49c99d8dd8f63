// The kernels of codebook16 that encode and decode.

#ifdef DTYPE_BF16
extern "C" __global__ void __launch_bounds__(256) codebook16_book_bf16(const Frame* frames) { make_books<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(256, 4) codebook16_encode_bf16(const Frame* frames, u32 frame_count) {
    encode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_bf16(const Frame* frames) { seal_frames<Codebook16<Bf16>>(frames); }
extern "C" __global__ void __launch_bounds__(256, 4) codebook16_encode_compact_bf16(const Frame* frames, u32 frame_count) {
    encode_compact_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_compact_bf16(const Frame* frames) { seal_compact_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_bf16(const Frame* frames) { open_books<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(256, 4) codebook16_decode_bf16(const Frame* frames, u32 frame_count) {
    decode_frames<Bf16>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_compact_bf16(const Frame* frames) { open_compact_frames<Bf16>(frames); }
extern "C" __global__ void __launch_bounds__(256, 4) codebook16_decode_compact_bf16(const Frame* frames, u32 frame_count) {
    decode_compact_frames<Bf16>(frames, frame_count);
}
#endif

#ifdef DTYPE_E4M3
extern "C" __global__ void __launch_bounds__(256) codebook16_book_e4m3(const Frame* frames) { make_books<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_encode_e4m3(const Frame* frames, u32 frame_count) {
    encode_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_e4m3(const Frame* frames) { seal_frames<Codebook16<E4m3>>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_encode_compact_e4m3(const Frame* frames, u32 frame_count) {
    encode_compact_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_compact_e4m3(const Frame* frames) { seal_compact_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_e4m3(const Frame* frames) { open_books<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_decode_e4m3(const Frame* frames, u32 frame_count) {
    decode_frames<E4m3>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_compact_e4m3(const Frame* frames) { open_compact_frames<E4m3>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_decode_compact_e4m3(const Frame* frames, u32 frame_count) {
    decode_compact_frames<E4m3>(frames, frame_count);
}
#endif

#ifdef DTYPE_E5M2
extern "C" __global__ void __launch_bounds__(256) codebook16_book_e5m2(const Frame* frames) { make_books<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_encode_e5m2(const Frame* frames, u32 frame_count) {
    encode_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_e5m2(const Frame* frames) { seal_frames<Codebook16<E5m2>>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_encode_compact_e5m2(const Frame* frames, u32 frame_count) {
    encode_compact_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_compact_e5m2(const Frame* frames) { seal_compact_frames<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_e5m2(const Frame* frames) { open_books<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_decode_e5m2(const Frame* frames, u32 frame_count) {
    decode_frames<E5m2>(frames, frame_count);
}
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_compact_e5m2(const Frame* frames) { open_compact_frames<E5m2>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) codebook16_decode_compact_e5m2(const Frame* frames, u32 frame_count) {
    decode_compact_frames<E5m2>(frames, frame_count);
}
#endif
