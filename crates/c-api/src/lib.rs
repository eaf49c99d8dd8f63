//! The codecs for C: `include/zipwire.h` is the interface, and says what each function does.

#![allow(unsafe_code, reason = "functions of C get pointers")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use zipwire_codec::{
    Codec, DType, DecodeError, Decoder, EncodeError, FrameInfo, FrameShape, Layout, Spec, SpecError,
};

/// Results of functions, as `enum zipwire_status` has them.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Status {
    Ok = 0,
    BadArgument = 1,
    TooShort = 2,
    BadFrame = 3,
    Internal = 4,
    Unsupported = 5,
    NoMemory = 6,
}

/// A call that fails: its result, and the message.
struct Failure(Status, String);

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        let help = error.help().map_or_else(String::new, |help| format!(" ({help})"));
        Self(Status::BadArgument, format!("{error}{help}"))
    }
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Self {
        let status = match error {
            EncodeError::DynamicBuffer { .. } => Status::TooShort,
            EncodeError::OutOfMemory { .. } => Status::NoMemory,
            _ => Status::BadArgument,
        };
        Self(status, error.to_string())
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let status = match error {
            DecodeError::OutputBuffer { .. } => Status::TooShort,
            DecodeError::OutOfMemory { .. } => Status::NoMemory,
            DecodeError::Version { .. }
            | DecodeError::UnknownCodec { .. }
            | DecodeError::UnknownTable { .. }
            | DecodeError::UnknownBase { .. } => Status::Unsupported,
            _ => Status::BadFrame,
        };
        Self(status, error.to_string())
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs a call, for which the codecs of papers are known, keeps the message of a failure for [`zipwire_message`], and lets no panic out.
fn run(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let call = || {
        zipwire_paper_codecs::register();
        call()
    };
    let panicked = |_| Err(Failure(Status::Internal, "a defect of zipwire: it panicked".to_owned()));
    let Err(Failure(status, message)) = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked) else {
        return Status::Ok as c_int;
    };
    MESSAGE.set(CString::new(message.replace('\0', " ")).unwrap_or_default());
    status as c_int
}

fn null(what: &str) -> Failure {
    Failure(Status::BadArgument, format!("`{what}` is a null pointer"))
}

fn type_of(number: c_int) -> Result<DType, Failure> {
    let dtype = usize::try_from(number).ok().and_then(|index| DType::ALL.get(index)).copied();
    dtype.ok_or_else(|| Failure(Status::BadArgument, format!("no type has the number {number}")))
}

/// # Safety
/// `text` is null, or text with a zero at the end.
unsafe fn codec_of(text: *const c_char) -> Result<Box<dyn Codec>, Failure> {
    if text.is_null() {
        return Ok(Box::new(zipwire_codec::Tiered::new()));
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    let text = text.map_err(|_| Failure(Status::BadArgument, "the codec is no UTF-8".to_owned()))?;
    Ok(text.parse::<Spec>()?.complete()?.codec())
}

/// Refuses lengths that no buffer has.
fn check_len(len: usize, what: &str) -> Result<(), Failure> {
    match isize::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure(Status::BadArgument, format!("`{what}` cannot have {len} bytes"))),
    }
}

/// # Safety
/// `at` has so many bytes that nobody writes, or is null.
unsafe fn bytes<'a>(at: *const c_void, len: usize, what: &str) -> Result<&'a [u8], Failure> {
    check_len(len, what)?;
    match (at.is_null(), len) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: the caller's.
        (false, _) => Ok(unsafe { from_raw_parts(at.cast(), len) }),
    }
}

/// Memory that C hands over counts as initialised: no compiler sees where it comes from, and codecs write what they read of it.
///
/// # Safety
/// `at` has so many bytes that nobody else reads or writes, or is null.
unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize, what: &str) -> Result<&'a mut [u8], Failure> {
    check_len(len, what)?;
    match (at.is_null(), len) {
        (true, 0) => Ok(&mut []),
        (true, _) => Err(null(what)),
        // SAFETY: the caller's.
        (false, _) => Ok(unsafe { from_raw_parts_mut(at.cast(), len) }),
    }
}

