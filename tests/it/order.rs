//! Sequence of ops in a simulated iteration, read from the timelines of whole scenarios.

use std::path::Path;

use zipwire::executors::SIM;
use zipwire::scenarios::{Source, load};
use zipwire::schedule::{Lane, Rank};
use zipwire::timeline::Timeline;
use zipwire::{Cancel, Prepared};

/// Simulated timelines of all variants of a smoke scenario.
fn timelines(scenario: &str, sets: &[&str]) -> Vec<Timeline> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/smoke/{scenario}.toml"));
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let experiment = load(&Source::read(&file).unwrap(), &sets, None).unwrap();
    let mut prepared = Prepared::new(&experiment, &Cancel::new()).unwrap();
    (0..experiment.variants.len()).map(|i| prepared.run(i, SIM, &Cancel::new()).unwrap().timeline).collect()
}

/// Begin and end of all spans of a segment on a rank.
fn extent(timeline: &Timeline, iteration: u32, rank: Rank, segment: &str) -> Option<(f64, f64)> {
    let id = timeline.segments.iter().position(|name| **name == *segment).unwrap();
    let spans = timeline
        .spans
        .iter()
        .filter(|span| (span.iteration, span.rank, span.segment.index()) == (iteration, rank, id));
    spans.map(|span| (span.begin_s, span.end_s)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

#[test]
fn segments_of_a_layer_follow_one_another_on_every_rank() {
    for timeline in timelines("moe-zipf-1x4", &["compute.expert=30 us"]) {
        assert_eq!(
            timeline.segments.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["skew", "dispatch", "expert-skew", "expert", "combine"]
        );
        for iteration in 0..timeline.iterations.len() as u32 {
            for rank in (0..timeline.rank_count).map(Rank) {
                let extents: Vec<(f64, f64)> = timeline
                    .segments
                    .iter()
                    .filter_map(|name| extent(&timeline, iteration, rank, name))
                    .collect();
                assert_eq!(extents.len(), 5);
                for pair in extents.windows(2) {
                    assert!(pair[0].1 <= pair[1].0, "{iteration} {rank}: {extents:?}");
                }
            }
        }
    }
}

#[test]
fn a_late_rank_neither_sends_nor_receives() {
    for timeline in timelines("all-to-all-late-1x4", &[]) {
        for rank in (0..timeline.rank_count).map(Rank) {
            let (_, ready_s) = extent(&timeline, 0, rank, "start").unwrap();
            let early = timeline.spans.iter().find(|span| {
                (span.iteration, span.rank) == (0, rank)
                    && span.lane != Lane::Compute
                    && span.begin_s < ready_s
            });
            assert_eq!(early, None);
        }
    }
}
