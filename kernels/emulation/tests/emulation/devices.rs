//! Properties of devices, contexts, and the fake compiler.

use cudarc::driver::{result, sys};
use cudarc::nvrtc;
use zipwire_emulation::Controls;

use crate::Test;
use crate::gpu::Gpu;

pub(crate) const TESTS: &[Test] = &[
    ("devices::say_what_they_are", say_what_they_are),
    ("devices::have_contexts_of_their_own", contexts),
    ("devices::none_is_an_error", none),
    ("devices::programs_compile_to_nothing", programs),
    ("devices::launches_are_checked", launches_are_checked),
];

fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

fn say_what_they_are() {
    // SAFETY: libraries are only looked for.
    assert!(unsafe { sys::is_culib_present() && nvrtc::sys::is_culib_present() });
    result::init().unwrap();
    let device = result::device::get(0).unwrap();
    assert_eq!(result::device::get_name(device).unwrap(), "emulated device 0");
    use sys::CUdevice_attribute as A;
    // SAFETY: the device exists.
    let attribute = |a| unsafe { result::device::get_attribute(device, a) }.unwrap();
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 9);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
    let mut version = 0;
    // SAFETY: the call writes one number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().unwrap();
    assert_eq!(version, 13000);
    assert!(
        format!("{}", result::DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)).contains("device not ready")
    );
}

fn contexts() {
    controls().set_devices(2);
    let gpus = [Gpu::open(0), Gpu::open(1)];
    let context = |ordinal| {
        let device = result::device::get(ordinal).unwrap();
        // SAFETY: the device exists, and its context is never released.
        unsafe { result::primary_ctx::retain(device) }.unwrap()
    };
    let [first, second] = [context(0), context(1)];
    let on = |context| {
        // SAFETY: contexts are never released.
        unsafe { result::ctx::set_current(context) }.unwrap();
    };
    on(first);
    let a = gpus[0].upload(&[1u8; 10]);
    on(second);
    let b = gpus[1].zeros::<u8>(10);
    gpus[1].synchronize().unwrap();
    let stream = gpus[0].stream;
    // SAFETY: both buffers have ten bytes.
    let copy = |to, from| unsafe { result::memcpy_peer_async(to, b.pointer, from, a.pointer, 10, stream) };
    assert!(copy(first, second).is_err(), "these are the wrong contexts");
    copy(second, first).unwrap();
    gpus[0].synchronize().unwrap();
    assert_eq!(gpus[1].download(&b), [1; 10]);
    let other = gpus[1].launch_on(gpus[0].stream, "diverge", 1, 32, 0, &mut [b.arg()]);
    assert_eq!(other, Err(result::DriverError(sys::CUresult::CUDA_ERROR_INVALID_HANDLE)));
    controls().set_devices(1);
    assert!(result::device::get(1).is_err());
    on(first);
    let mut top = std::ptr::null_mut();
    // SAFETY: contexts are never released.
    unsafe {
        sys::cuCtxPushCurrent_v2(second).result().unwrap();
        assert_eq!(result::ctx::get_current(), Ok(Some(second)));
        sys::cuCtxPopCurrent_v2(&raw mut top).result().unwrap();
    }
    assert_eq!((top, result::ctx::get_current()), (second, Ok(Some(first))));
    std::thread::spawn(|| {
        // SAFETY: the call fails.
        let allocated = unsafe { result::malloc_sync(1) };
        let expected = result::DriverError(sys::CUresult::CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(allocated, Err(expected), "a new thread has no current context");
    })
    .join()
    .unwrap();
}

fn none() {
    controls().set_devices(0);
    let initialized = result::init();
    controls().set_devices(1);
    assert_eq!(initialized, Err(result::DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)));
}

fn programs() {
    let program = nvrtc::result::create_program(c"extern \"C\" __global__ void any() {}", None).unwrap();
    // SAFETY: the program lives until it is destroyed below, and buffers have the size that was asked for.
    unsafe {
        assert!(nvrtc::result::compile_program(program, &["--gpu-architecture=sm_12"]).is_err());
        nvrtc::result::compile_program(program, &["--gpu-architecture=sm_90", "--std=c++17"]).unwrap();
        let mut bytes = 0;
        assert_eq!(nvrtc::sys::nvrtcGetCUBINSize(program, &raw mut bytes).result(), Ok(()));
        let mut cubin = vec![0u8; bytes];
        assert_eq!(nvrtc::sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()).result(), Ok(()));
        assert!(String::from_utf8_lossy(&cubin).contains("sm_90"));
        assert!(!nvrtc::result::get_ptx(program).unwrap().is_empty());
        assert_eq!(nvrtc::result::get_program_log(program).unwrap(), [0]);
        nvrtc::result::destroy_program(program).unwrap();
        let (mut major, mut minor) = (0, 0);
        assert_eq!(nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor).result(), Ok(()));
        assert_eq!((major, minor), (13, 0));
    }
}

fn launches_are_checked() {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(1024);
    let launch = |blocks, threads| {
        let args = &mut [values.arg(), values.arg()];
        gpu.launch_on(gpu.stream, "block_sums", blocks, threads, 0, args).map_err(|error| error.0)
    };
    assert_eq!(launch(1, 257), Err(sys::CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
    assert_eq!(launch(1, 1025), Err(sys::CUresult::CUDA_ERROR_INVALID_VALUE));
    assert_eq!(launch(0, 256), Err(sys::CUresult::CUDA_ERROR_INVALID_VALUE));
    assert_eq!(launch(1, 256), Ok(()));
    gpu.synchronize().unwrap();
}
