//! `zipwire kernels compile`, and programs that find what it wrote where there is no compiler.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use serde_json::Value;

fn zipwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command.args(arguments);
    command
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// A folder with the fake driver and no compiler, which the process is to take its libraries from.
fn without_compiler<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    let libraries = env::var_os("LD_LIBRARY_PATH").unwrap();
    let fake = env::split_paths(&libraries).next().unwrap();
    fs::create_dir_all(folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        if !folder.join(name).exists() {
            std::os::unix::fs::symlink(fake.join("libcuda.so.1"), folder.join(name)).unwrap();
        }
    }
    command.env("LD_LIBRARY_PATH", folder).env("ZIPWIRE_NVRTC", folder)
}

pub(crate) fn compiled_kernels_take_no_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, driver) = (folder.path().join("cache"), folder.path().join("driver"));
    let cache_name = cache.to_str().unwrap();
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/smoke/reduce-scatter-algorithms-2x3.toml");
    let out = folder.path().join("out");
    let run = [
        "run",
        scenario.to_str().unwrap(),
        "--on",
        "cuda",
        "--variant",
        "static-first",
        "--out",
        out.to_str().unwrap(),
    ];
    let run = || {
        without_compiler(&mut zipwire(&run), &driver).env("ZIPWIRE_KERNEL_CACHE", &cache).output().unwrap()
    };
    let absent = run();
    let text = said(&absent);
    assert!(absent.status.code() == Some(3) && text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
    let absent = ["kernels", "compile", "--arch", "sm_90", "-o", cache_name];
    let absent = without_compiler(&mut zipwire(&absent), &driver).output().unwrap();
    let text = said(&absent);
    assert!(absent.status.code() == Some(3) && text.contains("pip install nvidia-cuda-nvrtc"), "{text}");

    let compiled =
        zipwire(&["kernels", "compile", "--arch", "sm_90", "-o", cache_name, "--json"]).output().unwrap();
    assert!(compiled.status.success(), "{}", said(&compiled));
    let report: Value = serde_json::from_slice(&compiled.stdout).unwrap();
    let modules = report["modules"].as_array().unwrap();
    assert_eq!((&report["arch"], modules.len()), (&"sm_90".into(), fs::read_dir(&cache).unwrap().count()));
    let found = run();
    assert!(found.status.success(), "{}", said(&found));
    let bench = ["bench", "gpu", "--codec", "window7", "--compare-only", "--json"];
    let mut bench = zipwire(&bench);
    let found = without_compiler(&mut bench, &driver).env("ZIPWIRE_KERNEL_CACHE", &cache).output().unwrap();
    let report: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(report["cache"]["found"], 1, "{}", said(&found));
}

pub(crate) fn refusals_of_compile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let compile = |arch: &str, out: &Path| {
        zipwire(&["kernels", "compile", "--arch", arch, "-o", out.to_str().unwrap()]).output().unwrap()
    };
    let refused = |output: Output, code: i32, part: &str| {
        let text = said(&output);
        assert!(output.status.code() == Some(code) && text.contains(part), "{text}");
    };
    refused(compile("../../sm_90", &file), 2, "for instance `sm_90`");
    refused(compile("sm_17", &file), 1, "cannot be compiled for `sm_17`");
    refused(compile("sm_90", &file), 1, "name another folder");
    // Without `-o` it is the cache, which the emulation has switched off.
    let output = zipwire(&["kernels", "compile", "--arch", "sm_90"]).output().unwrap();
    refused(output, 2, "`-o FOLDER` names a folder");
}
