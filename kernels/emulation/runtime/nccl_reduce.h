// Reductions of values.
#pragma once

#include <string>
#include <vector>

#include "nccl_types.h"

namespace fakenccl {
// Bytes of a value, or 0 of an unknown type.
size_t size_of(ncclDataType_t type);
// Whether values of this type are reduced: not those of eight bits.
bool is_reduced(ncclDataType_t type);
// Reduces the parts into `out`, in the order of ranks. bf16 and f16 are added as f32 and rounded once, at the end: other than NCCL, whose order
// depends on its algorithm, and which may round between.
void reduce(const std::vector<const char*>& parts, char* out, size_t count, ncclDataType_t type, ncclRedOp_t op);
}  // namespace fakenccl
