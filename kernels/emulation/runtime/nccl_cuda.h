// The part of the driver that the fake NCCL calls.
#pragma once

#include "hook.h"

using DevicePointer = unsigned long long;

extern "C" {
int cuInit(unsigned flags);
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
int cuCtxGetDevice(int* device);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuStreamGetCtx(void* stream, void** context);
int cuMemAlloc_v2(DevicePointer* pointer, size_t bytes);
int cuMemFree_v2(DevicePointer pointer);
}
