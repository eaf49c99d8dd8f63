//! Kernels that were compiled before: found without a compiler, and noticed where they are damaged.

use std::path::Path;
use std::process::{ExitCode, Output};
use std::{env, fs};

use libtest_mimic::Trial;
use zipwire_codec::{DType, Spec};
use zipwire_emulation::{Scene, scene};
use zipwire_kernels::cache::CacheUse;
use zipwire_kernels::{Coder, Device, GpuError, cache, check_code, compile_all, sources};

use crate::plain;

pub(crate) const SCENES: &[Scene] = &[Scene { name: "cached", run: load }];

pub(crate) fn trials() -> Vec<Trial> {
    let cached = |name: &str, test: fn()| plain("cache", name, test);
    vec![
        cached("compiled_before_takes_no_compiler", compiled_before),
        cached("damage_is_noticed", damage),
        cached("code_that_the_driver_refuses_is_made_anew", refused),
        cached("compile_all_can_be_stopped_and_names_its_errors", errors),
    ]
}

/// Loads kernels of `window7`, and prints what the cache has done, or the error.
fn load() -> ExitCode {
    let spec: Spec = "window7".parse().unwrap();
    let device = Device::open(0).unwrap();
    let can_be_had = check_code(Some((&spec, DType::Bf16)), "sm_90");
    match can_be_had.and_then(|()| Coder::new(&device, &spec, DType::Bf16)) {
        Ok(_) => {
            let CacheUse { found, compiled, damaged } = cache::used();
            println!("found {found}, compiled {compiled}, damaged {}", damaged.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("absent {}: {error}", error.is_absence());
            ExitCode::FAILURE
        }
    }
}

/// Runs the scene with this cache, with or without a compiler.
fn loads(cache: &Path, has_compiler: bool) -> Output {
    let libraries = env::var_os("LD_LIBRARY_PATH").unwrap();
    let mut command = scene("cached");
    command.env("ZIPWIRE_KERNEL_CACHE", cache);
    let driver = cache.join("driver");
    if !has_compiler {
        let fake = env::split_paths(&libraries).next().unwrap();
        fs::create_dir_all(&driver).unwrap();
        for name in ["libcuda.so.1", "libcuda.so"] {
            let link = driver.join(name);
            if !link.exists() {
                std::os::unix::fs::symlink(fake.join("libcuda.so.1"), link).unwrap();
            }
        }
        // A folder without the library: none of this machine is looked for.
        command.env("LD_LIBRARY_PATH", &driver).env("ZIPWIRE_NVRTC", &driver);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// A fresh folder below that of the build.
fn folder(name: &str) -> std::path::PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{name}-{}", std::process::id()));
    _ = fs::remove_dir_all(&folder);
    folder
}

fn compiled_before() {
    let cache = folder("cache");
    let missing = said(&loads(&cache, false));
    assert!(
        missing.contains("absent true") && missing.contains("pip install nvidia-cuda-nvrtc"),
        "{missing}"
    );
    let modules = compile_all("sm_90", &cache, || false).unwrap().unwrap();
    assert_eq!(modules.len(), sources().len());
    assert!(modules.iter().all(|module| module.bytes > 0 && module.path.is_file()), "{modules:?}");
    let found = said(&loads(&cache, false));
    assert!(found.contains("found 1, compiled 0, damaged 0"), "{found}");
    // Another architecture has files of its own.
    let others = compile_all("sm_80", &cache, || false).unwrap().unwrap();
    assert!(others.iter().all(|other| modules.iter().all(|module| module.path != other.path)));
    fs::remove_dir_all(cache).unwrap();
}

fn damage() {
    let cache = folder("damaged");
    let modules = compile_all("sm_90", &cache, || false).unwrap().unwrap();
    let is_loaded = |name, dtype| name == "window7" && dtype == Some(DType::Bf16);
    let file = modules.iter().find(|module| is_loaded(module.name, module.dtype)).unwrap().path.clone();
    let whole = fs::read(&file).unwrap();
    let flipped = [&[whole[0] ^ 1], &whole[1..]].concat();
    for bytes in [&flipped[..], &whole[1..], &whole[..3], &[]] {
        fs::write(&file, bytes).unwrap();
        let output = loads(&cache, false);
        let text = said(&output);
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(!output.status.success() && text.contains("damaged") && text.contains(name), "{text}");
    }
    let mended = said(&loads(&cache, true));
    assert!(mended.contains("found 0, compiled 1, damaged 1"), "{mended}");
    assert_eq!(fs::read(&file).unwrap(), whole, "the file is written anew");
    fs::remove_dir_all(cache).unwrap();
}

/// A file with a right checksum, by a compiler that is newer than the driver.
fn refused() {
    let cache = folder("refused");
    let modules = compile_all("sm_90", &cache, || false).unwrap().unwrap();
    let file = modules.iter().find(|module| (module.name, module.dtype) == ("window7", Some(DType::Bf16)));
    let file = &file.unwrap().path;
    let whole = fs::read(file).unwrap();
    let code = b"refused by this driver";
    fs::write(file, [&code[..], &xxhash_rust::xxh3::xxh3_64(code).to_le_bytes()].concat()).unwrap();
    let without = loads(&cache, false);
    assert!(!without.status.success() && said(&without).contains("cuModuleLoadData"), "{}", said(&without));
    let with = said(&loads(&cache, true));
    assert!(with.contains("found 1, compiled 1, damaged 0"), "{with}");
    assert_eq!(fs::read(file).unwrap(), whole, "the file is written anew");
    fs::remove_dir_all(cache).unwrap();
}

fn errors() {
    let place = folder("errors");
    assert!(compile_all("sm_90", &place, || true).unwrap().is_none());
    let refused = compile_all("sm_1", &place, || false).unwrap_err();
    assert!(matches!(&refused, GpuError::Compile { arch, .. } if arch == "sm_1"), "{refused}");
    fs::create_dir_all(&place).unwrap();
    let file = place.join("file");
    fs::write(&file, "").unwrap();
    let unwritten = compile_all("sm_90", &file, || false).unwrap_err();
    assert!(matches!(&unwritten, GpuError::Cache { path, .. } if path.starts_with(&file)), "{unwritten}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "nothing half written is left");
    fs::remove_dir_all(place).unwrap();
}
