// The headers that kernels and the runtime share, as the runtime sees them.
#pragma once

#define CUEMU_RUNTIME
#define __align__(bytes) __attribute__((aligned(bytes)))

#include "../cuda/vectors.h"

#include "../cuda/here.h"

#include "../cuda/calls.h"

#include "../cuda/module.h"
