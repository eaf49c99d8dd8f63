//! `experts` of a mixture of experts: the ranks that hold each of them, and what ranks therefore send where.

use std::cmp::{Ordering, Reverse};

use ndarray::Array2;

use crate::error::Result;
use crate::language::{Field, choice, integer, keys, named};

named! {
    /// How experts are spread over ranks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum Placement {
        /// Expert `e` on rank `floor(e x ranks / experts)`.
        #[default]
        Contiguous = "contiguous",
        /// Expert `e` on rank `e mod ranks`.
        RoundRobin = "round-robin",
        /// The heaviest first, each on the rank of the least load so far, and as many on every rank, up to one.
        Balanced = "balanced",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Experts {
    placement: Placement,
    replicas: u32,
}

/// Most extra copies, of all experts together.
const REPLICA_LIMIT: u32 = 4096;

keys! { pub(crate) static KEYS =
    placement: Placement = choice("placement", &Placement::ALL, Placement::name), "which experts share a rank; `contiguous` by default";
    replicas: u32 = integer(0..=REPLICA_LIMIT), "extra copies of the hottest experts, at most one on every rank; 0 by default";
}

impl Experts {
    /// Reads the table, for a model of `experts` experts on `ranks` ranks.
    pub(crate) fn read(field: &Field<'_>, experts: u32, ranks: u32) -> Result<Self> {
        let table = field.table(KEYS.all)?;
        let placement = table.get(KEYS.placement)?.unwrap_or_default();
        let (replicas, most) = (table.get(KEYS.replicas)?.unwrap_or(0), experts * (ranks - 1));
        if replicas > most {
            let limits = format!("at most {most}: experts x (ranks - 1), a copy on every rank");
            return Err(table.need_field(KEYS.replicas)?.out_of_range(replicas, limits));
        }
        Ok(Self { placement, replicas })
    }

    /// The ranks of each expert, by the tokens that all ranks together have for it.
    pub(crate) fn place(self, loads: &[u64], ranks: u32) -> Hosts {
        Hosts::new(loads, ranks, self.placement, self.replicas)
    }
}

/// The ranks that hold each expert: one, or several where it is replicated. No rank holds an expert twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// In ascending order, at least one each.
    by_expert: Vec<Vec<u32>>,
    ranks: u32,
}

impl Hosts {
    /// Places experts of these loads, in tokens, and `replicas` extra copies of the hottest of them.
    ///
    /// Each extra copy goes to the expert with the most load per copy, ties to fewer copies, then to the lower index (as
    /// `replicate_experts` of DeepSeek's EPLB, but an expert that is everywhere gets no further copy). Copies of an expert share its
    /// load evenly. `Balanced` then is longest processing time first (Graham 1969) with a limit on the number of copies per rank,
    /// ties to the lower rank. The other placements leave the experts themselves where they are, and place the extra copies in
    /// that way, at most `ceil(replicas / ranks)` on a rank unless the expert has no other place.
    ///
    /// # Panics
    /// If there are more copies than `experts x ranks`.
    pub(crate) fn new(loads: &[u64], ranks: u32, placement: Placement, replicas: u32) -> Self {
        let most = loads.len() as u64 * u64::from(ranks - 1);
        assert!(u64::from(replicas) <= most, "a rank would hold an expert twice");
        let copies = copies(loads, ranks, replicas);
        let mut board = Board::new(loads, &copies, ranks);
        let experts = loads.len() as u64;
        match placement {
            Placement::Balanced => board.balance(),
            Placement::Contiguous => board.extend(|expert| expert * u64::from(ranks) / experts, replicas),
            Placement::RoundRobin => board.extend(|expert| expert % u64::from(ranks), replicas),
        }
        let mut by_expert = vec![Vec::new(); loads.len()];
        for (rank, experts) in (0..).zip(&board.experts) {
            experts.iter().for_each(|&expert| by_expert[expert].push(rank));
        }
        Self { by_expert, ranks }
    }

