//! The laws of codecs, for every codec and every type that it supports.

pub(crate) mod common;
mod laws;

use laws::codec_laws;

codec_laws!(raw_bf16, "raw", Bf16);
codec_laws!(raw_f16, "raw", F16);
codec_laws!(raw_f32, "raw", F32);
codec_laws!(raw_e4m3, "raw", F8E4M3);
codec_laws!(raw_e5m2, "raw", F8E5M2);
codec_laws!(window7, "window7", Bf16);
codec_laws!(window7_std, "window7:scale=std", Bf16);
codec_laws!(window7_mean_abs, "window7:scale=mean-abs", Bf16);
codec_laws!(window7_f32, "window7", F32);
codec_laws!(window7_f32_std, "window7:scale=std", F32);
codec_laws!(tiered_bf16, "tiered", Bf16);
codec_laws!(tiered_f16, "tiered", F16);
codec_laws!(tiered_f32, "tiered", F32);
codec_laws!(tiered_e4m3, "tiered", F8E4M3);
codec_laws!(tiered_e5m2, "tiered", F8E5M2);
codec_laws!(tiered_columns_bf16, "tiered:row=8", Bf16);
codec_laws!(tiered_columns_f16, "tiered:row=8", F16);
codec_laws!(tiered_columns_f32, "tiered:row=8", F32);
codec_laws!(tiered_columns_e4m3, "tiered:row=8", F8E4M3);
codec_laws!(tiered_columns_e5m2, "tiered:row=8", F8E5M2);
codec_laws!(rans_bf16, "rans", Bf16);
codec_laws!(rans_f16, "rans", F16);
codec_laws!(rans_f32, "rans", F32);
codec_laws!(rans_e4m3, "rans", F8E4M3);
codec_laws!(rans_e5m2, "rans", F8E5M2);
codec_laws!(rans_mantissa_bf16, "rans:mantissa=2", Bf16);
codec_laws!(rans_mantissa_f16, "rans:mantissa=2", F16);
codec_laws!(rans_mantissa_columns_bf16, "rans:mantissa=2,row=8", Bf16);
codec_laws!(rans_columns_bf16, "rans:row=8", Bf16);
codec_laws!(rans_columns_f32, "rans:row=8", F32);
codec_laws!(auto_bf16, "auto", Bf16);
codec_laws!(auto_f32, "auto:row=8", F32);
codec_laws!(auto_e5m2, "auto", F8E5M2);
codec_laws!(auto_dedup, "dedup:row=16+auto", Bf16);
codec_laws!(codebook16_bf16, "codebook16", Bf16);
codec_laws!(codebook16_e4m3, "codebook16", F8E4M3);
codec_laws!(codebook16_e5m2, "codebook16", F8E5M2);
codec_laws!(dedup_bf16, "dedup:row=16+tiered", Bf16);
codec_laws!(dedup_f32, "dedup:row=3+raw", F32);
codec_laws!(dedup_e5m2, "dedup:row=5+codebook16", F8E5M2);
