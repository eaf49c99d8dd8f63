// Modules, functions and launches.
//
// Modules. The output of NVRTC is not looked at: kernels are found by name among the emulated modules, whose files `FAKECUDA_MODULES`
// lists. So unmodified code may compile one source while the emulation was built from another one with a planted fault.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "grid.h"
#include "state.h"
#include "stream.h"

namespace fake {
namespace {
constexpr unsigned MOST_THREADS = 1024;
constexpr unsigned SHARED_WITHOUT_ASKING = 48 << 10;

struct LoadedModule {
    Context* context;
};
struct Function {
    const cuemu::Module* code;
    const cuemu::Kernel* kernel;
    Context* context;
    unsigned most_dynamic = SHARED_WITHOUT_ASKING;

    unsigned most_threads() const { return kernel->max_threads ? kernel->max_threads : MOST_THREADS; }
};

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
std::set<void*>& modules() {
    static auto* all = new std::set<void*>;
    return *all;
}
std::set<void*>& functions() {
    static auto* all = new std::set<void*>;
    return *all;
}

const cuemu::Module* open(const std::string& file) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* table = library ? dlsym(library, "cuemu_module") : nullptr;
    if (!table) {
        fprintf(stderr, "fake driver: cannot load a module of the emulation: %s\n", dlerror());
        abort();
    }
    return static_cast<const cuemu::Module*>(table);
}

// Opened once, never closed: threads keep the modules' shared memory.
const std::vector<const cuemu::Module*>& emulated() {
    static const auto* all = [] {
        auto* opened = new std::vector<const cuemu::Module*>;
        const char* list = getenv("FAKECUDA_MODULES");
        std::string files = list ? list : "";
        for (size_t at = 0; at < files.size();) {
            const size_t end = std::min(files.find(':', at), files.size());
            if (end > at) opened->push_back(open(files.substr(at, end - at)));
            at = end + 1;
        }
        return opened;
    }();
    return *all;
}

bool is_known(const std::set<void*>& handles, void* handle) {
    std::lock_guard lock(mutex());
    return handles.count(handle) != 0;
}

// A launch that waits for its turn, with parameters as they were when it was queued.
struct Launch {
    cuemu::Grid grid;
    std::vector<unsigned char> memory;
    std::vector<void*> parameters;
};

std::shared_ptr<Launch> prepare(const Function& function, dim3 grid, dim3 block, unsigned dynamic, void** parameters) {
    constexpr size_t ALIGNMENT = 16;
    const cuemu::Kernel& kernel = *function.kernel;
    auto launch = std::make_shared<Launch>();
    size_t bytes = ALIGNMENT;
    for (unsigned i = 0; i < kernel.parameters; ++i) bytes += (kernel.sizes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    launch->memory.resize(bytes);
    auto at = reinterpret_cast<uintptr_t>(launch->memory.data());
    at = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (unsigned i = 0; i < kernel.parameters; ++i) {
        void* copy = reinterpret_cast<void*>(at);
        memcpy(copy, parameters[i], kernel.sizes[i]);
        launch->parameters.push_back(copy);
        at += (kernel.sizes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    launch->grid = {function.code, &kernel, grid, block, dynamic, launch->parameters.data(), 0, {}};
    return launch;
}

void run(Launch& launch) {
    launch.grid.seed = settings().seed;
    launch.grid.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(settings().deadline_ms);
    cuemu::run(launch.grid, settings().workers);
}

int occupancy(const Function& function, int threads, size_t dynamic) {
    if (threads <= 0 || static_cast<unsigned>(threads) > function.most_threads()) return 0;
    const size_t by_threads = 2048 / (static_cast<size_t>(threads + 31) / 32 * 32);
    const size_t by_memory = 233472 / (dynamic + 1024);
    return static_cast<int>(std::min<size_t>({by_threads, by_memory, 32}));
}
}  // namespace
}  // namespace fake

using namespace fake;

#define FUNCTION(name, handle)                                                                             \
    RETURN_IF_BROKEN;                                                                                      \
    if (!is_known(functions(), handle)) return refuse(INVALID_HANDLE, __func__, "unknown function");        \
    Function& name = *static_cast<Function*>(handle)

DRIVER cuModuleLoadData(void** module, const void* image) {
    RETURN_IF_BROKEN;
    if (!current_context()) return INVALID_CONTEXT;
    if (!image) return INVALID_VALUE;
    // Machine code that a test has made of none.
    if (strncmp(static_cast<const char*>(image), "refused", 7) == 0) return refuse(NO_BINARY_FOR_GPU, __func__, "machine code of another device");
    emulated();
    *module = new LoadedModule{current_context()};
    std::lock_guard lock(mutex());
    modules().insert(*module);
    return SUCCESS;
}
DRIVER cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
    return cuModuleLoadData(module, image);
}
DRIVER cuModuleLoad(void** module, const char* file) {
    return cuModuleLoadData(module, file);
}
// Functions of the module stay: work that is queued may still need them.
DRIVER cuModuleUnload(void* module) {
    RETURN_IF_BROKEN;
    std::lock_guard lock(mutex());
    if (modules().erase(module) == 0) return INVALID_HANDLE;
    delete static_cast<LoadedModule*>(module);
    return SUCCESS;
}
DRIVER cuModuleGetFunction(void** function, void* module, const char* name) {
    RETURN_IF_BROKEN;
    if (!is_known(modules(), module)) return refuse(INVALID_HANDLE, __func__, "unknown module");
    for (const cuemu::Module* code : emulated()) {
        for (unsigned i = 0; i < code->count; ++i) {
            if (strcmp(code->kernels[i].name, name) != 0) continue;
            *function = new Function{code, &code->kernels[i], static_cast<LoadedModule*>(module)->context};
            std::lock_guard lock(mutex());
            functions().insert(*function);
            return SUCCESS;
        }
    }
    return refuse(NOT_FOUND, __func__, name);
}

DRIVER cuFuncGetName(const char** name, void* handle) {
    FUNCTION(function, handle);
    *name = function.kernel->name;
    return SUCCESS;
}
DRIVER cuFuncGetAttribute(int* value, int attribute, void* handle) {
    FUNCTION(function, handle);
    switch (attribute) {
        case 0: *value = static_cast<int>(function.most_threads()); break;
        case 4: *value = 32; break;
        case 5:
        case 6: *value = 90; break;
        case 8: *value = static_cast<int>(function.most_dynamic); break;
        default: *value = 0;
    }
    return SUCCESS;
}
DRIVER cuFuncSetAttribute(void* handle, int attribute, int value) {
    FUNCTION(function, handle);
    constexpr int MOST_DYNAMIC = 8;
    if (attribute == MOST_DYNAMIC) {
        if (value < 0 || value > CUEMU_DYNAMIC_BYTES) return INVALID_VALUE;
        function.most_dynamic = static_cast<unsigned>(value);
    }
    return SUCCESS;
}
DRIVER cuFuncSetCacheConfig(void* handle, int) {
    FUNCTION(function, handle);
    (void)function;
    return SUCCESS;
}
DRIVER cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, size_t dynamic) {
    FUNCTION(function, handle);
    *blocks = occupancy(function, threads, dynamic);
    return SUCCESS;
}
DRIVER cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* handle, int threads, size_t dynamic,
                                                            unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle, threads, dynamic);
}