    /// How the `count` tokens that rank `src` has for `expert` are divided among the ranks that hold it: (rank, count) in
    /// ascending order of ranks, zeros left out.
    ///
    /// Evenly; what is left goes one by one to the copies from number `src` modulo their number on, so that no copy gets the rest
    /// of every rank.
    pub(crate) fn split(&self, src: usize, expert: usize, count: u64) -> impl Iterator<Item = (u32, u64)> {
        let hosts = &self.by_expert[expert];
        let (part, rest) = (count / hosts.len() as u64, count % hosts.len() as u64);
        let first = src % hosts.len();
        let part_of = move |(index, &rank): (usize, &u32)| {
            let turn = (index + hosts.len() - first) % hosts.len();
            (rank, part + u64::from((turn as u64) < rest))
        };
        hosts.iter().enumerate().map(part_of).filter(|&(_, count)| count > 0)
    }

    /// Token copies from source rank to expert, summed to source rank x destination rank.
    pub(crate) fn between_ranks(&self, counts: &Array2<u64>) -> Array2<u64> {
        let mut tokens = Array2::zeros((counts.nrows(), self.ranks as usize));
        for ((src, expert), &count) in counts.indexed_iter() {
            for (dst, part) in self.split(src, expert, count) {
                tokens[(src, dst as usize)] += part;
            }
        }
        tokens
    }
}

/// Copies of each expert, itself included.
fn copies(loads: &[u64], ranks: u32, replicas: u32) -> Vec<u32> {
    let mut copies = vec![1; loads.len()];
    for _ in 0..replicas {
        let hotter = |&a: &usize, &b: &usize| {
            let by_load = by_load_per_copy((loads[a], copies[a]), (loads[b], copies[b]));
            by_load.then((Reverse(copies[a]), Reverse(a)).cmp(&(Reverse(copies[b]), Reverse(b))))
        };
        let candidates = (0..loads.len()).filter(|&expert| copies[expert] < ranks);
        let hottest = candidates.max_by(hotter).expect("there are at most as many copies as places");
        copies[hottest] += 1;
    }
    copies
}

/// Compares loads divided by copies, exactly.
fn by_load_per_copy(a: (u64, u32), b: (u64, u32)) -> Ordering {
    (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1)))
}

/// Ranks that are being filled.
struct Board<'a> {
    copies: &'a [u32],
    /// Load of one copy of each expert.
    load_per_copy: Vec<f64>,
    /// Experts, the one with the most load per copy first, ties to the lower index.
    heaviest_first: Vec<usize>,
    /// Experts of each rank, in the order in which they came.
    experts: Vec<Vec<usize>>,
    loads: Vec<f64>,
}

impl<'a> Board<'a> {
    fn new(loads: &[u64], copies: &'a [u32], ranks: u32) -> Self {
        let mut heaviest_first: Vec<usize> = (0..loads.len()).collect();
        // The sort is stable: among equals the lower index stays first.
        heaviest_first.sort_by(|&a, &b| by_load_per_copy((loads[b], copies[b]), (loads[a], copies[a])));
        let load_per_copy = |(&load, &copies): (&u64, &u32)| load as f64 / f64::from(copies);
        Self {
            copies,
            load_per_copy: loads.iter().zip(copies).map(load_per_copy).collect(),
            heaviest_first,
            experts: vec![Vec::new(); ranks as usize],
            loads: vec![0.0; ranks as usize],
        }
    }

    fn put(&mut self, expert: usize, rank: usize) {
        self.experts[rank].push(expert);
        self.loads[rank] += self.load_per_copy[expert];
    }

