//! Random jobs, and random ways in which their calls travel.

use std::sync::Arc;

use ndarray::Array2;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{DType, Layout};
use zipwire_schedule::plan::{Local, OpKind};
use zipwire_schedule::{
    Algorithm, CallKind, Channel, Choice, Flow, Job, Order, Pace, Plan, Protocol, Rank, RankRange, Segment,
    Selection, Slot, SumType, TokenMap, Work, plan_each,
};

/// Codecs, whose frames divide into sections differently. A plan has one.
const CODECS: [&str; 3] = ["tiered", "window7", "codebook16"];

/// Buffers of every rank.
const SLOTS: [&str; 4] = ["a", "b", "c", "d"];

/// A plan that can be carried out, and by whom.
pub(crate) struct Case {
    pub(crate) job: Job,
    pub(crate) plan: Plan,
    /// Protocols of its calls and flows, each once, in the order of [`Protocol::ALL`].
    pub(crate) protocols: Vec<Protocol>,
    /// Whether a library may order its transfers: it matches them in the order in which they are issued.
    pub(crate) fits_libraries: bool,
    /// Whether devices may order its ops, on one channel: the lanes of this world carry out one exchange after the other, which is stricter
    /// than the streams of `cuda`, and too strict for several channels.
    pub(crate) fits_devices: bool,
}

/// By whom a plan is to be one that can be carried out: most plans that are drawn from everything reorder messages or use several
/// channels, which only threads can do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Threads,
    Libraries,
    Devices,
}

impl Scope {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        *[Self::Threads, Self::Threads, Self::Libraries, Self::Devices].choose(random).unwrap()
    }

    fn fits(self, order: Order) -> bool {
        self == Self::Threads || !order.reorders()
    }
}

/// Protocols that use one channel.
const PLAIN: [Protocol; 3] = [Protocol::Native, Protocol::SizeFirst, Protocol::StaticFirst];

