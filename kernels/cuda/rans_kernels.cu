// The kernels of rans for one type: kernels/src/module.rs puts its name in the place of `Dtype` and `dtype`. One block of threads encodes on a multiprocessor,
// but for BF16: lower bytes and bit planes take more than 64 registers, and two blocks would put them into memory. The same holds for F32 that is decoded
// in the layout compact.

typedef RansDtype OwnFormat;

extern "C" __global__ void __launch_bounds__(256) rans_table_dtype(const Frame* frames) { make_tables<RansDtype>(frames); }
extern "C" __global__ void __launch_bounds__(512, RansDtype::DTYPE == RansBf16::DTYPE ? 2 : 1)
rans_encode_dtype(const Frame* frames, u32 frame_count) { encode_blocks<RansDtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(512, RansDtype::DTYPE == RansBf16::DTYPE ? 2 : 1)
rans_split_dtype(const Frame* frames, u32 frame_count) { split_blocks<RansDtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(128, 16) rans_chain_dtype(const Frame* frames, u32 frame_count) { chain_blocks<RansDtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(512, 1) rans_again_dtype(const Frame* frames, u32 frame_count) { encode_again<RansDtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) rans_seal_dtype(const Frame* frames) { seal_blocks<RansDtype>(frames); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_dtype(const Frame* frames) { open_blocks<RansDtype>(frames); }
extern "C" __global__ void __launch_bounds__(512, 2) rans_decode_dtype(const Frame* frames, u32 frame_count) { decode_blocks<RansDtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(1024) rans_open_compact_dtype(const Frame* frames) { open_rans_compact<RansDtype>(frames + blockIdx.x); }
extern "C" __global__ void __launch_bounds__(512, RansDtype::WIDTH == 4 ? 1 : 2)
rans_decode_compact_dtype(const Frame* frames, u32 frame_count) { decode_rans_compact<RansDtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(32) rans_close_dtype(const Frame* frames) { close_frames<RansDtype>(frames); }
extern "C" __global__ void __launch_bounds__(32) rans_close_compact_dtype(const Frame* frames) { close_frames<RansDtype, LAYOUT_COMPACT>(frames); }
