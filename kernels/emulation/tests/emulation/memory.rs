//! Guards around memory, ranges of copies, and when copies happen.

use std::process::ExitCode;

use cudarc::driver::{result, sys};
use zipwire_emulation::{Controls, Scene, scene};

use crate::Test;
use crate::gpu::{Gate, Gpu, arg};

pub(crate) const TESTS: &[Test] = &[
    ("memory::guards_find_a_write_behind", || finds("write-behind", "out of bounds: byte 40 of allocation")),
    ("memory::guards_find_a_write_before", || finds("write-before", "out of bounds: byte -4 of allocation")),
    ("memory::guards_find_a_use_after_free", || {
        finds("use-after-free", "use after free: byte 0 of allocation");
    }),
    ("memory::guards_are_looked_at_when_the_process_ends", guards_at_the_end),
    ("memory::copies_stay_inside_one_allocation", copies_stay_inside),
    ("memory::locked_memory_is_written_when_the_copy_runs", locked_memory_is_late),
    ("memory::pageable_memory_is_as_documented", pageable_memory),
    ("memory::new_memory_is_poisoned_and_counted", new_memory),
    ("memory::fills", fills),
    ("memory::pointers_say_what_they_point_to", pointers),
];

pub(crate) const SCENES: &[Scene] = &[
    Scene { name: "write-behind", run: || breaks(write) },
    Scene { name: "write-before", run: || breaks(|gpu, at| write(gpu, at - 44)) },
    Scene { name: "use-after-free", run: || breaks(use_after_free) },
    Scene { name: "write-and-leave", run: write_and_leave },
];

fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

const INVALID: Result<(), result::DriverError> =
    Err(result::DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE));
const ILLEGAL: Result<(), result::DriverError> =
    Err(result::DriverError(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));

fn finds(name: &str, message: &str) {
    let output = scene(name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(message), "{said}");
}

/// The scene does something wrong behind, before or after a buffer of 40 bytes: the next call that looks must fail, and all
/// calls after it.
fn breaks(wrong: fn(&Gpu, u64)) -> ExitCode {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(10);
    gpu.synchronize().unwrap();
    wrong(&gpu, values.pointer + 40);
    assert_eq!(gpu.synchronize(), ILLEGAL);
    assert_eq!(gpu.synchronize(), ILLEGAL);
    // SAFETY: nothing is read or written: the call fails.
    assert!(unsafe { result::malloc_sync(4) }.is_err(), "the error sticks");
    ExitCode::SUCCESS
}

fn write(gpu: &Gpu, mut at: u64) {
    gpu.launch("fill", 1, 32, 0, &mut [arg(&mut at), arg(&mut 1u32), arg(&mut 7u32)]);
}

fn use_after_free(gpu: &Gpu, end: u64) {
    // SAFETY: freeing is right, the write that follows is the fault.
    unsafe { result::free_sync(end - 40) }.unwrap();
    write(gpu, end - 40);
}

fn write_and_leave() -> ExitCode {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(10);
    write(&gpu, values.pointer + 40);
    // Queries do not look at memory.
    // SAFETY: the stream lives until the end of the process.
    while unsafe { sys::cuStreamQuery(gpu.stream) } == sys::CUresult::CUDA_ERROR_NOT_READY {
        std::thread::yield_now();
    }
    ExitCode::SUCCESS
}

fn guards_at_the_end() {
    let output = scene("write-and-leave").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{said}");
    assert!(said.contains("out of bounds"), "{said}");
}

fn copies_stay_inside() {
    let gpu = Gpu::open(0);
    let (a, b) = (gpu.zeros::<u8>(100), gpu.zeros::<u8>(100));
    let mut host = [0u8; 100];
    let stream = gpu.stream;
    // SAFETY: what would leave a buffer is refused, which is what is tested; all else is inside.
    unsafe {
        assert_eq!(result::memcpy_dtod_async(a.pointer, b.pointer, 100, stream), Ok(()));
        assert_eq!(result::memcpy_dtod_async(a.pointer + 1, b.pointer, 100, stream), INVALID);
        assert_eq!(result::memcpy_dtod_async(a.pointer, b.pointer + 1, 100, stream), INVALID);
        assert_eq!(result::memcpy_dtod_async(a.pointer + 1, b.pointer + 50, 50, stream), Ok(()));
        assert_eq!(result::memcpy_htod_async(a.pointer + 1, &host, stream), INVALID);
        assert_eq!(result::memcpy_dtoh_async(&mut host, a.pointer + 1, stream), INVALID);
        assert_eq!(
            result::memcpy_htod_async(host.as_ptr() as u64, &host, stream),
            INVALID,
            "that is no device memory"
        );
        assert_eq!(result::memset_d8_async(a.pointer + 50, 1, 51, stream), INVALID);
        result::free_async(a.pointer, stream).unwrap();
        assert_eq!(result::memcpy_htod_async(a.pointer, &host, stream), INVALID, "it is freed");
        assert!(result::free_async(a.pointer, stream).is_err(), "it is freed once");
    }
    gpu.synchronize().unwrap();
}

