//! A trace of a real job: rank 0 of two, DistributedDataParallel on A100, of the test data of Holistic Trace Analysis.

use std::path::Path;

use zipwire_profiles::{CollectiveOp, merge, read_kineto, summarise};

#[test]
fn a_real_trace_has_the_numbers_that_were_counted_by_other_means() {
    const NAME: &str = "hta-ddp-rank0.json.gz";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/samples/profiles").join(NAME);
    #[expect(clippy::disallowed_methods, reason = "the library opens no files, and this is its test")]
    let bytes = std::fs::read(path).unwrap();
    let profile = merge(vec![read_kineto(NAME, &bytes[..]).unwrap()]).unwrap();
    // Counted by a program that loads all of the JSON and goes over pairs of intervals.
    let rank = &profile.ranks[0];
    assert_eq!((rank.rank, profile.world_size, profile.ranks_missing.len()), (0, 2, 1));
    assert_eq!((rank.span_ns, rank.compute_ns), (660_551_005, 115_655_847));
    assert_eq!((rank.communication_ns, rank.exposed_ns), (46_876_493, 39_559_468));
    let sums: Vec<_> = summarise(&profile).iter().map(|sum| (sum.op, sum.calls, sum.bytes)).collect();
    assert_eq!(sums, [(CollectiveOp::AllReduce, 15, 306_684_384), (CollectiveOp::Broadcast, 6, 638_712)]);
    let reduced = profile.ops.iter().filter(|op| op.op == CollectiveOp::AllReduce);
    assert_eq!(reduced.map(|op| op.duration_ns).sum::<i64>(), 46_762_159);
    assert_eq!(profile.ops.iter().filter(|op| op.dtype == "Long").count(), 3);
    assert_eq!((profile.not_used.len(), profile.not_used[0].count), (1, 960 + 114));
}