DRIVER cuLaunchKernel(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                      unsigned block_z, unsigned dynamic, void* stream_handle, void** parameters, void** extra) {
    FUNCTION(function, handle);
    const auto stream = stream_of(stream_handle);
    if (!stream) return unknown_stream(stream_handle, __func__);
    if (stream->context() != function.context) {
        return refuse(INVALID_HANDLE, __func__, "function and stream are of different contexts");
    }
    if (extra) return refuse(NOT_SUPPORTED, __func__, "parameters must be an array of pointers");
    const bool empty = grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 || block_y == 0 || block_z == 0;
    if (empty || grid_x > 2147483647u || grid_y > 65535 || grid_z > 65535) {
        return refuse(INVALID_VALUE, __func__, "this grid cannot be launched");
    }
    if (block_x > 1024 || block_y > 1024 || block_z > 64 || uint64_t(block_x) * block_y * block_z > MOST_THREADS) {
        return refuse(INVALID_VALUE, __func__, "a block has at most 1024 threads");
    }
    if (block_x * block_y * block_z > function.most_threads()) {
        return refuse(LAUNCH_OUT_OF_RESOURCES, __func__, "more threads than the kernel's launch bounds allow");
    }
    if (dynamic > function.most_dynamic) {
        return refuse(INVALID_VALUE, __func__, "more dynamic shared memory than the function may have");
    }
    if (dynamic && !function.code->dynamic_bytes) dynamic = 0;  // nothing can see it
    auto launch = prepare(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), dynamic, parameters);
    ++settings().launches;
    const Fault& fault = settings().fault;
    const char* name = function.kernel->name;
    if (fault.is(Fault::Kind::skip, name)) return SUCCESS;
    if (fault.is(Fault::Kind::hang, name)) {
        stream->submit([] {
            for (;;) pause();
        });
        return SUCCESS;
    }
    if (fault.is(Fault::Kind::stick, name)) {
        stream->submit([] { stick(ILLEGAL_ADDRESS); });
        return SUCCESS;
    }
    stream->submit([launch] { run(*launch); });
    return SUCCESS;
}

