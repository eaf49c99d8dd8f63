//! Memory of a device, and memory of the host that it copies from and to.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::Device;
use crate::error::{GpuError, check};

/// Bytes on a device. Freed with the last region of it, after all work of the device is done, if they were allocated here.
#[derive(Debug)]
pub struct DeviceBuffer {
    address: sys::CUdeviceptr,
    device: Device,
    is_owned: bool,
}

/// A range of a [`DeviceBuffer`], which lives as long as its regions.
#[derive(Clone, Debug)]
pub struct DeviceRegion {
    buffer: Arc<DeviceBuffer>,
    offset: u64,
    len: u64,
}

/// Page-locked bytes of the host, which copies of a device's streams read and write while the program goes on. There are no
/// references to them: what is read before a copy is known to be done is old or new.
#[derive(Debug)]
pub struct HostBuffer {
    bytes: *mut u8,
    len: u64,
    device: Device,
}

// SAFETY: it is only an address that the device can be told; the driver's calls can be made from any thread.
unsafe impl Send for DeviceBuffer {}
// SAFETY: as above.
unsafe impl Sync for DeviceBuffer {}
// SAFETY: the bytes are read and written by volatile accesses and by the device only.
unsafe impl Send for HostBuffer {}
// SAFETY: as above.
unsafe impl Sync for HostBuffer {}

impl DeviceBuffer {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl DeviceRegion {
    /// `len` bytes with any content, at an address that is a multiple of 256. May wait for the device.
    ///
    /// # Errors
    /// If there is no room.
    pub fn allocate(device: &Device, len: u64) -> Result<Self, GpuError> {
        device.bind()?;
        // The driver has no empty allocations.
        let room = usize::try_from(len.max(1)).expect("lengths have as many bits as addresses");
        // SAFETY: nothing reads the bytes as anything but bytes.
        let address = check("cuMemAlloc", unsafe { result::malloc_sync(room) })?;
        let buffer = Arc::new(DeviceBuffer { address, device: device.clone(), is_owned: true });
        Ok(Self { buffer, offset: 0, len })
    }

    /// Memory that somebody else has allocated, such as the tensors of a caller. It is not freed here.
    ///
    /// # Safety
    /// There must be `len` bytes at the address that kernels and copies of the device reach, for as long as this region or a part of it is used.
    pub unsafe fn foreign(device: &Device, address: u64, len: u64) -> Self {
        let buffer = Arc::new(DeviceBuffer { address, device: device.clone(), is_owned: false });
        Self { buffer, offset: 0, len }
    }

    /// The buffer that it is in.
    pub fn buffer(&self) -> &DeviceBuffer {
        &self.buffer
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it.
    ///
    /// # Panics
    /// If the range is not within it.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} is within {} bytes", self.len);
        Self { buffer: self.buffer.clone(), offset: self.offset + range.start, len: range.end - range.start }
    }

    /// Writes it, and waits for that.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn write(&self, bytes: &[u8]) -> Result<(), GpuError> {
        assert_eq!(bytes.len() as u64, self.len, "a region is written whole");
        // SAFETY: the region is within a live allocation and as long as the bytes.
        unsafe { self.buffer.device.upload(self.address(), bytes) }
    }

    /// Reads it, and waits for that. What streams have queued is not waited for.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn read(&self) -> Result<Vec<u8>, GpuError> {
        self.buffer.device.bind()?;
        let mut bytes = vec![0; self.len as usize];
        // SAFETY: the region is within a live allocation and as long as the bytes.
        check("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(&mut bytes, self.address()) })?;
        Ok(bytes)
    }

    /// Address on the device, for other libraries that queue work. It is valid while a region of its buffer lives.
    pub fn address(&self) -> u64 {
        self.buffer.address + self.offset
    }
}

impl HostBuffer {
    /// `len` bytes, all zero.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(device: &Device, len: u64) -> Result<Self, GpuError> {
        device.bind()?;
        let room = usize::try_from(len.max(1)).expect("lengths have as many bits as addresses");
        // SAFETY: the flags are known ones.
        let bytes = check("cuMemHostAlloc", unsafe { result::malloc_host(room, 0) })?.cast::<u8>();
        // SAFETY: there are that many bytes, and nobody else knows them yet.
        unsafe { bytes.write_bytes(0, room) };
        Ok(Self { bytes, len, device: device.clone() })
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes out, from `offset` on.
    ///
    /// # Panics
    /// If they are not within the buffer.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let from = self.pointer(offset, bytes.len() as u64);
        // SAFETY: the range is within the allocation, and no reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Copies bytes in, from `offset` on. No copy that reads them may be queued.
    ///
    /// # Panics
    /// If they are not within the buffer.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.pointer(offset, bytes.len() as u64);
        // SAFETY: the range is within the allocation, and no reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// The number of 64 bits at `offset`, little-endian.
    ///
    /// # Panics
    /// If it is not within the buffer.
    pub fn read_u64(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// The address of `len` bytes from `offset` on.
    pub(crate) fn pointer(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "within {} bytes", self.len);
        // SAFETY: the offset is within the allocation.
        unsafe { self.bytes.add(offset as usize) }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if !self.is_owned {
            return;
        }
        // What is queued may still use it.
        let done = self.device.synchronize();
        // SAFETY: it was allocated once, and nothing uses it any more.
        let freed = unsafe { result::free_sync(self.address) };
        debug_assert!(done.is_err() || freed.is_ok(), "{freed:?}");
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let done = self.device.synchronize();
        // SAFETY: it was allocated once, and nothing uses it any more.
        let freed = unsafe { result::free_host(self.bytes.cast()) };
        debug_assert!(done.is_err() || freed.is_ok(), "{freed:?}");
    }
}
