// The kernels of window7 for one type: kernels/src/module.rs puts its name in the place of `Dtype` and `dtype`. Three blocks of threads are on a
// multiprocessor, or four that decode BF16: lower halves of F32 take more than 64 registers.

typedef Dtype OwnFormat;

extern "C" __global__ void __launch_bounds__(256, 3) window7_encode_dtype(const Frame* frames, u32 frame_count) { encode_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) window7_seal_dtype(const Frame* frames) { seal_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(1024) window7_open_dtype(const Frame* frames) { open_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(256, Dtype::WIDTH == 2 ? 4 : 3)
window7_decode_dtype(const Frame* frames, u32 frame_count) { decode_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(1024) window7_open_compact_dtype(const Frame* frames) { open_compact_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(256, Dtype::WIDTH == 2 ? 4 : 3)
window7_decode_compact_dtype(const Frame* frames, u32 frame_count) { decode_compact_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(32) window7_close_dtype(const Frame* frames) { close_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(32) window7_close_compact_dtype(const Frame* frames) { close_frames<Dtype, LAYOUT_COMPACT>(frames); }
