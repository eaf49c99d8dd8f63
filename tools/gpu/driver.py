"""The calls of CUDA's driver that the scripts beside this make, by ctypes: they take the driver and nothing else."""

import ctypes

# CU_STREAM_NON_BLOCKING, CU_STREAM_WAIT_VALUE_EQ, CUDA_ERROR_NOT_READY of cuda.h.
NON_BLOCKING, EQUAL, NOT_READY = 1, 1, 600


class DriverError(Exception):
    """A call of the driver has failed."""


class Driver:
    """The driver, with the first device's context."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SystemExit(f"absent: {error}") from error
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)

    def result(self, name, *arguments):
        """The number that a call returns."""
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        """Makes a call, which has to succeed."""
        if error := self.result(name, *arguments):
            raise DriverError(f"{name} returns {error}")

    def made(self, name, *arguments):
        """A handle or address that a call writes to where its first argument points."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def memory(self, size):
        """Device memory."""
        return self.made("cuMemAlloc_v2", ctypes.c_size_t(size))

    def stream(self, priority=0):
        return self.made("cuStreamCreateWithPriority", NON_BLOCKING, priority)

    def recorded(self, stream):
        """An event that is recorded in a stream now."""
        event = self.made("cuEventCreate", 0)
        self.call("cuEventRecord", event, stream)
        return event

    def has_passed(self, event):
        result = self.result("cuEventQuery", event)
        if result not in (0, NOT_READY):
            raise DriverError(f"cuEventQuery returns {result}")
        return result == 0

    def seconds_between(self, begin, end):
        """Seconds of the device between two events; waits for the second one."""
        self.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        return milliseconds.value * 1e-3
