//! Groups of ranks: which ranks take part in a call, and the dimensions of a layout whose ranks they are.

use std::fmt;

use crate::Rank;

/// Ranks that take part in a call together: `count` of them, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The lowest rank.
    pub first: Rank,
    /// How many there are, at least 1.
    pub count: u32,
    /// Distance between neighbours, at least 1.
    pub stride: u32,
}

impl Group {
    /// The ranks 0 to `count` - 1.
    pub fn all(count: u32) -> Self {
        Self { first: Rank(0), count, stride: 1 }
    }

    /// The rank at a position below [`count`](Self::count).
    pub fn at(&self, position: u32) -> Rank {
        Rank(self.first.0 + position * self.stride)
    }

    /// Position of a rank; `None` if it does not take part.
    pub fn position(&self, rank: Rank) -> Option<u32> {
        let distance = rank.0.checked_sub(self.first.0)?;
        let position = distance / self.stride;
        (distance.is_multiple_of(self.stride) && position < self.count).then_some(position)
    }

    /// All of them, in order.
    pub fn ranks(self) -> impl DoubleEndedIterator<Item = Rank> + ExactSizeIterator + Clone {
        (0..self.count).map(move |position| self.at(position))
    }

    /// Whether it has rank 0 to the last of so many.
    pub fn is_all(&self, ranks: u32) -> bool {
        *self == Self::all(ranks)
    }
}

/// `count` things in a row, `pitch` ranks apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Row {
    count: u32,
    pitch: u32,
}

/// Groups of equal size, of which each rank is in one at the most: `size` ranks `stride` apart, and their translations by three rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    first: Rank,
    members: Row,
    /// Where groups begin, relative to the first one.
    begins: [Row; 3],
}

impl Groups {
    /// One group of the ranks 0 to `ranks` - 1.
    pub fn whole(ranks: u32) -> Self {
        let once = Row { count: 1, pitch: 1 };
        Self { first: Rank(0), members: Row { count: ranks, pitch: 1 }, begins: [once; 3] }
    }

    /// Groups of equal size and stride, in any order; `None` if they are no rows of translations, or share ranks.
    pub fn from_all(groups: &[Group]) -> Option<Self> {
        let mut left: Vec<u32> = groups.iter().map(|group| group.first.0).collect();
        left.sort_unstable();
        let (&first, &Group { count, stride, .. }) = (left.first()?, groups.first()?);
        let mut begins = [Row { count: 1, pitch: 1 }; 3];
        for begin in &mut begins {
            let Some(second) = left.get(1) else { break };
            // The longest row from the first one on; the next rows are of the first ones of such rows.
            let pitch = second - left[0];
            if pitch == 0 {
                return None;
            }
            let row = (1..left.len() as u32).take_while(|place| {
                Some(left[*place as usize]) == place.checked_mul(pitch).and_then(|far| first.checked_add(far))
            });
            *begin = Row { count: 1 + row.last()?, pitch };
            left = left.into_iter().step_by(begin.count as usize).collect();
        }
        let found = Self { first: Rank(first), members: Row { count, pitch: stride }, begins };
        let is_among = |group: &Group| found.of(group.first) == Some(*group);
        let are_all = left.len() == 1 && found.count() as usize == groups.len();
        (are_all && groups.iter().all(is_among) && found.are_apart()).then_some(found)
    }

    /// Whether each rank is in one of them at the most.
    fn are_apart(&self) -> bool {
        self.all().all(|group| group.ranks().all(|rank| self.of(rank) == Some(group)))
    }

    /// Ranks of a group.
    pub fn size(&self) -> u32 {
        self.members.count
    }

    /// How many groups there are.
    pub fn count(&self) -> u32 {
        self.begins.iter().map(|row| row.count).product()
    }

    /// The group of a rank; `None` if it takes part in none.
    pub fn of(&self, rank: Rank) -> Option<Group> {
        self.of_number(rank).map(|(group, _)| group)
    }

    /// Position of a rank among those of all groups, group by group; `None` if it takes part in none.
    pub fn position(&self, rank: Rank) -> Option<u32> {
        let (group, number) = self.of_number(rank)?;
        Some(number * self.members.count + group.position(rank)?)
    }

    /// The group of a rank, and its number among all.
    fn of_number(&self, rank: Rank) -> Option<(Group, u32)> {
        let mut left = rank.0.checked_sub(self.first.0)?;
        let [first, second, third] = self.begins;
        // Groups that one step along a row skips; none along a group.
        let mut rows =
            [(self.members, 0), (first, 1), (second, first.count), (third, first.count * second.count)];
        rows.sort_unstable_by_key(|(row, _)| std::cmp::Reverse(row.pitch));
        let (mut begin, mut number) = (self.first.0, 0);
        for (Row { count, pitch }, skipped) in rows {
            // A row of one is no digit.
            let digit = if count == 1 { 0 } else { left / pitch };
            if digit >= count {
                return None;
            }
            left -= digit * pitch;
            begin += if skipped == 0 { 0 } else { digit * pitch };
            number += digit * skipped;
        }
        let group = Group { first: Rank(begin), count: self.members.count, stride: self.members.pitch };
        (left == 0).then_some((group, number))
    }

