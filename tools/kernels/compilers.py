"""NVIDIA's compilers: nvcc, which tells what it makes of kernels, and NVRTC, as the program calls it when kernels are used first."""

import ctypes
import re
import resource
import subprocess
import sys

# A machine that is busy with other things takes minutes for the largest module.
COMPILER_TIMEOUT_S = 900


def compile_kernels(nvcc, source, arch, cubin):
    """Compiles a source text; returns registers, spills and shared memory by kernel."""
    path = cubin.with_suffix(".cu")
    path.write_text(source)
    command = [nvcc, f"-arch={arch}", "-std=c++17", "-cubin", "-Xptxas", "-v", "-o", cubin, path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=COMPILER_TIMEOUT_S)
    if run.returncode != 0:
        sys.exit(run.stderr)
    facts, kernel = {}, None
    for line in run.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = found[1]
            facts[kernel] = {"registers": 0, "spilled": 0, "stack": 0, "shared": 0}
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            facts[kernel]["stack"] = int(found[1])
            facts[kernel]["spilled"] = int(found[2]) + int(found[3])
        elif found := re.search(r"Used (\d+) registers", line):
            facts[kernel]["registers"] = int(found[1])
            if shared := re.search(r"(\d+) bytes smem", line):
                facts[kernel]["shared"] = int(shared[1])
    return facts


class Nvrtc:
    """NVRTC in a folder of libraries."""

    def __init__(self, folder):
        # It asks for its built-in functions by their bare name.
        ctypes.CDLL(str(folder / "libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "libnvrtc.so.13"))

    def compile(self, name, source, arch):
        """Compiles a source text; returns what the compiler says where it refuses it, else None, and seconds of CPU."""
        options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"-lineinfo"]
        program, size, log = ctypes.c_void_p(), ctypes.c_size_t(), None
        self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None)
        begin = cpu_seconds()
        if self.library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) != 0:
            self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            text = ctypes.create_string_buffer(size.value)
            self.library.nvrtcGetProgramLog(program, text)
            log = text.value.decode()
        seconds = cpu_seconds() - begin
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return log, seconds


def cpu_seconds():
    """What this process has used of a CPU, in all threads; processes that it has started are apart."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
