// The kernels of codebook16 for one type: kernels/src/module.rs puts its name in the place of `Dtype` and `dtype`. A block of threads has 16 KiB of values.

typedef Codebook16<Dtype> OwnFormat;

extern "C" __global__ void __launch_bounds__(256) codebook16_book_dtype(const Frame* frames) { make_books<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(512 / Dtype::WIDTH, 2 * Dtype::WIDTH)
codebook16_encode_dtype(const Frame* frames, u32 frame_count) { encode_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(256) codebook16_seal_dtype(const Frame* frames) { seal_frames<Codebook16<Dtype>>(frames); }
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_dtype(const Frame* frames) { open_books<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(512 / Dtype::WIDTH, 2 * Dtype::WIDTH)
codebook16_decode_dtype(const Frame* frames, u32 frame_count) { decode_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(1024) codebook16_open_compact_dtype(const Frame* frames) { open_compact_frames<Dtype>(frames); }
extern "C" __global__ void __launch_bounds__(512 / Dtype::WIDTH, 2 * Dtype::WIDTH)
codebook16_decode_compact_dtype(const Frame* frames, u32 frame_count) { decode_compact_frames<Dtype>(frames, frame_count); }
extern "C" __global__ void __launch_bounds__(32) codebook16_close_dtype(const Frame* frames) { close_frames<Codebook16<Dtype>>(frames); }
extern "C" __global__ void __launch_bounds__(32) codebook16_close_compact_dtype(const Frame* frames) { close_frames<Codebook16<Dtype>, LAYOUT_COMPACT>(frames); }