fn locked_memory_is_late() {
    let gpu = Gpu::open(0);
    let values = gpu.upload(&[5u8; 64]);
    gpu.synchronize().unwrap();
    // SAFETY: the memory has 64 bytes, and is used by this thread and the stream until it is freed.
    unsafe {
        let locked = result::malloc_host(64, 0).unwrap().cast::<u8>();
        let bytes = std::slice::from_raw_parts_mut(locked, 64);
        let gate = Gate::close(gpu.stream);
        result::memcpy_dtoh_async(bytes, values.pointer, gpu.stream).unwrap();
        assert_eq!(locked.read_volatile(), 0xcd, "the copy must wait for its turn");
        gate.open();
        gpu.synchronize().unwrap();
        assert_eq!(locked.read_volatile(), 5);
        // And read when the copy runs: whoever writes too early changes what arrives.
        let gate = Gate::close(gpu.stream);
        result::memcpy_htod_async(values.pointer, bytes, gpu.stream).unwrap();
        locked.write_volatile(6);
        gate.open();
        assert_eq!(gpu.download(&values)[0], 6);
        result::free_host(locked.cast()).unwrap();
    }
}

fn pageable_memory() {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u8>(64);
    controls().set_delay_us(5000);
    let mut host = [1u8; 64];
    for round in 2..10 {
        // SAFETY: the array is as long as the buffer. Pageable memory is staged before the first call returns, and
        // written before the second one does.
        unsafe {
            result::memcpy_htod_async(values.pointer, &host, gpu.stream).unwrap();
            host.fill(99);
            result::memcpy_dtoh_async(&mut host, values.pointer, gpu.stream).unwrap();
        }
        assert_eq!(host, [round - 1; 64]);
        host.fill(round);
    }
    controls().set_delay_us(0);
}

fn new_memory() {
    let gpu = Gpu::open(0);
    let before = controls().live_allocations();
    let values = gpu.buffer::<u8>(1000);
    assert_eq!(controls().live_allocations(), before + 1);
    assert_eq!(gpu.download(&values), [0xcd; 1000]);
    assert_eq!(values.pointer % 256, 0);
    assert_ne!(values.pointer % 512, 0, "no more is promised");
    let (free, total) = result::mem_get_info().unwrap();
    controls().set_memory((total - free) as u64 + 10);
    // SAFETY: memory that is not there is refused.
    let refused = unsafe { result::malloc_sync(11) };
    controls().set_memory(total as u64);
    assert_eq!(refused.map(|_| ()), Err(result::DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)));
    // SAFETY: it is not used any more.
    unsafe { result::free_sync(values.pointer) }.unwrap();
    assert_eq!(controls().live_allocations(), before);
}

fn fills() {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(8);
    // SAFETY: all are inside the buffer.
    unsafe {
        sys::cuMemsetD32Async(values.pointer + 4, 0x0102_0304, 2, gpu.stream).result().unwrap();
        sys::cuMemsetD16Async(values.pointer + 14, 0x0506, 1, gpu.stream).result().unwrap();
        result::memset_d8_async(values.pointer + 17, 9, 1, gpu.stream).unwrap();
    }
    assert_eq!(gpu.download(&values), [0, 0x0102_0304, 0x0102_0304, 0x0506_0000, 0x0900, 0, 0, 0]);
}

fn pointers() {
    use sys::CUpointer_attribute as A;
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(10);
    let mut locked = std::ptr::null_mut();
    let pageable = [0u8; 4];
    // SAFETY: the size is not zero; attributes have at most eight bytes.
    unsafe {
        sys::cuMemHostAlloc(&raw mut locked, 8, 0).result().unwrap();
        let get = |attribute, pointer| {
            let mut value = 0u64;
            let result = sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, pointer).result();
            result.map(|()| value)
        };
        let inside = values.pointer + 8;
        assert_eq!(get(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside), Ok(2));
        assert_eq!(get(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, locked.addr() as u64), Ok(1));
        let context = result::ctx::get_current().unwrap().unwrap().addr() as u64;
        assert_eq!(get(A::CU_POINTER_ATTRIBUTE_CONTEXT, inside), Ok(context));
        assert_eq!(get(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside), Ok(0));
        assert_eq!(get(A::CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), Ok(40));
        let host = pageable.as_ptr().addr() as u64;
        assert_eq!(get(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host).map_err(Err), Err(INVALID));
        // Several at once are zero of memory that is not the driver's.
        let (mut kind, mut ordinal) = (7u32, 7i32);
        let mut attributes = [A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL];
        let mut places = [(&raw mut kind).cast(), (&raw mut ordinal).cast()];
        let mut ask = |pointer| {
            sys::cuPointerGetAttributes(2, attributes.as_mut_ptr(), places.as_mut_ptr(), pointer).result()
        };
        ask(inside).unwrap();
        assert_eq!((kind, ordinal), (2, 0));
        ask(host).unwrap();
        assert_eq!((kind, ordinal), (0, 0));
        let (mut begin, mut bytes) = (0, 0);
        sys::cuMemGetAddressRange_v2(&raw mut begin, &raw mut bytes, inside).result().unwrap();
        assert_eq!((begin, bytes), (values.pointer, 40));
    }
}