// Functions that the driver has and this one lacks. Without these a program that only might call one would already end.
#define MISSING(name)                                                   \
    DRIVER name() {                                                     \
        return refuse(NOT_SUPPORTED, #name, "the fake does not have it"); \
    }
MISSING(cuCtxCreate_v2)
MISSING(cuCtxCreate_v3)
MISSING(cuCtxCreate_v4)
MISSING(cuCtxDestroy_v2)
MISSING(cuCtxGetCacheConfig)
MISSING(cuCtxSetCacheConfig)
MISSING(cuCtxGetLimit)
MISSING(cuCtxSetLimit)
MISSING(cuDestroyExternalMemory)
MISSING(cuDeviceGetDefaultMemPool)
MISSING(cuDeviceGetMemPool)
MISSING(cuDeviceSetMemPool)
MISSING(cuExternalMemoryGetMappedBuffer)
MISSING(cuImportExternalMemory)
MISSING(cuLaunchCooperativeKernel)
MISSING(cuLaunchKernelEx)
MISSING(cuMemAdvise_v2)
MISSING(cuMemAllocFromPoolAsync)
MISSING(cuMemAllocManaged)
MISSING(cuMemHostRegister_v2)
MISSING(cuMemHostUnregister)
MISSING(cuMemPoolCreate)
MISSING(cuMemPoolDestroy)
MISSING(cuMemPoolGetAttribute)
MISSING(cuMemPoolSetAttribute)
MISSING(cuMemPoolTrimTo)
MISSING(cuMemPrefetchAsync_v2)
MISSING(cuMemcpy2DAsync_v2)
MISSING(cuModuleGetGlobal_v2)
MISSING(cuOccupancyAvailableDynamicSMemPerBlock)
MISSING(cuOccupancyMaxActiveClusters)
MISSING(cuOccupancyMaxPotentialBlockSize)
MISSING(cuOccupancyMaxPotentialBlockSizeWithFlags)
MISSING(cuOccupancyMaxPotentialClusterSize)
MISSING(cuProfilerStart)
MISSING(cuProfilerStop)
MISSING(cuStreamAttachMemAsync)

// Any of the functions above by name.
DRIVER cuGetProcAddress_v2(const char* name, void** address, int, uint64_t, int* status) {
    Dl_info here;
    *address = nullptr;
    if (dladdr(reinterpret_cast<void*>(&cuModuleLoad), &here)) {
        if (void* library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD)) {
            for (const char* ending : {"_v4", "_v3", "_v2", ""}) {
                *address = dlsym(library, (std::string(name) + ending).c_str());
                if (*address) break;
            }
            dlclose(library);
        }
    }
    constexpr int FOUND = 0, UNKNOWN = 1;
    if (status) *status = *address ? FOUND : UNKNOWN;
    return *address ? SUCCESS : NOT_FOUND;
}
