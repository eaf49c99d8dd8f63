// Runs a launch: blocks are handed out in the order of their indices to several threads of the system.
#pragma once

#include "block.h"

namespace cuemu {
// Runs all blocks of the grid and returns. At most `workers` of them are under way at a time, the caller's among them.
//
// A block starts only after all earlier ones have started, so one that waits for an earlier one (decoupled look-back) never
// waits for ever, whatever the number of workers.
void run(const Grid& grid, unsigned workers);
}  // namespace cuemu
