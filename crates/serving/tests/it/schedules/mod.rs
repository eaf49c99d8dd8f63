//! Random schedules of the machine: whatever order things happen in, nothing is lost, served twice or kept for ever.

mod case;
mod follow;
mod play;

/// Runs the schedules of these seeds; the seed of one that fails is printed before its report.
fn play_all(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let played = std::panic::catch_unwind(|| play::play(seed));
        if let Err(report) = played {
            eprintln!("schedule of seed {seed}: {:?}", case::Case::new(seed).config);
            std::panic::resume_unwind(report);
        }
    }
}

#[test]
fn all_requests_end_and_nothing_is_held() {
    play_all(0..4000);
}

mod whole {
    #[test]
    #[ignore = "a minute: .ci/run runs it, and the short form is beside it"]
    fn all_requests_end_and_nothing_is_held() {
        super::play_all(4000..40_000);
    }
}