impl Case {
    /// One of many kinds: up to six ranks, up to five segments, each call in a way of its own.
    pub(crate) fn draw(random: &mut ChaCha8Rng) -> Self {
        // Miri takes minutes for a large plan.
        let (clusters, most) = if cfg!(miri) { (2, 2) } else { (6, 5) };
        let (nodes, size) =
            *[(1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (3, 2)][..clusters].choose(random).unwrap();
        let ranks = nodes * size;
        let count = random.random_range(1..=most);
        let scope = Scope::draw(random);
        let segments: Vec<Segment> = (0..count)
            .map(|index| {
                let segment = Segment::new(format!("{index}"), work(random, ranks, scope));
                if scope != Scope::Devices && random.random_bool(0.25) {
                    segment.in_background()
                } else {
                    segment
                }
            })
            .collect();
        let codec = *CODECS.choose(random).unwrap();
        let choices: Vec<Choice> =
            segments.iter().map(|segment| choice(random, &segment.work, size, codec, scope)).collect();
        let job = Job { name: "random", rank_count: ranks, slots: SLOTS.to_vec(), segments };
        let plan = plan_each(&job, &choices.iter().collect::<Vec<_>>());
        let kinds = || plan.programs.iter().flat_map(|program| &program.ops).map(|op| &op.kind);
        let fits_libraries = !choices.iter().any(|choice| choice.order.reorders());
        let is_plain = |choice: &Choice| PLAIN.contains(&choice.protocol);
        let is_main = |kind: &OpKind| {
            kind.exchange().is_none_or(|exchange| exchange.channel == Channel::Main)
                && !matches!(kind, OpKind::Library(_) | OpKind::Local(Local::GatherRows(_)))
        };
        let fits_devices = fits_libraries && choices.iter().all(is_plain) && kinds().all(is_main);
        let moved = || job.segments.iter().zip(&choices).filter(|(segment, _)| segment.work.communicates());
        let is_used = |protocol: &Protocol| moved().any(|(_, choice)| choice.protocol == *protocol);
        let protocols = Protocol::ALL.into_iter().filter(is_used).collect();
        Self { job, plan, protocols, fits_libraries, fits_devices }
    }
}

/// Whole values of two or four bytes; some calls have several parts, which begin at multiples of 16 KiB.
fn bytes(random: &mut ChaCha8Rng) -> u64 {
    match random.random_range(0..6) {
        0 => 0,
        1..=3 => 4 * random.random_range(1..=64),
        _ => 4 * random.random_range(4_000..=20_000),
    }
}

/// When a flow is ready: many at once, the others while those are under way.
fn start_s(random: &mut ChaCha8Rng) -> f64 {
    if random.random() { 0.0 } else { random.random_range(0.0..20e-6) }
}

/// Flows in steps, in each of which all ranks send as far: pairs that are drawn could wait for one another for ever.
fn steps(random: &mut ChaCha8Rng, ranks: u32) -> Vec<Flow> {
    let mut flows = Vec::new();
    for _ in 0..random.random_range(1..=3) {
        let distance = random.random_range(1..ranks);
        for src in 0..ranks {
            let (src, dst, bytes) = (Rank(src), Rank((src + distance) % ranks), bytes(random).max(4));
            flows.push(Flow { src, dst, bytes, not_before_s: start_s(random) });
        }
    }
    flows
}

fn work(random: &mut ChaCha8Rng, ranks: u32, scope: Scope) -> Work {
    let input = random.random_range(0..SLOTS.len() as u32);
    let output = (input + random.random_range(1..SLOTS.len() as u32)) % SLOTS.len() as u32;
    let (input, output) = (Slot(input), Slot(output));
    let dtype = if random.random() { DType::Bf16 } else { DType::F32 };
    let each = |random: &mut ChaCha8Rng| (0..ranks).map(|_| bytes(random)).collect::<Vec<u64>>();
    let call = |kind| Work::of_call(dtype, [input, output], kind);
    match random.random_range(0..if scope == Scope::Devices { 7 } else { 8 }) {
        0 => {
            let slot = |random: &mut ChaCha8Rng| Slot(random.random_range(0..SLOTS.len() as u32));
            Work::Compute { phase: "phase", reads: vec![slot(random)], writes: vec![slot(random)] }
        }
        1 => {
            let (tokens, copies) = (random.random_range(0..=12), random.random_range(1..=3));
            let destinations = (0..ranks * tokens * copies).map(|_| random.random_range(0..ranks)).collect();
            let row_bytes = 4 * random.random_range(1..=512);
            let tokens = TokenMap::new(ranks, copies, row_bytes, destinations);
            call(CallKind::AllToAll { bytes: tokens.bytes().into(), tokens: Some(Arc::new(tokens)) })
        }
        2 => {
            let shape = (ranks as usize, ranks as usize);
            let bytes = Array2::from_shape_fn(shape, |_| bytes(random));
            call(CallKind::AllToAll { bytes: bytes.into(), tokens: None })
        }
        3 => call(CallKind::AllGather { bytes: each(random) }),
        4 => {
            let root = Rank(random.random_range(0..ranks));
            let begin = random.random_range(0..ranks);
            let some = RankRange { begin: Rank(begin), end: Rank(random.random_range(begin + 1..=ranks)) };
            let to = if random.random() { RankRange::all(ranks) } else { some };
            call(CallKind::Broadcast { bytes: bytes(random), root, to })
        }
        5 => call(CallKind::ReduceScatter { bytes: each(random) }),
        6 => call(CallKind::AllReduce { bytes: bytes(random) }),
        _ => {
            // What is drawn here changes nothing that is drawn later.
            let mut own = random.clone();
            let flow = |_| {
                let src = random.random_range(0..ranks);
                let dst = (src + random.random_range(1..ranks)) % ranks;
                let not_before_s = start_s(&mut own);
                Flow { src: Rank(src), dst: Rank(dst), bytes: bytes(random).max(4), not_before_s }
            };
            let flows = (0..6).map(flow).collect();
            let pace = *[Pace::Burst, Pace::Chain].choose(random).unwrap();
            if own.random_bool(0.3) {
                let flows = steps(&mut own, ranks);
                return Work::Transfers { dtype, flows, pace: Pace::SendReceive, input, output };
            }
            Work::Transfers { dtype, flows, pace, input, output }
        }
    }
}

fn choice(random: &mut ChaCha8Rng, work: &Work, ranks_per_node: u32, codec: &str, scope: Scope) -> Choice {
    let protocols = if scope == Scope::Devices { &PLAIN[..] } else { &Protocol::ALL };
    let protocol = *protocols.choose(random).unwrap();
    let is_coded = protocol.is_coded();
    let can_be = |algorithm: &Algorithm| match algorithm {
        Algorithm::PaddedRing => is_coded,
        algorithm => !is_coded || algorithm.takes_frames(work.is_reduction()),
    };
    let has_tokens = matches!(work, Work::Call { kind: CallKind::AllToAll { tokens: Some(_), .. }, .. });
    let is_deduplicated = has_tokens && scope != Scope::Devices && ranks_per_node > 1 && random.random();
    let layouts = [None, Some(Layout::Compact), Some(Layout::Split)];
    let is_in_scope = |algorithm: &Algorithm| scope != Scope::Devices || *algorithm != Algorithm::Library;
    let algorithms: Vec<Algorithm> =
        work.algorithms().iter().copied().filter(can_be).filter(is_in_scope).collect();
    let orders: Vec<Order> = Order::ALL.into_iter().filter(|order| scope.fits(*order)).collect();
    Choice {
        algorithm: algorithms.choose(random).copied(),
        order: *orders.choose(random).unwrap(),
        window: if random.random() { Some(random.random_range(1..=4)) } else { None },
        layout: layouts.choose(random).copied().flatten().filter(|_| protocol.takes_layout()),
        selection: Selection {
            least_bytes: if random.random() { 0 } else { bytes(random) },
            ranks_per_node: random.random_bool(0.25).then_some(ranks_per_node),
        },
        dedup: is_deduplicated.then_some(ranks_per_node),
        parts: if is_coded || is_deduplicated { random.random_range(1..=3) } else { 1 },
        ranks_per_node,
        channels: random.random_range(1..=ranks_per_node),
        slices: random.random_range(1..=3),
        sums: if random.random() { SumType::Sent } else { SumType::Fp32 },
        arenas: random.random_range(1..=3),
        speculative_capacity: (protocol == Protocol::Speculative).then_some(0.5),
        ..Choice::of(protocol, Some(crate::common::spec(codec)))
    }
}