    /// The rank of the least load among those that pass, ties to the lower index.
    fn lightest(&self, passes: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.loads.len())
            .filter(|&rank| passes(rank))
            .min_by(|&a, &b| self.loads[a].total_cmp(&self.loads[b]))
    }

    fn lacks(&self, rank: usize, expert: usize) -> bool {
        !self.experts[rank].contains(&expert)
    }

    /// Places all copies, as many on each rank, up to one.
    fn balance(&mut self) {
        let all = self.copies.iter().sum::<u32>() as usize;
        let (least, larger) = (all / self.loads.len(), all % self.loads.len());
        for expert in self.heaviest_first.clone() {
            for _ in 0..self.copies[expert] {
                let larger_now = self.experts.iter().filter(|experts| experts.len() > least).count();
                let limit = least + usize::from(larger_now < larger);
                let rank = self.lightest(|rank| self.experts[rank].len() < limit && self.lacks(rank, expert));
                let rank = rank.unwrap_or_else(|| self.make_room(expert, limit));
                self.put(expert, rank);
            }
        }
    }

    /// Every rank with room holds the expert already: another one hands its lightest expert that it can on to one of them. Returns
    /// the rank that has room now.
    fn make_room(&mut self, expert: usize, limit: usize) -> usize {
        let open = self.lightest(|rank| self.experts[rank].len() < limit);
        let open = open.expect("there are as many places as copies");
        let full = self.lightest(|rank| self.lacks(rank, expert));
        let full = full.expect("an expert has at most a copy per rank");
        // The full rank has more experts than the open one, so one of them is not there. Heavier ones came before.
        let position = self.experts[full].iter().rposition(|&moved| self.lacks(open, moved));
        let moved =
            self.experts[full].remove(position.expect("of two sets the larger one has another element"));
        self.loads[full] -= self.load_per_copy[moved];
        self.put(moved, open);
        full
    }

    /// Places each expert on its `home`, and then the extra copies.
    fn extend(&mut self, home: impl Fn(u64) -> u64, replicas: u32) {
        for expert in 0..self.copies.len() {
            let home = usize::try_from(home(expert as u64)).expect("a rank fits");
            self.put(expert, home);
        }
        let limit = (replicas as usize).div_ceil(self.loads.len());
        let mut extra = vec![0; self.loads.len()];
        for expert in self.heaviest_first.clone() {
            for _ in 1..self.copies[expert] {
                let with_room = self.lightest(|rank| extra[rank] < limit && self.lacks(rank, expert));
                let rank = with_room.or_else(|| self.lightest(|rank| self.lacks(rank, expert)));
                let rank = rank.expect("an expert has at most a copy per rank");
                extra[rank] += 1;
                self.put(expert, rank);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt};

    use super::*;

    fn hosts(loads: &[u64], ranks: u32, placement: Placement, replicas: u32) -> Vec<Vec<u32>> {
        Hosts::new(loads, ranks, placement, replicas).by_expert
    }

    /// Loads per rank if every expert's tokens divide evenly.
    fn loads_by_rank(loads: &[u64], hosts: &[Vec<u32>], ranks: u32) -> Vec<f64> {
        let mut sums = vec![0.0; ranks as usize];
        for (&load, hosts) in loads.iter().zip(hosts) {
            hosts.iter().for_each(|&rank| sums[rank as usize] += load as f64 / hosts.len() as f64);
        }
        sums
    }

    fn max(values: &[f64]) -> f64 {
        values.iter().copied().fold(0.0, f64::max)
    }

    fn random_loads(rng: &mut impl Rng, experts: usize) -> Vec<u64> {
        let limit = [1, 10, 1 << 20, 1 << 40][rng.random_range(0..4)];
        (0..experts).map(|_| rng.random_range(0..=limit)).collect()
    }

    #[test]
    fn contiguous_experts_are_even() {
        let homes = |experts: usize, ranks| -> Vec<u32> {
            hosts(&vec![1; experts], ranks, Placement::Contiguous, 0).concat()
        };
        assert_eq!(homes(4, 4), [0, 1, 2, 3]);
        assert_eq!(homes(6, 4), [0, 0, 1, 2, 2, 3]);
        assert_eq!(homes(2, 4), [0, 2], "fewer experts than ranks leave ranks without");
    }

    #[test]
    fn round_robin_deals_experts_out() {
        assert_eq!(hosts(&[1; 6], 4, Placement::RoundRobin, 0).concat(), [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn balanced_by_hand() {
        // 7 -> 0, 6 -> 1, 5 -> 1 (6 < 7), 4 -> 0, then 3 -> 0 (11 = 11, lower rank), 2 -> 1.
        assert_eq!(hosts(&[2, 3, 4, 5, 6, 7], 2, Placement::Balanced, 0).concat(), [1, 0, 0, 1, 1, 0]);
        // One hot expert: load alone would put all others on rank 1.
        assert_eq!(hosts(&[100, 1, 1, 1], 2, Placement::Balanced, 0).concat(), [0, 1, 1, 0]);
    }

    #[test]
    fn copies_go_to_the_most_load_per_copy() {
        // 12, 8, 5 -> 6, 8, 5 -> 6, 4, 5 -> 4, 4, 5 -> 4, 4, 2.5.
        assert_eq!(copies(&[12, 8, 5], 4, 1), [2, 1, 1]);
        assert_eq!(copies(&[12, 8, 5], 4, 2), [2, 2, 1]);
        assert_eq!(copies(&[12, 8, 5], 4, 3), [3, 2, 1]);
        assert_eq!(copies(&[12, 8, 5], 4, 4), [3, 2, 2]);
        assert_eq!(
            copies(&[12, 1, 1], 2, 2),
            [2, 2, 1],
            "an expert that is everywhere needs no further copy"
        );
        assert_eq!(copies(&[10, 5], 4, 2), [2, 2], "among equals, the one with fewer copies");
        assert_eq!(copies(&[0; 3], 4, 2), [2, 2, 1]);
    }

    #[test]
    fn extra_copies_leave_the_others_in_place() {
        let loads = [40, 10, 4, 2];
        // 20 of expert 0 go to rank 1, which has 6 instead of 30.
        assert_eq!(hosts(&loads, 2, Placement::Contiguous, 1), [vec![0, 1], vec![0], vec![1], vec![1]]);
        assert_eq!(hosts(&loads, 2, Placement::RoundRobin, 1), [vec![0, 1], vec![1], vec![0], vec![1]]);
    }

    #[test]
    fn a_full_rank_makes_room() {
        let mut rng = zipwire_payload::stream(5, "test", [0; 3]);
        let mut rooms = 0;
        for _ in 0..20_000 {
            let ranks = rng.random_range(2..5);
            let experts = rng.random_range(1..6);
            let loads = random_loads(&mut rng, experts);
            // Any numbers of copies, also those that no rule would give.
            let copies: Vec<u32> = (0..experts).map(|_| rng.random_range(1..=ranks)).collect();
            let mut board = Board::new(&loads, &copies, ranks);
            let all = copies.iter().sum::<u32>();
            board.balance();
            let sizes: Vec<usize> = board.experts.iter().map(Vec::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{loads:?} {copies:?}");
            assert_eq!(sizes.iter().sum::<usize>(), all as usize);
            for experts in &board.experts {
                let mut distinct = experts.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), experts.len(), "{loads:?} {copies:?}");
                // Within a rank the order is lost only where room was made.
                let place = |expert: &usize| board.heaviest_first.iter().position(|e| e == expert).unwrap();
                rooms += u32::from(!experts.iter().map(place).is_sorted());
            }
        }
        assert!(rooms > 10, "{rooms}: the case does not occur");
    }

    #[test]
    fn every_copy_has_a_place_of_its_own() {
        let mut rng = zipwire_payload::stream(1, "test", [0; 3]);
        for _ in 0..3000 {
            let (ranks, experts) = (rng.random_range(2..9), rng.random_range(1..20));
            let loads = random_loads(&mut rng, experts);
            let replicas = rng.random_range(0..=experts as u32 * (ranks - 1));
            for placement in Placement::ALL {
                let hosts = hosts(&loads, ranks, placement, replicas);
                let context = format!("{loads:?} on {ranks} {placement:?} + {replicas}: {hosts:?}");
                assert_eq!(
                    hosts.iter().map(Vec::len).sum::<usize>(),
                    experts + replicas as usize,
                    "{context}"
                );
                assert!(hosts.iter().all(|ranks| ranks.is_sorted_by(|a, b| a < b)), "{context}");
                let sizes = |rank| hosts.iter().flatten().filter(|&&host| host == rank).count();
                let sizes: Vec<usize> = (0..ranks).map(sizes).collect();
                let spread = sizes.iter().max().unwrap() - sizes.iter().min().unwrap();
                assert!(placement != Placement::Balanced || spread <= 1, "{context}");
                for (expert, ranks_of) in hosts.iter().enumerate() {
                    let home = match placement {
                        Placement::Contiguous => expert * ranks as usize / experts,
                        Placement::RoundRobin => expert % ranks as usize,
                        Placement::Balanced => continue,
                    };
                    assert!(ranks_of.contains(&(home as u32)), "{context}");
                }
            }
        }
    }

    #[test]
    fn replicas_lower_the_hottest_load() {
        // A Zipf load on 8 ranks, 16 experts: without copies the hottest expert alone is above the mean of all ranks.
        let loads: Vec<u64> = (1..=16).map(|position| 100_000 / position).collect();
        let mean = loads.iter().sum::<u64>() as f64 / 8.0;
        let most = |placement, replicas| {
            max(&loads_by_rank(&loads, &hosts(&loads, 8, placement, replicas), 8)) / mean
        };
        assert!(most(Placement::Balanced, 0) >= loads[0] as f64 / mean);
        assert!(most(Placement::Balanced, 8) < 1.15, "{}", most(Placement::Balanced, 8));
        assert!(most(Placement::Contiguous, 8) < most(Placement::Contiguous, 0));
    }

    /// The least possible largest load with exactly `each` experts on every rank, by trying everything.
    fn optimum(loads: &[u64], room: &mut [usize], sums: &mut [u64], best: u64) -> u64 {
        let Some((&load, rest)) = loads.split_first() else { return best.min(*sums.iter().max().unwrap()) };
        let mut best = best;
        for rank in 0..sums.len() {
            if room[rank] > 0 && sums[rank] + load < best {
                room[rank] -= 1;
                sums[rank] += load;
                best = optimum(rest, room, sums, best);
                room[rank] += 1;
                sums[rank] -= load;
            }
        }
        best
    }

    #[test]
    fn balanced_is_within_a_third_of_the_optimum() {
        // 4/3 - 1/(3 ranks) for at most three per rank (Kellerer and Woeginger 1993, `A tight bound for 3-partitioning`).
        let mut rng = zipwire_payload::stream(2, "test", [0; 3]);
        let mut worst: f64 = 1.0;
        for _ in 0..1500 {
            let (ranks, each) = (rng.random_range(2..4_u32), rng.random_range(2..4_usize));
            let experts = ranks as usize * each;
            let limit = [8, 100][rng.random_range(0..2)];
            let loads: Vec<u64> = (0..experts).map(|_| rng.random_range(1..limit)).collect();
            let balanced = hosts(&loads, ranks, Placement::Balanced, 0);
            let most = max(&loads_by_rank(&loads, &balanced, ranks));
            let (mut room, mut sums) = (vec![each; ranks as usize], vec![0; ranks as usize]);
            let best = optimum(&loads, &mut room, &mut sums, u64::MAX) as f64;
            let bound = 4.0 / 3.0 - 1.0 / (3.0 * f64::from(ranks));
            assert!(most <= best * bound + 1e-9, "{loads:?} on {ranks}: {most} for {best}");
            worst = worst.max(most / best);
        }
        assert!(worst > 1.05, "{worst}: greedy is not optimal, and the test would not notice");
    }

    #[test]
    fn tokens_are_split_evenly_and_none_is_lost() {
        let mut rng = zipwire_payload::stream(3, "test", [0; 3]);
        for _ in 0..500 {
            let (ranks, experts) = (rng.random_range(2..9_u32), rng.random_range(1..20));
            let counts =
                Array2::from_shape_simple_fn((ranks as usize, experts), || rng.random_range(0..50_u64));
            let loads: Vec<u64> = counts.columns().into_iter().map(|column| column.sum()).collect();
            let replicas = rng.random_range(0..=experts as u32 * (ranks - 1));
            for placement in Placement::ALL {
                let hosts = Hosts::new(&loads, ranks, placement, replicas);
                let tokens = hosts.between_ranks(&counts);
                for src in 0..ranks as usize {
                    assert_eq!(tokens.row(src).sum(), counts.row(src).sum(), "source {src}");
                    let mut sums = vec![0; ranks as usize];
                    for expert in 0..experts {
                        let count = counts[(src, expert)];
                        let parts: Vec<(u32, u64)> = hosts.split(src, expert, count).collect();
                        assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), count);
                        assert!(parts.iter().all(|part| hosts.by_expert[expert].contains(&part.0)));
                        let even = count / hosts.by_expert[expert].len() as u64;
                        assert!(parts.iter().all(|part| (even..=even + 1).contains(&part.1)), "{parts:?}");
                        assert!(even == 0 || parts.len() == hosts.by_expert[expert].len());
                        parts.iter().for_each(|&(rank, part)| sums[rank as usize] += part);
                    }
                    assert_eq!(tokens.row(src).to_vec(), sums);
                }
            }
        }
    }

    #[test]
    fn what_is_left_takes_turns_by_source() {
        let hosts = Hosts { by_expert: vec![vec![1, 2, 5]], ranks: 6 };
        let split = |src, count| hosts.split(src, 0, count).collect::<Vec<_>>();
        assert_eq!(split(0, 10), [(1, 4), (2, 3), (5, 3)]);
        assert_eq!(split(1, 10), [(1, 3), (2, 4), (5, 3)]);
        assert_eq!(split(2, 11), [(1, 4), (2, 3), (5, 4)]);
        assert_eq!(split(4, 1), [(2, 1)]);
        assert_eq!(split(4, 0), []);
    }
}
