//! Flows that come, end and are taken out in bursts and one by one, over few and over hundreds of links: every rate, and what
//! every flow has left, against textbook filling after every change.

use crate::oracle;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::LinkId;
use zipwire_sim::{FlowId, Network};

const AGREEMENT: f64 = 1e-9;
const SEEDS: u64 = 1500;

/// Uniform in the exponent, over so many decades above 1.
fn decades(random: &mut ChaCha8Rng, decades: f64) -> f64 {
    libm::pow(10.0, random.random_range(0.0..=decades))
}

/// Links, the routes that flows take over them, and the sizes that they have.
struct World {
    capacities: Vec<f64>,
    routes: Vec<Vec<LinkId>>,
    sizes: Vec<u64>,
    /// Seconds that a flow of the mean size takes on a link of the mean capacity, roughly.
    pace_s: f64,
}

impl World {
    fn new(random: &mut ChaCha8Rng) -> Self {
        let links: usize = *[3, 12, 40, 300].choose(random).unwrap();
        let unit = *[1.0, 1e9, 0.1].choose(random).unwrap();
        let apart = *[0.0, 0.5, 2.0, 6.0, 9.0].choose(random).unwrap();
        let is_coarse = random.random_bool(0.3);
        let mut capacities: Vec<f64> = (0..links)
            .map(|_| match is_coarse {
                true => unit * f64::from(random.random_range(1..=3)),
                false => unit * decades(random, apart),
            })
            .collect();
        // Links that everybody can cross without noticing, until many do.
        if random.random_bool(0.5) {
            let room = decades(random, 3.0);
            capacities.iter_mut().filter(|_| random.random_bool(0.5)).for_each(|capacity| *capacity *= room);
        }
        let hops = random.random_range(1..=Network::MAX_HOPS);
        let hub = random.random_bool(0.3).then(|| LinkId(random.random_range(0..links as u32)));
        let count = *[1, 3, 30, 1000].choose(random).unwrap();
        let routes = (0..count).map(|_| route(random, links, hops, hub)).collect();
        let sizes = match random.random_range(0..3) {
            0 => vec![840],
            1 => vec![840, 1680, 2520],
            _ => (0..1000).map(|_| decades(random, 9.0) as u64).collect(),
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let bytes: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
        let pace_s = mean(&bytes) / mean(&capacities);
        Self { capacities, routes, sizes, pace_s }
    }
}

/// 1 to `most` distinct links in any order, often over the same one.
fn route(random: &mut ChaCha8Rng, links: usize, most: usize, hub: Option<LinkId>) -> Vec<LinkId> {
    let mut all: Vec<LinkId> = (0..links as u32).map(LinkId).collect();
    let hops = random.random_range(1..=most.min(links));
    let mut route = all.partial_shuffle(random, hops).0.to_vec();
    if let Some(hub) = hub
        && !route.contains(&hub)
    {
        route[0] = hub;
    }
    route
}

struct Active {
    flow: FlowId,
    route: usize,
    bytes: f64,
    left: f64,
}

/// A network, and beside it what is known of every flow.
struct Pair<'a> {
    world: &'a World,
    network: Network,
    active: Vec<Active>,
    /// By position in `active`, after the textbook.
    rates: Vec<f64>,
    elapsed_s: f64,
    case: u64,
}

