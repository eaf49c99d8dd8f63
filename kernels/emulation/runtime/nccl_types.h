// The part of NCCL's interface that is faked: its types and results. With the real header included first, the fake is compiled against that.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#ifndef NCCL_H_
typedef struct CUstream_st* cudaStream_t;
typedef struct ncclComm* ncclComm_t;

constexpr int NCCL_UNIQUE_ID_BYTES = 128;
struct ncclUniqueId {
    char internal[NCCL_UNIQUE_ID_BYTES];
};

enum ncclResult_t {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclTimeout = 8,
};

constexpr int NCCL_CONFIG_UNDEF_INT = INT_MIN;
constexpr int NCCL_SPLIT_NOCOLOR = -1;
constexpr unsigned NCCL_API_MAGIC = 0xcafebeef;

// The fake reads `blocking` alone. Callers of other versions pass shorter or longer ones, and say so in `size`.
struct ncclConfig_t {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char* netName;
    int splitShare, trafficClass;
    const char* commName;
    int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched, graphUsageMode, numRmaCtx,
        maxP2pPeers, graphStreamOrdering;
};

enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5, ncclMaxRedOp = INT_MAX };

enum ncclDataType_t {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12,
};
#endif
