//! Kernels by their names: those of NCCL and RCCL, those of other communication, all others.

use crate::op::CollectiveOp;

/// Kind of a kernel, after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelKind {
    /// NCCL's or RCCL's, with the operation if the name has it: generic kernels carry several.
    Library(Option<CollectiveOp>),
    /// Communication of something else, which leaves no sizes: it is neither computed nor in the table.
    Foreign(&'static str),
    Compute,
}

/// Parts of the names of kernels that communicate without NCCL, in lower case, and who they are.
const FOREIGN: [(&str, &str); 10] = [
    ("deep_ep::", "DeepEP"),
    ("nvshmem", "NVSHMEM"),
    ("cross_device_reduce", "custom all-reduce of vLLM or SGLang"),
    ("oneshotallreduce", "all-reduce of TensorRT-LLM or FlashInfer"),
    ("twoshotallreduce", "all-reduce of TensorRT-LLM or FlashInfer"),
    ("allreduce_fusion", "all-reduce of TensorRT-LLM or FlashInfer"),
    ("one_shot_all_reduce", "symmetric memory of PyTorch"),
    ("two_shot_all_reduce", "symmetric memory of PyTorch"),
    ("multimem_", "symmetric memory of PyTorch"),
    ("mscclpp", "MSCCL++"),
];

/// Kind of the kernel of this name, in any case of letters.
pub(crate) fn kernel_kind(name: &str) -> KernelKind {
    // Types of arguments name structs of the library: `ncclDevComm*`.
    let head = name.split('(').next().unwrap_or(name);
    let lower = head.to_ascii_lowercase();
    if let Some((_, who)) = FOREIGN.iter().find(|(text, _)| lower.contains(text)) {
        return KernelKind::Foreign(who);
    }
    let is_library = ["nccl", "rccl", "msccl"].iter().any(|text| lower.contains(text));
    if is_library { KernelKind::Library(CollectiveOp::within(head)) } else { KernelKind::Compute }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of NCCL 2.17 to 2.30 and of RCCL, and forms that users reported as unrecognised elsewhere.
    #[test]
    fn kernels_of_all_versions_are_recognised() {
        for (name, op) in [
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
                Some(CollectiveOp::AllReduce),
            ),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
                Some(CollectiveOp::AllReduce),
            ),
            (
                "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                Some(CollectiveOp::AllGather),
            ),
            ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(a)", Some(CollectiveOp::ReduceScatter)),
            ("ncclDevKernel_Reduce_Sum_f32_RING_LL(a)", Some(CollectiveOp::Reduce)),
            ("ncclDevKernel_Broadcast_RING_LL(a)", Some(CollectiveOp::Broadcast)),
            (
                "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>) [clone .kd]",
                Some(CollectiveOp::SendRecv),
            ),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(a)", Some(CollectiveOp::SendRecv)),
            (
                "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs)",
                Some(CollectiveOp::AllReduce),
            ),
            ("void ncclSymDevKernel_ReduceScatter_LD<1>(a)", Some(CollectiveOp::ReduceScatter)),
            ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", None),
            ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>) [clone .kd]", None),
            ("ncclDevKernelDebug_Generic(ncclDevComm*, unsigned long, ncclWork*)", None),
            ("mscclKernel_Sum_half_Simple_LL128_false(ncclDevComm*)", None),
            ("nccl_allreduce", Some(CollectiveOp::AllReduce)),
            ("nccl::Allreduce", Some(CollectiveOp::AllReduce)),
            ("rcclGenericKernel<1, false>(a)", None),
        ] {
            assert_eq!(kernel_kind(name), KernelKind::Library(op), "{name}");
        }
    }

    #[test]
    fn others_are_compute_unless_they_communicate_without_a_library() {
        for name in [
            "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)",
            "sm90_xmma_gemm_bf16bf16_bf16f32",
            "void at::native::index_scatter_kernel(ncclThing*)",
        ] {
            assert_eq!(kernel_kind(name), KernelKind::Compute, "{name}");
        }
        assert_eq!(kernel_kind("void deep_ep::intranode::dispatch<8>(int4*)"), KernelKind::Foreign("DeepEP"));
    }
}