/// Writes a length, which need not be initialised.
///
/// # Safety
/// `at` can be written, or is null.
unsafe fn put(len: usize, at: *mut usize, what: &str) -> Result<(), Failure> {
    if at.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's.
    unsafe { at.write(len) };
    Ok(())
}

/// The most bytes of a frame of whole values.
fn bound_of(codec: &dyn Codec, dtype: DType, bytes: usize) -> Result<usize, Failure> {
    if !codec.supports(dtype) {
        return Err(EncodeError::Unsupported { codec: codec.id(), dtype }.into());
    }
    if !bytes.is_multiple_of(dtype.width()) {
        return Err(EncodeError::PartialValue { bytes, dtype }.into());
    }
    Ok(codec.bound(FrameShape { layout: Layout::Compact, dtype, count: bytes / dtype.width() }))
}

/// `zipwire_bound` of the header.
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipwire_bound(
    codec: *const c_char,
    dtype: c_int,
    values_bytes: usize,
    bound: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: the caller's.
        let codec = unsafe { codec_of(codec)? };
        // SAFETY: the caller's.
        unsafe { put(bound_of(&codec, type_of(dtype)?, values_bytes)?, bound, "bound") }
    })
}

/// `zipwire_compress` of the header.
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipwire_compress(
    codec: *const c_char,
    dtype: c_int,
    values: *const c_void,
    values_bytes: usize,
    frame: *mut c_void,
    capacity: usize,
    frame_bytes: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: the caller's.
        let (codec, values, frame) = unsafe {
            (codec_of(codec)?, bytes(values, values_bytes, "values")?, bytes_mut(frame, capacity, "frame")?)
        };
        let dtype = type_of(dtype)?;
        // SAFETY: the caller's.
        unsafe { put(bound_of(&codec, dtype, values_bytes)?, frame_bytes, "frame_bytes")? };
        // SAFETY: the caller's.
        unsafe {
            put(codec.encode(Layout::Compact, dtype, values, &mut [], frame)?, frame_bytes, "frame_bytes")
        }
    })
}

/// Header of a frame, as `struct zipwire_info` has it.
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    codec: [u8; 32],
    dtype: i32,
    table: u32,
    values_bytes: u64,
    frame_bytes: u64,
}

/// `zipwire_peek` of the header.
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipwire_peek(frame: *const c_void, len: usize, info: *mut Info) -> c_int {
    run(|| {
        // SAFETY: the caller's; what is written to need not be initialised.
        let frame = unsafe { bytes(frame, len, "frame")? };
        if info.is_null() {
            return Err(null("info"));
        }
        let found = FrameInfo::peek(frame)?;
        let mut codec = [0; 32];
        let id = &found.codec.as_bytes()[..found.codec.len().min(codec.len() - 1)];
        codec[..id.len()].copy_from_slice(id);
        let dtype = DType::ALL.iter().position(|dtype| *dtype == found.shape.dtype);
        let read = Info {
            codec,
            dtype: dtype.map_or(-1, |position| position as i32),
            table: found.table.unwrap_or(0),
            values_bytes: found.shape.values_len() as u64,
            frame_bytes: found.frame_len() as u64,
        };
        // SAFETY: the caller's.
        unsafe { info.write(read) };
        Ok(())
    })
}

/// `zipwire_decompress` of the header.
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipwire_decompress(
    frame: *const c_void,
    frame_bytes: usize,
    values: *mut c_void,
    capacity: usize,
    values_bytes: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: the caller's.
        let (frame, values) =
            unsafe { (bytes(frame, frame_bytes, "frame")?, bytes_mut(values, capacity, "values")?) };
        // SAFETY: the caller's.
        unsafe { put(FrameInfo::peek(frame)?.shape.values_len(), values_bytes, "values_bytes")? };
        // SAFETY: the caller's.
        unsafe { put(Decoder::new().decompress_into(frame, values)?, values_bytes, "values_bytes") }
    })
}

/// `zipwire_message` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn zipwire_message() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// `zipwire_version` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn zipwire_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zeros"),
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_the_header() {
        let header = include_str!("../include/zipwire.h");
        for (number, dtype) in DType::ALL.into_iter().enumerate() {
            let line = format!("ZIPWIRE_{} = {number}", dtype.name());
            assert!(header.contains(&line), "{line}");
        }
    }
}
