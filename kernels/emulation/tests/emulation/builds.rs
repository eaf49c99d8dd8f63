//! Builds, their cache, and a missing compiler.

use std::process::Command;

use zipwire_emulation::{BuildError, Emulation};

use crate::{SOURCES, Test};

pub(crate) const TESTS: &[Test] = &[
    ("builds::faulty_sources_are_refused", faulty_sources),
    ("builds::the_subset_is_enforced", the_subset),
    ("builds::equal_sources_are_built_once", once),
    ("builds::two_builds_at_a_time_agree", two_at_a_time),
    ("builds::sources_compile_without_warnings", without_warnings),
    ("builds::without_a_compiler_all_tests_are_ignored", without_a_compiler),
];

fn faulty_sources() {
    let build = |sources: &[&str]| Emulation::build(sources, "faulty").unwrap_err();
    let kernel = "extern \"C\" __global__ void one() {}";
    assert!(matches!(
        build(&["// extern \"C\" __global__ void none() {}"]),
        BuildError::NoKernel { index: 0 }
    ));
    assert!(matches!(build(&[kernel, kernel]), BuildError::Twice { name } if name == "one"));
    let error = build(&["extern \"C\" __global__ void one() {\n  undefined();\n}"]);
    assert!(matches!(&error, BuildError::Compile { .. }) && !error.is_absence(), "{error}");
    assert!(error.to_string().contains("kernel.cu:2:"), "lines are those of the source: {error}");
}

fn the_subset() {
    let error = Emulation::build(
        &["extern \"C\" __global__ void one(unsigned* out) { *out = __activemask(); }"],
        "outside",
    );
    assert!(error.unwrap_err().to_string().contains("not in the portable subset"));
}

fn once() {
    let inherited = std::env::var("FAKECUDA_MODULES").unwrap();
    let built = || std::env::split_paths(&inherited).map(|file| file.metadata().unwrap().modified().unwrap());
    let before: Vec<_> = built().collect();
    let again = Emulation::build(&SOURCES, "tests").unwrap();
    assert!(again.environment().contains(&("FAKECUDA_MODULES".into(), inherited.clone().into())));
    assert!(built().eq(before));
}

fn two_at_a_time() {
    let source = format!("extern \"C\" __global__ void fresh() {{}} // {}", std::process::id());
    let environments = std::thread::scope(|scope| {
        let build = || Emulation::build(&[&source], "fresh").unwrap().environment();
        let threads = [scope.spawn(build), scope.spawn(build)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(environments[0], environments[1]);
    // Nobody will ask for it again.
    let modules = environments[0].iter().find(|(name, _)| name == "FAKECUDA_MODULES").unwrap();
    std::fs::remove_dir_all(std::path::Path::new(&modules.1).parent().unwrap()).unwrap();
}

fn without_warnings() {
    assert_eq!(Emulation::build(&SOURCES, "tests").unwrap().warnings(), "");
}

fn without_a_compiler() {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.env_remove("ZIPWIRE_EMULATION_CHILD").env("CXX", "no-such-compiler");
    let output = program.output().unwrap();
    let (tests, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains("there is no C++ compiler `no-such-compiler`"),
        "{said}"
    );
    assert!(tests.contains("kernels::block_reduction") && tests.contains(" 0 passed; 0 failed;"), "{tests}");
}
