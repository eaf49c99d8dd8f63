//! Libraries of other versions.

use std::process::ExitCode;

use zipwire_emulation::{Scene, scene};
use zipwire_nccl_binding::{NcclError, Version, library};

use crate::Test;
use crate::ranks::fake;
use crate::{collectives, transfers};

pub(crate) const TESTS: &[Test] = &[
    ("versions::the_newest_that_is_known", || assert_eq!(fake().version(), Version::new(2, 30, 7))),
    ("versions::the_oldest_that_is_worked_with", || play("oldest", "21903")),
    ("versions::one_that_is_too_old_is_refused", || play("too_old", "21805")),
];

pub(crate) const SCENES: &[Scene] =
    &[Scene { name: "oldest", run: oldest }, Scene { name: "too_old", run: too_old }];

fn play(name: &str, version: &str) {
    let output = scene(name).env("FAKENCCL_VERSION", version).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn oldest() -> ExitCode {
    assert_eq!(fake().version(), Version::new(2, 19, 3));
    transfers::all_pairs_in_a_group_and_of_any_length();
    collectives::broadcast_from_each_rank();
    collectives::all_gather_also_in_place();
    collectives::all_to_all_moves_equal_parts();
    collectives::all_reduce_adds_up_values_of_all_types();
    collectives::reduce_scatter_gives_each_rank_its_part();
    ExitCode::SUCCESS
}

fn too_old() -> ExitCode {
    let error = library().unwrap_err();
    let NcclError::TooOld { library, found } = &error else { panic!("{error}") };
    assert!(library.ends_with("libnccl.so.2") && library.is_file(), "{}", library.display());
    assert_eq!(*found, Version::new(2, 18, 5));
    let text = error.to_string();
    assert!(text.contains("is version 2.18.5, and at least 2.19.0 is needed\nhelp: "), "{text}");
    assert!(text.contains("nvidia-nccl-cu13") && text.contains("ZIPWIRE_NCCL_LIB"), "{text}");
    assert!(error.is_absence());
    ExitCode::SUCCESS
}
