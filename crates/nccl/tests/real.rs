//! The library that NVIDIA publishes, where `ZIPWIRE_NCCL_LIB` names it; a GPU is not needed. Without it the tests are reported as ignored.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use zipwire_emulation::Emulation;
use zipwire_kernels::Device;
use zipwire_nccl_binding::{Communicator, Config, LIBRARY_VARIABLE, UniqueId, Version, library};

/// Tells a process that it was started below the fake driver.
const CHILD: &str = "ZIPWIRE_NCCL_CHILD";

fn main() -> ExitCode {
    if env::var_os(CHILD).is_some() {
        begin_below_the_fake_driver();
        return ExitCode::SUCCESS;
    }
    let is_named = env::var_os(LIBRARY_VARIABLE).is_some_and(|named| !named.is_empty());
    let tests = [
        ("version_and_file_are_told", version_and_file_are_told as fn() -> Result<(), Failed>),
        ("ids_differ_and_are_bytes", ids_differ_and_are_bytes),
        ("communicator_without_a_gpu_is_refused_with_the_error_of_cuda", communicator_is_refused),
    ];
    let trial = |(name, test)| Trial::test(name, test).with_ignored_flag(!is_named);
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().map(trial).collect()).exit_code()
}

fn version_and_file_are_told() -> Result<(), Failed> {
    let library = library()?;
    assert!(library.version() >= Version::OLDEST, "{}", library.version());
    assert!(library.path().is_file(), "{}", library.path().display());
    assert!(library.version().to_string().starts_with("2."), "{}", library.version());
    Ok(())
}

fn ids_differ_and_are_bytes() -> Result<(), Failed> {
    let [one, other] = [library()?.unique_id()?, library()?.unique_id()?];
    assert_ne!(one, other);
    assert_eq!(UniqueId::from_bytes(one.to_bytes()), one);
    Ok(())
}

fn communicator_is_refused() -> Result<(), Failed> {
    let emulation = match Emulation::build(&[], "nccl") {
        Ok(emulation) => emulation,
        Err(error) if error.is_absence() => {
            eprintln!("without a driver there is no device to begin on: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut command = Command::new(env::current_exe()?);
    command.envs(emulation.environment()).env(CHILD, "1");
    command.env(LIBRARY_VARIABLE, env::var_os(LIBRARY_VARIABLE).ok_or("no library is named")?);
    let output = command.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The fake driver has a device, and lacks most of what NCCL asks a driver for.
fn begin_below_the_fake_driver() {
    let device = Device::open(0).unwrap();
    let library = library().unwrap();
    let id = library.unique_id().unwrap();
    let error = Communicator::begin(library, &device, &id, 0, 1, &Config::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("ncclCommInitRankConfig: ncclUnhandledCudaError: "), "{text}");
    let last = library.last_error().unwrap();
    assert!(text.ends_with(&format!(" ({last})")), "{text}");
    eprintln!("{text}");
}
