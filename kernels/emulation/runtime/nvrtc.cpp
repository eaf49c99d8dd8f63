// A compiler that accepts every program and makes a few bytes of nothing: kernels come from the emulation.
#include <cstddef>
#include <cstring>
#include <string>

#define NVRTC extern "C" __attribute__((visibility("default"))) int

namespace {
enum Error : int { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5 };

constexpr int ARCHITECTURES[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Program {
    std::string architecture = "compute_75", log, ptx, cubin;
};

bool is_known(const std::string& architecture) {
    for (const int known : ARCHITECTURES) {
        const std::string number = std::to_string(known);
        for (const char* prefix : {"sm_", "compute_"}) {
            for (const char* suffix : {"", "a", "f"}) {
                if (architecture == prefix + number + suffix) return true;
            }
        }
    }
    return false;
}

int give(const std::string& bytes, char* out) {
    memcpy(out, bytes.data(), bytes.size());
    return SUCCESS;
}
}  // namespace

NVRTC nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 0;
    return SUCCESS;
}
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int error) {
    switch (error) {
        case SUCCESS: return "NVRTC_SUCCESS";
        case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
        case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
        case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
        default: return "NVRTC_ERROR unknown";
    }
}
NVRTC nvrtcGetNumSupportedArchs(int* count) {
    *count = static_cast<int>(sizeof ARCHITECTURES / sizeof *ARCHITECTURES);
    return SUCCESS;
}
NVRTC nvrtcGetSupportedArchs(int* architectures) {
    memcpy(architectures, ARCHITECTURES, sizeof ARCHITECTURES);
    return SUCCESS;
}
NVRTC nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
    if (!program || !source) return INVALID_INPUT;
    *program = new Program;
    return SUCCESS;
}
NVRTC nvrtcDestroyProgram(void** program) {
    if (!program || !*program) return INVALID_PROGRAM;
    delete static_cast<Program*>(*program);
    return SUCCESS;
}
NVRTC nvrtcCompileProgram(void* handle, int count, const char* const* options) {
    if (!handle) return INVALID_PROGRAM;
    auto& program = *static_cast<Program*>(handle);
    program = Program();
    for (int i = 0; i < count; ++i) {
        const std::string option = options[i];
        for (const char* name : {"--gpu-architecture=", "-arch="}) {
            if (option.rfind(name, 0) == 0) program.architecture = option.substr(strlen(name));
        }
    }
    if (!is_known(program.architecture)) {
        program.log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
        return INVALID_OPTION;
    }
    program.ptx = "// emulated, for " + program.architecture + "\n";
    program.ptx.push_back('\0');
    // As with the real one, there is machine code only for a real architecture.
    if (program.architecture.rfind("sm_", 0) == 0) program.cubin = "\x7f" "ELF emulated, for " + program.architecture;
    return SUCCESS;
}
NVRTC nvrtcGetPTXSize(void* program, size_t* bytes) {
    *bytes = static_cast<Program*>(program)->ptx.size();
    return SUCCESS;
}
NVRTC nvrtcGetPTX(void* program, char* out) {
    return give(static_cast<Program*>(program)->ptx, out);
}
NVRTC nvrtcGetCUBINSize(void* program, size_t* bytes) {
    *bytes = static_cast<Program*>(program)->cubin.size();
    return SUCCESS;
}
NVRTC nvrtcGetCUBIN(void* program, char* out) {
    return give(static_cast<Program*>(program)->cubin, out);
}
NVRTC nvrtcGetProgramLogSize(void* program, size_t* bytes) {
    *bytes = static_cast<Program*>(program)->log.size() + 1;
    return SUCCESS;
}
NVRTC nvrtcGetProgramLog(void* program, char* out) {
    const std::string& log = static_cast<Program*>(program)->log;
    memcpy(out, log.c_str(), log.size() + 1);
    return SUCCESS;
}
NVRTC nvrtcAddNameExpression(void* program, const char*) {
    return program ? SUCCESS : INVALID_PROGRAM;
}
// Kernels are `extern "C"`, so their names are as written.
NVRTC nvrtcGetLoweredName(void* program, const char* expression, const char** name) {
    *name = expression;
    return program ? SUCCESS : INVALID_PROGRAM;
}
