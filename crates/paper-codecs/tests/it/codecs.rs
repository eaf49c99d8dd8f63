//! The laws of codecs, for every codec of this crate and every type that it supports.

#[path = "../../../../codec/tests/it/codecs/laws/mod.rs"]
mod laws;

use laws::codec_laws;

codec_laws!(window7, "window7", Bf16);
codec_laws!(alike window7_std, "window7:scale=std", Bf16);
codec_laws!(alike window7_mean_abs, "window7:scale=mean-abs", Bf16);
codec_laws!(window7_f32, "window7", F32);
codec_laws!(alike window7_f32_std, "window7:scale=std", F32);
codec_laws!(grouped_bf16, "grouped", Bf16);
codec_laws!(alike grouped_f16, "grouped", F16);
codec_laws!(grouped_f32, "grouped", F32);
codec_laws!(alike grouped_e4m3, "grouped", F8E4M3);
codec_laws!(alike grouped_e5m2, "grouped", F8E5M2);
codec_laws!(blockwise_bf16, "blockwise", Bf16);
codec_laws!(alike blockwise_f16, "blockwise", F16);
codec_laws!(blockwise_f32, "blockwise", F32);
codec_laws!(alike blockwise_e4m3, "blockwise", F8E4M3);
codec_laws!(alike blockwise_e5m2, "blockwise", F8E5M2);
codec_laws!(huffman, "huffman", Bf16);
codec_laws!(codebook16_bf16, "codebook16", Bf16);
codec_laws!(codebook16_e4m3, "codebook16", F8E4M3);
codec_laws!(alike codebook16_e5m2, "codebook16", F8E5M2);
codec_laws!(codebook16_table_bf16, "codebook16:table=BF16", Bf16);
codec_laws!(alike codebook16_table_e5m2, "codebook16:table=F8_E5M2", F8E5M2);
codec_laws!(dedup_e5m2, "dedup:row=5+codebook16", F8E5M2);
