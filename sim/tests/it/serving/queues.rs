//! Waits in front of prefill against queueing theory, and against the recursions that waits follow on the same requests.
//!
//! Requests of one token that prefill makes never move, so prefill instances are the servers of a queue. The mean wait of many requests
//! converges slowly: the load stays at 0.7 or below, the short forms here allow what 10^5 requests leave to chance, and the whole
//! forms hold 10^6 to a hundredth; where service is random, the mean of four times as many, as 10^6 leave about that much to chance. The
//! recursions hold each single request in both.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use zipwire_serving::{FirstToken, Placement, PrefillTime};

use super::{Case, arriving};

/// Tokens of a mean service time: rounding to whole ones is far below what is compared.
const MEAN_TOKENS: f64 = 1e5;

/// Prompts that arrive as a Poisson process of `rate` per mean service time.
fn case(
    count: usize,
    servers: u32,
    rate: f64,
    is_exponential: bool,
    placement: Placement,
    seed: u64,
) -> Case {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut now_s = 0.0;
    let mut draw = || -> f64 { Exp1.sample(random) };
    let list = (0..count).map(|_| {
        now_s += draw() / rate;
        let service = if is_exponential { draw() } else { 1.0 };
        arriving(now_s, (service * MEAN_TOKENS).round().max(1.0) as u32, 1)
    });
    let mut case = Case::new(servers, 1, list.collect());
    case.compute.prefill = PrefillTime { token_s: 1.0 / MEAN_TOKENS, ..PrefillTime::default() };
    case.config.first_token = FirstToken::Prefill;
    case.config.placement = placement;
    case
}

/// Waits of all requests, each compared with what `expected` says, and their mean.
fn mean_wait(case: &Case, expected: impl FnOnce(&[(f64, f64)]) -> Vec<f64>) -> f64 {
    let token_s = case.compute.prefill.token_s;
    let jobs: Vec<_> = case
        .requests
        .list()
        .iter()
        .map(|request| (request.arrival_s, f64::from(request.input_tokens) * token_s))
        .collect();
    let expected = expected(&jobs);
    let records = case.records();
    let mut sum = 0.0;
    for (index, record) in records.iter().enumerate() {
        let wait_s = record.prefill_begin_s.unwrap() - record.arrival_s;
        assert!(
            (wait_s - expected[index]).abs() < 1e-5,
            "request {index}: {wait_s} s, not {}",
            expected[index]
        );
        sum += wait_s;
    }
    sum / records.len() as f64
}

/// Lindley: who comes waits for what is left of those before.
fn of_one_server(jobs: &[(f64, f64)]) -> Vec<f64> {
    let mut free_s = 0.0_f64;
    let wait = |&(arrival_s, service_s): &(f64, f64)| {
        let begin_s = free_s.max(arrival_s);
        free_s = begin_s + service_s;
        begin_s - arrival_s
    };
    jobs.iter().map(wait).collect()
}

/// Kiefer and Wolfowitz: who comes goes to the server that is free first.
fn of_two_servers(jobs: &[(f64, f64)]) -> Vec<f64> {
    let mut free_s = [0.0_f64; 2];
    let wait = |&(arrival_s, service_s): &(f64, f64)| {
        free_s.sort_by(f64::total_cmp);
        let begin_s = free_s[0].max(arrival_s);
        free_s[0] = begin_s + service_s;
        begin_s - arrival_s
    };
    jobs.iter().map(wait).collect()
}

/// Two queues that get every other request.
fn of_two_queues(jobs: &[(f64, f64)]) -> Vec<f64> {
    let part = |first: usize| of_one_server(&jobs.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
    let (even, odd) = (part(0), part(1));
    (0..jobs.len()).map(|index| if index % 2 == 0 { even[index / 2] } else { odd[index / 2] }).collect()
}

fn check(name: &str, found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    println!("{name}: mean wait {found:.5}, theory {expected:.5}, {:+.2} %", 100.0 * error);
    assert!(error.abs() < tolerance, "{name}: {found} instead of {expected}");
}

/// The mean of so many runs with seeds of their own.
fn mean_of(runs: u64, run: impl Fn(u64) -> f64) -> f64 {
    (0..runs).map(run).sum::<f64>() / runs as f64
}

/// Pollaczek and Khinchin, with service times that are all 1: `load / (2 (1 - load))`.
fn one_server_of_constant_service(count: usize, tolerance: f64) {
    for load in [0.3, 0.5, 0.7] {
        let case = case(count, 1, load, false, Placement::LeastLoaded, 0);
        let found = mean_wait(&case, of_one_server);
        check(&format!("M/D/1 at {load}"), found, load / (2.0 * (1.0 - load)), tolerance);
    }
}

/// Erlang C of two servers at `load` each: who comes waits with probability `2 load^2 / (1 + load)`, for `1 / (2 (1 - load))` then.
fn two_servers_of_one_queue(runs: u64, count: usize, tolerance: f64) {
    for load in [0.5, 0.7] {
        let found = mean_of(runs, |seed| {
            mean_wait(&case(count, 2, 2.0 * load, true, Placement::SharedQueue, seed), of_two_servers)
        });
        let expected = 2.0 * load * load / (1.0 + load) / (2.0 * (1.0 - load));
        check(&format!("M/M/2 at {load}"), found, expected, tolerance);
    }
}

/// Every other request of a Poisson process comes after two exponential times, whose transform is `(rate / (rate + s))^2`. The wait is that of
/// G/M/1: `root / (1 - root)`, where `root` below 1 solves `root = transform(1 - root)`.
fn two_servers_in_turn(runs: u64, count: usize, tolerance: f64) {
    for load in [0.5, 0.7] {
        let rate = 2.0 * load;
        let found = mean_of(runs, |seed| {
            mean_wait(&case(count, 2, rate, true, Placement::RoundRobin, seed), of_two_queues)
        });
        let transform = |s: f64| (rate / (rate + s)) * (rate / (rate + s));
        let root = (0..1000).fold(0.0, |root: f64, _| transform(1.0 - root));
        check(&format!("E2/M/1 at {load}"), found, root / (1.0 - root), tolerance);
    }
}

#[test]
fn a_server_of_constant_service_is_md1() {
    one_server_of_constant_service(100_000, 0.03);
}

#[test]
fn a_shared_queue_is_mm2() {
    two_servers_of_one_queue(1, 100_000, 0.05);
}

#[test]
fn round_robin_is_two_queues_of_erlang_arrivals() {
    two_servers_in_turn(1, 100_000, 0.05);
}

mod whole {
    const COUNT: usize = 1_000_000;

    #[test]
    #[ignore = "ten times as many requests: .ci/run runs it, and the short form is beside it"]
    fn a_server_of_constant_service_is_md1() {
        super::one_server_of_constant_service(COUNT, 0.01);
    }

    #[test]
    #[ignore = "ten times as many requests: .ci/run runs it, and the short form is beside it"]
    fn a_shared_queue_is_mm2() {
        super::two_servers_of_one_queue(4, COUNT, 0.01);
    }

    #[test]
    #[ignore = "ten times as many requests: .ci/run runs it, and the short form is beside it"]
    fn round_robin_is_two_queues_of_erlang_arrivals() {
        super::two_servers_in_turn(4, COUNT, 0.01);
    }
}