    /// One of the groups, from 0 on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn group(&self, index: u32) -> Group {
        assert!(index < self.count(), "group {index} of {}", self.count());
        let (mut left, mut first) = (index, self.first.0);
        for Row { count, pitch } in self.begins {
            first += left % count * pitch;
            left /= count;
        }
        Group { first: Rank(first), count: self.members.count, stride: self.members.pitch }
    }

    /// All groups.
    pub fn all(&self) -> impl Iterator<Item = Group> + '_ {
        (0..self.count()).map(|index| self.group(index))
    }
}

impl fmt::Display for Groups {
    /// For instance `groups of 4 ranks by 8, from 0 on 8 x 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { count, pitch } = self.members;
        write!(f, "groups of {count} ranks by {pitch}, from {} on", self.first)?;
        let mut rows = self.begins.iter().filter(|row| row.count > 1);
        rows.try_for_each(|Row { count, pitch }| write!(f, " {count} x {pitch}"))
    }
}

/// A dimension of a layout: a rank's number is the sum of its coordinates, each times the sizes of all dimensions inside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Name in scenarios: `tp`, `pp`.
    pub name: &'static str,
    /// Ranks along it, at least 1.
    pub size: u32,
    /// Whether ranks that differ in it alone do the same.
    pub is_alike: bool,
}

/// The dimensions of a job's ranks, the innermost first: neighbours along it have neighbouring numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    dimensions: Vec<Dimension>,
}

impl Layout {
    /// Dimensions from the innermost one on.
    pub fn new(dimensions: Vec<Dimension>) -> Self {
        Self { dimensions }
    }

    /// Ranks that are alike, without any structure.
    pub fn flat(ranks: u32) -> Self {
        Self::new(vec![Dimension { name: "ranks", size: ranks, is_alike: true }])
    }

    /// Dimensions from the innermost one on.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Ranks of all dimensions.
    pub fn ranks(&self) -> u32 {
        self.dimensions.iter().map(|dimension| dimension.size).product()
    }

    /// Distance of neighbours along a dimension.
    fn unit(&self, index: usize) -> u32 {
        self.dimensions[..index].iter().map(|dimension| dimension.size).product()
    }

    /// Coordinate of a rank along a dimension.
    ///
    /// # Panics
    /// If there is no dimension of that name.
    pub fn coordinate(&self, rank: Rank, name: &str) -> u32 {
        let index = self.index(name).expect("the dimension is one of the layout");
        rank.0 / self.unit(index) % self.dimensions[index].size
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.dimensions.iter().position(|dimension| dimension.name == name)
    }