impl Pair<'_> {
    fn add(&mut self, random: &mut ChaCha8Rng) {
        let route = random.random_range(0..self.world.routes.len());
        let bytes = *self.world.sizes.choose(random).unwrap();
        let flow = self.network.add(&self.world.routes[route], bytes);
        self.active.push(Active { flow, route, bytes: bytes as f64, left: bytes as f64 });
    }

    fn remove(&mut self, random: &mut ChaCha8Rng) {
        if !self.active.is_empty() {
            let index = random.random_range(0..self.active.len());
            self.network.remove(self.active.swap_remove(index).flow);
        }
    }

    /// Compares every rate with the textbook's, and what links carry with what they can.
    fn check(&mut self) {
        let Self { world, network, active, case, .. } = self;
        let routes: Vec<&[LinkId]> = active.iter().map(|flow| &world.routes[flow.route][..]).collect();
        self.rates = oracle::rates(&world.capacities, &routes);
        let mut carried = vec![0.0; world.capacities.len()];
        for ((flow, route), expected) in active.iter().zip(&routes).zip(&self.rates) {
            let rate = network.rate(flow.flow);
            let difference = (rate / expected - 1.0).abs();
            assert!(difference <= AGREEMENT, "case {case}: {rate} is not {expected}: {difference:e}");
            route.iter().for_each(|link| carried[link.index()] += rate);
        }
        let mut usage = Vec::new();
        network.usage(&mut usage);
        for (link, ((&carried, &used), &capacity)) in
            carried.iter().zip(&usage).zip(&world.capacities).enumerate()
        {
            assert!(
                carried <= capacity * (1.0 + AGREEMENT),
                "case {case}: link {link}: {carried} of {capacity}"
            );
            assert!((carried - used).abs() <= AGREEMENT * capacity, "case {case}: link {link}: {used}");
        }
        assert_eq!(network.active(), active.len());
    }

    /// Lets `seconds` pass, or until the next end if that is earlier; rates are those of the last check.
    fn advance(&mut self, seconds: f64) {
        let seconds = seconds.min(self.network.next_in_s());
        if seconds.is_infinite() {
            return;
        }
        self.network.advance(seconds);
        self.elapsed_s += seconds;
        let mut ended = Vec::new();
        self.network.take_ended(&mut ended);
        for (flow, rate) in self.active.iter_mut().zip(&self.rates) {
            flow.left -= rate * seconds;
        }
        let (case, elapsed_s) = (self.case, self.elapsed_s);
        let mut rates = self.rates.iter();
        self.active.retain(|flow| {
            let has_ended = ended.binary_search(&flow.flow).is_ok();
            let slack = AGREEMENT * flow.bytes + 1e-12 * rates.next().unwrap() * elapsed_s;
            let is_right = if has_ended { flow.left.abs() <= slack } else { flow.left >= -slack };
            assert!(is_right, "case {case}: {} of {} bytes left, ended: {has_ended}", flow.left, flow.bytes);
            !has_ended
        });
    }
}

fn play(case: u64) {
    let random = &mut ChaCha8Rng::seed_from_u64(case);
    let world = World::new(random);
    let network = Network::new(&world.capacities);
    let mut pair =
        Pair { world: &world, network, active: Vec::new(), rates: Vec::new(), elapsed_s: 0.0, case };
    let most = *[8, 40, 150, 600].choose(random).unwrap();
    for _ in 0..random.random_range(4..16) {
        let steps = random.random_range(1..24);
        match random.random_range(0..8) {
            // A burst in, without a look in between.
            0 => (0..random.random_range(1..=most)).for_each(|_| pair.add(random)),
            // A burst out.
            1 => (0..random.random_range(0..=pair.active.len())).for_each(|_| pair.remove(random)),
            // One by one, in and out.
            2 => {
                for _ in 0..steps {
                    if random.random_bool(0.5) {
                        pair.add(random);
                    } else {
                        pair.remove(random);
                    }
                    pair.check();
                }
            }
            // A handful in or out: about as much as is repaired at most.
            3 => {
                for _ in 0..steps {
                    let count = random.random_range(4..24);
                    let is_in = random.random_bool(0.6);
                    (0..count).for_each(|_| if is_in { pair.add(random) } else { pair.remove(random) });
                    pair.check();
                }
            }
            // From end to end.
            4 => {
                for _ in 0..steps {
                    pair.check();
                    pair.advance(f64::INFINITY);
                }
            }
            // At every tick some: equal sizes end in ties, at ticks later.
            5 => {
                for _ in 0..steps {
                    (0..random.random_range(0..4)).for_each(|_| pair.add(random));
                    pair.check();
                    pair.advance(world.pace_s);
                }
            }
            // Few of them, and all at other times.
            6 => {
                for _ in 0..steps {
                    pair.add(random);
                    pair.check();
                    pair.advance(world.pace_s * random.random::<f64>() * 0.1);
                }
            }
            // One link empties.
            _ => {
                let link = LinkId(random.random_range(0..world.capacities.len() as u32));
                let is_gone = |flow: &mut Active| world.routes[flow.route].contains(&link);
                for flow in pair.active.extract_if(.., is_gone) {
                    pair.network.remove(flow.flow);
                }
            }
        }
        pair.check();
    }
}

#[test]
fn flows_come_and_go() {
    (0..SEEDS).for_each(play);
}
