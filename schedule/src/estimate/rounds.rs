//! Rounds of work and of exchanges, through which each rank goes at its own pace.

use super::sharing::{Moving, Sharing};
use super::{Flow, Lockstep, Network};
use crate::Rank;

/// Rounds that are known, and take their time together.
pub(super) struct Rounds<'a> {
    network: &'a Network<'a>,
    rounds: Vec<Round>,
}

enum Round {
    /// Seconds, by rank.
    Work(Vec<f64>),
    /// Flows that move something, each `more_s` and its latency after both its ends are there. A rank is through when its last flow is.
    Exchange { flows: Vec<Flow>, more_s: f64 },
    /// All ranks wait for the last one, and so many seconds more.
    Meet(f64),
}

/// Most flows that are followed together.
const MOST_FOLLOWED: usize = 1 << 14;

impl<'a> Rounds<'a> {
    pub(super) fn new(network: &'a Network<'a>) -> Self {
        Self { network, rounds: Vec::new() }
    }

    pub(super) fn work(&mut self, seconds: impl Fn(Rank) -> f64) {
        self.rounds.push(Round::Work((0..self.network.ranks()).map(|rank| seconds(Rank(rank))).collect()));
    }

    pub(super) fn exchange(&mut self, flows: impl Iterator<Item = Flow>, more_s: f64) {
        let flows = flows.filter(|flow| flow.bytes > 0.0).collect();
        self.rounds.push(Round::Exchange { flows, more_s });
    }

    pub(super) fn meet(&mut self, more_s: f64) {
        self.rounds.push(Round::Meet(more_s));
    }

    /// Seconds until the last rank is through. Of few flows the sharing of links is followed; many go through one round after the other.
    pub(super) fn seconds(self) -> f64 {
        let count = |round: &Round| if let Round::Exchange { flows, .. } = round { flows.len() } else { 0 };
        let meets = self.rounds.iter().any(|round| matches!(round, Round::Meet(_)));
        if !meets && self.rounds.iter().map(count).sum::<usize>() <= MOST_FOLLOWED {
            return self.followed_s();
        }
        let mut lockstep = Lockstep::new(self.network, 0.0);
        for round in self.rounds {
            match round {
                Round::Work(seconds) => lockstep.work_all(&seconds),
                Round::Exchange { flows, more_s } => lockstep.step(flows.into_iter(), 1.0, more_s),
                Round::Meet(more_s) => lockstep.meet(more_s),
            }
        }
        lockstep.seconds()
    }

    fn followed_s(&self) -> f64 {
        let mut flows: Vec<(usize, Flow)> = Vec::new();
        for (index, round) in self.rounds.iter().enumerate() {
            if let Round::Exchange { flows: own, .. } = round {
                flows.extend(own.iter().map(|&flow| (index, flow)));
            }
        }
        let ranks = self.network.ranks() as usize;
        let mut followed = Followed {
            rounds: &self.rounds,
            through: vec![(0, 0.0); ranks],
            left: vec![vec![0; ranks]; self.rounds.len()],
            open_s: vec![vec![None; ranks]; self.rounds.len()],
            of_rank: vec![vec![Vec::new(); ranks]; self.rounds.len()],
            latencies_s: flows.iter().map(|(_, flow)| self.network.route(*flow).latency_s).collect(),
            flows: &flows,
        };
        for (index, (round, flow)) in flows.iter().enumerate() {
            for rank in [flow.src, flow.dst] {
                followed.left[*round][rank.index()] += 1;
                followed.of_rank[*round][rank.index()].push(index);
            }
        }
        let moving =
            |(_, flow): &(usize, Flow)| Moving { route: self.network.route(*flow), bytes: flow.bytes };
        let moving: Vec<Moving> = flows.iter().map(moving).collect();
        let mut sharing = Sharing::new(&moving, &self.network.capacities);
        (0..ranks).for_each(|rank| followed.go_on(&mut sharing, rank));
        sharing.run(|sharing, flow, end_s| followed.end(sharing, flow, end_s));
        followed.through.iter().map(|(_, ready_s)| *ready_s).fold(0.0, f64::max)
    }
}

/// Where each rank is.
struct Followed<'a> {
    rounds: &'a [Round],
    /// The round of a flow, and the flow.
    flows: &'a [(usize, Flow)],
    latencies_s: Vec<f64>,
    /// The round that a rank is in, and when it was through the one before, in seconds.
    through: Vec<(usize, f64)>,
    /// By round and rank: flows that have not ended, all flows, and when the rank came to them, in seconds.
    left: Vec<Vec<u32>>,
    of_rank: Vec<Vec<Vec<usize>>>,
    open_s: Vec<Vec<Option<f64>>>,
}

impl Followed<'_> {
    /// Takes a rank through its work to the next exchange in which it has flows, and lets those begin whose other end is there.
    fn go_on(&mut self, sharing: &mut Sharing<'_>, rank: usize) {
        let (mut round, mut ready_s) = self.through[rank];
        while let Some(next) = self.rounds.get(round) {
            match next {
                Round::Work(seconds) => ready_s += seconds[rank],
                Round::Exchange { .. } if self.left[round][rank] == 0 => {}
                Round::Exchange { .. } | Round::Meet(_) => break,
            }
            round += 1;
        }
        self.through[rank] = (round, ready_s);
        let Some(Round::Exchange { more_s, .. }) = self.rounds.get(round) else { return };
        self.open_s[round][rank] = Some(ready_s);
        for &index in &self.of_rank[round][rank] {
            let (_, flow) = self.flows[index];
            let both_s = [flow.src, flow.dst].map(|end| self.open_s[round][end.index()]);
            if let [Some(src_s), Some(dst_s)] = both_s {
                sharing.begin(index, src_s.max(dst_s) + more_s + self.latencies_s[index]);
            }
        }
    }

    fn end(&mut self, sharing: &mut Sharing<'_>, flow: usize, end_s: f64) {
        let (round, Flow { src, dst, .. }) = self.flows[flow];
        for rank in [src.index(), dst.index()] {
            self.left[round][rank] -= 1;
            self.through[rank].1 = self.through[rank].1.max(end_s);
            if self.left[round][rank] == 0 {
                self.go_on(sharing, rank);
            }
        }
    }
}
