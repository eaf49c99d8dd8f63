//! Steps of a batch, and the times between tokens that follow.

use zipwire_serving::{DecodeTime, Metrics, Slo, WeightTime};

use super::{Case, close, request};

const DECODE: DecodeTime =
    DecodeTime { step_s: 0.02, sequence_s: 0.001, context_token_s: 1e-6, weights: WeightTime::NONE };

/// `count` requests whose caches arrive at the same time: the first of them begins at once, and the others join it in its second step.
#[test]
fn all_of_a_batch_step_together() {
    let (count, input, output) = (5_u32, 700_u32, 40_u32);
    let mut case = Case::new(count, 1, vec![request(input, output); count as usize]);
    case.topology.gpu_bandwidth = 1e30;
    case.topology.nic_bandwidth = 1e30;
    case.compute.decode = DECODE;
    let served = case.run();
    let records = served.recorder.records();
    let joined_s = records[0].moved_s.unwrap();
    // Sequences in step 1, 2, ...: one, then all, and in the last one all but the first.
    let sequences = |step: u32| if step == 1 { 1 } else { count - u32::from(step > output) };
    let context = |step: u32| {
        let first = if step <= output { input + step - 1 } else { 0 };
        let others = if step == 1 { 0 } else { (count - 1) * (input + step - 2) };
        first + others
    };
    let step_s = |step: u32| {
        DECODE.step_s
            + f64::from(sequences(step)) * DECODE.sequence_s
            + f64::from(context(step)) * DECODE.context_token_s
    };
    let end_s = |step: u32| joined_s + (1..=step).map(step_s).sum::<f64>();
    for (index, record) in records.iter().enumerate() {
        let first = if index == 0 { 1 } else { 2 };
        let last = first + output - 1;
        close(record.first_token_s.unwrap(), end_s(first));
        close(record.end_s.unwrap(), end_s(last));
        let steps = f64::from(output - 1);
        close(record.tpot_s(output).unwrap(), (end_s(last) - end_s(first)) / steps);
    }
    let metrics = Metrics::of(&case.requests, &served.recorder, &Slo::default(), 0);
    let gaps = f64::from(count * (output - 1));
    let of_first: f64 = (2..=output).map(step_s).sum();
    let of_others: f64 = (3..=output + 1).map(step_s).sum();
    close(metrics.itl_s.unwrap().mean, (of_first + f64::from(count - 1) * of_others) / gaps);
    let counted: u64 = served.recorder.inter_token_s().iter().map(|(_, count)| count).sum();
    assert_eq!(counted, u64::from(count * (output - 1)));
    assert_eq!((metrics.finished, metrics.in_flight), (count, 0));
    let tokens = f64::from(count * output);
    close(metrics.output_tokens_per_s, tokens / metrics.duration_s);
}

/// Three sequences at a time: a request is admitted when one has left.
#[test]
fn a_batch_has_a_limit() {
    let mut case = Case::new(6, 1, vec![request(10, 4); 6]);
    case.topology.gpu_bandwidth = 1e30;
    case.topology.nic_bandwidth = 1e30;
    case.topology.latency_inter_s = 0.0;
    case.config.decode.sequences = 3;
    case.compute.decode = DecodeTime { step_s: 1.0, ..DecodeTime::default() };
    let mut ends: Vec<f64> = case.records().iter().map(|record| record.end_s.unwrap()).collect();
    ends.iter_mut().for_each(|end_s| *end_s = end_s.round());
    // The first one begins alone; each that leaves lets one in, which joins a step that has begun without it.
    assert_eq!(ends, [4.0, 5.0, 5.0, 9.0, 10.0, 10.0]);
}
