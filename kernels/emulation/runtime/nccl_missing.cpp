// Functions that NCCL has and the fake lacks. Without them a program that only might call one would not start.
#include "nccl_state.h"

#define MISSING(name)                                                                                        \
    extern "C" __attribute__((visibility("default"))) ncclResult_t p##name() {                               \
        return fakenccl::refuse(ncclInvalidUsage, #name, "the fake does not have it");                       \
    }                                                                                                        \
    extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) ncclResult_t name();

MISSING(ncclCommDeregister)
MISSING(ncclCommGetUniqueId)
MISSING(ncclCommGrow)
MISSING(ncclCommMemStats)
MISSING(ncclCommRegister)
MISSING(ncclCommResume)
MISSING(ncclCommRevoke)
MISSING(ncclCommShrink)
MISSING(ncclCommSuspend)
MISSING(ncclCommWindowDeregister)
MISSING(ncclCommWindowRegister)
MISSING(ncclDevCommCreate)
MISSING(ncclDevCommDestroy)
MISSING(ncclGetLsaMultimemDevicePointer)
MISSING(ncclGetPeerDevicePointer)
MISSING(ncclGroupSimulateEnd)
MISSING(ncclPutSignal)
MISSING(ncclRedOpCreatePreMulSum)
MISSING(ncclRedOpDestroy)
MISSING(ncclSignal)
MISSING(ncclWaitSignal)
MISSING(ncclWinGetUserPtr)