    /// Groups of the ranks that differ along `along` alone, which follow one another, among those whose coordinate along `fixed` is given.
    ///
    /// # Panics
    /// If a dimension is unknown or fixed to a coordinate that it has not, those of `along` do not follow one another, or there are others in more than
    /// three places.
    pub fn groups(&self, along: &[&str], fixed: Option<(&str, u32)>) -> Groups {
        let mut members: Option<Row> = None;
        let (mut first, mut begins) = (0, Vec::<Row>::new());
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let row = Row { count: dimension.size, pitch: self.unit(index) };
            if let Some((_, coordinate)) = fixed.filter(|(name, _)| *name == dimension.name) {
                assert!(
                    coordinate < dimension.size,
                    "`{}` has {} coordinates",
                    dimension.name,
                    dimension.size
                );
                first += coordinate * row.pitch;
            } else if along.contains(&dimension.name) {
                let grown = members.get_or_insert(Row { count: 1, pitch: row.pitch });
                if grown.count == 1 {
                    grown.pitch = row.pitch;
                }
                let follows = grown.count * grown.pitch == row.pitch || row.count == 1;
                assert!(follows, "dimensions of a group follow one another");
                grown.count *= row.count;
            } else if row.count > 1 {
                match begins.last_mut().filter(|last| last.count * last.pitch == row.pitch) {
                    Some(last) => last.count *= row.count,
                    None => begins.push(row),
                }
            }
        }
        let once = Row { count: 1, pitch: 1 };
        assert!(begins.len() <= 3, "groups repeat along three rows at the most");
        begins.resize(3, once);
        let begins = [begins[0], begins[1], begins[2]];
        Groups { first: Rank(first), members: members.unwrap_or(once), begins }
    }

    /// Pairs of the ranks that differ along one dimension alone, at two coordinates of it.
    ///
    /// # Panics
    /// Where [`groups`](Self::groups) does, and if the coordinates are equal.
    pub fn pairs(&self, name: &str, coordinates: [u32; 2]) -> Groups {
        let [low, high] = [coordinates[0].min(coordinates[1]), coordinates[0].max(coordinates[1])];
        assert!(low < high, "a pair has two ranks");
        let index = self.index(name).expect("the dimension is one of the layout");
        let stride = (high - low) * self.unit(index);
        let alone = self.groups(&[], Some((name, low)));
        Groups { members: Row { count: 2, pitch: stride }, ..alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let of = |name, size| Dimension { name, size, is_alike: name != "pp" };
        Layout::new(vec![of("tp", 4), of("cp", 2), of("pp", 3), of("dp", 5)])
    }

    /// From the definition: ranks of a group agree in all coordinates but those along it.
    #[test]
    fn groups_are_the_ranks_that_differ_along_dimensions_alone() {
        let layout = layout();
        let others = |rank: Rank, along: &[&str]| -> Vec<u32> {
            let kept = layout.dimensions().iter().filter(|d| !along.contains(&d.name));
            kept.map(|d| layout.coordinate(rank, d.name)).collect()
        };
        for along in [&["tp"][..], &["cp"], &["pp"], &["dp"], &["tp", "cp"], &["pp", "dp"], &[]] {
            let every: Vec<Group> = layout.groups(along, None).all().collect();
            let same = Groups::from_all(&every).unwrap();
            let found = (0..120).map(Rank).all(|rank| same.of(rank) == layout.groups(along, None).of(rank));
            assert!(found, "{along:?}: {same}");
            assert!(every.len() < 4 || Groups::from_all(&[every[0], every[1], every[3]]).is_none());
            for fixed in [None, Some(("pp", 0)), Some(("pp", 2)), Some(("dp", 4))] {
                if fixed.is_some_and(|(name, _)| along.contains(&name)) {
                    continue;
                }
                let groups = layout.groups(along, fixed);
                let mut seen = 0;
                for rank in (0..layout.ranks()).map(Rank) {
                    let takes_part = fixed.is_none_or(|(name, at)| layout.coordinate(rank, name) == at);
                    let group = groups.of(rank);
                    assert_eq!(group.is_some(), takes_part, "{along:?} {fixed:?} {rank}");
                    let Some(group) = group else { continue };
                    let found: Vec<Rank> = group.ranks().collect();
                    let all = (0..layout.ranks()).map(Rank);
                    let expected: Vec<Rank> =
                        all.filter(|other| others(*other, along) == others(rank, along)).collect();
                    assert_eq!(found, expected, "{along:?} {fixed:?}");
                    assert_eq!(found[group.position(rank).unwrap() as usize], rank);
                    seen += 1;
                }
                assert_eq!(groups.count() * groups.size(), seen);
                assert!(groups.all().all(|group| groups.of(group.first) == Some(group)));
                let ranks: Vec<Rank> = groups.all().flat_map(Group::ranks).collect();
                let positions: Vec<Option<u32>> = ranks.iter().map(|&rank| groups.position(rank)).collect();
                assert_eq!(positions, (0..seen).map(Some).collect::<Vec<_>>(), "{along:?} {fixed:?}");
            }
        }
    }

    #[test]
    fn pairs_have_neighbours_and_ends() {
        let layout = layout();
        for [from, to] in [[0, 1], [2, 1], [2, 0]] {
            let pairs = layout.pairs("pp", [from, to]);
            for rank in (0..layout.ranks()).map(Rank) {
                let stage = layout.coordinate(rank, "pp");
                let group = pairs.of(rank);
                assert_eq!(group.is_some(), stage == from || stage == to);
                let Some(group) = group else { continue };
                let stages: Vec<u32> = group.ranks().map(|rank| layout.coordinate(rank, "pp")).collect();
                assert_eq!(stages, [from.min(to), from.max(to)]);
                assert!(
                    group
                        .ranks()
                        .all(|other| layout.coordinate(other, "dp") == layout.coordinate(rank, "dp"))
                );
            }
        }
        let two = |first| Group { first: Rank(first), count: 2, stride: 1 };
        for groups in [&[two(0), two(0)][..], &[two(0), two(1)], &[two(0), two(2), two(5)], &[]] {
            assert_eq!(Groups::from_all(groups), None, "{groups:?}");
        }
        assert_eq!(Groups::whole(7).of(Rank(3)), Some(Group::all(7)));
        assert_eq!(Groups::whole(7).of(Rank(7)), None);
    }
}
