//! One operation, measured on one shape of cluster over sizes.

use zipwire_cluster::library::Operation;

/// Least number of sizes that anything is fitted to: of all series for the model, and of one for a line.
pub(crate) const LEAST_SIZES: usize = 4;

/// Time of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Size in bytes, as nccl-tests has it.
    pub bytes: u64,
    /// Seconds: of operations that are not in place, or in place where no others were measured; the median if the size was
    /// measured several times.
    pub seconds: f64,
    /// How far the rows of the size, in place and not, are apart: largest over smallest, less 1.
    pub spread: f64,
}

/// NICs of a node as the log names them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nics {
    /// NICs of a node.
    pub per_node: u32,
    /// Nominal bytes per second of each, in each direction.
    pub bytes_per_s: f64,
}

/// Most NICs of a node, and most bits per second of each: two ports of 800 Gb/s.
const MOST_NICS: u32 = 128;
const MOST_GIGABITS: f64 = 1600.0;

impl Nics {
    /// NICs of a node, as `8x200G`: their number, and the line rate of each in Gb/s. None of other texts, and of NICs that nobody makes.
    ///
    /// ```
    /// use zipwire_calibrate::Nics;
    ///
    /// assert_eq!(Nics::parse("8x200G"), Some(Nics { per_node: 8, bytes_per_s: 25e9 }));
    /// assert_eq!(Nics::parse("200G"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (count, speed) = text.split_once(['x', 'X'])?;
        let nics = Self { per_node: count.trim().parse().ok()?, bytes_per_s: line_rate(speed.trim())? };
        nics.is_made().then_some(nics)
    }

    /// NICs of some GPUs of a node, where others of its GPUs use the rest at the same time; at least one.
    pub(crate) fn of_part(self, gpus: u32, gpus_of_node: u32) -> Self {
        let part = |count: u32| u64::from(count) * u64::from(gpus) / u64::from(gpus_of_node.max(1));
        Self { per_node: part(self.per_node).max(1) as u32, ..self }
    }

    /// Whether nodes have so many NICs, and NICs such a line rate.
    pub(crate) fn is_made(self) -> bool {
        (1..=MOST_NICS).contains(&self.per_node) && (1.0..=MOST_GIGABITS).contains(&(self.bytes_per_s * 8e-9))
    }
}

/// Bytes per second of a line rate, as `200G` or `200Gb/s`.
pub(crate) fn line_rate(word: &str) -> Option<f64> {
    let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
    let rest = word[digits.len()..].trim_end_matches([',', ';', ')']);
    let gigabits: f64 = digits.parse().ok().filter(|_| matches!(rest, "G" | "Gb/s" | "Gbps" | "Gbit/s"))?;
    Some(gigabits * 1e9 / 8.0)
}

/// One operation on one shape of cluster, over sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The file.
    pub file: String,
    /// Operation that was measured.
    pub operation: Operation,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each node that took part; a rank is a GPU.
    pub gpus_per_node: u32,
    /// Name of the GPU, if the log has it.
    pub gpu: Option<String>,
    /// NICs of each node, if the log has them.
    pub nics: Option<Nics>,
    /// Type of values, as nccl-tests names it.
    pub dtype: String,
    /// By size, ascending, each once; none of no bytes.
    pub points: Vec<Point>,
}

impl Series {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// Bus bandwidth of a time, in bytes per second.
    pub fn bus(&self, bytes: u64, seconds: f64) -> f64 {
        self.operation.bus_factor(self.ranks()) * bytes as f64 / seconds
    }

    /// Highest bus bandwidth that was measured, in bytes per second.
    pub fn peak_bus(&self) -> f64 {
        self.points.iter().map(|point| self.bus(point.bytes, point.seconds)).fold(0.0, f64::max)
    }

    /// Name for messages, as `all_reduce 2x8`.
    pub fn name(&self) -> String {
        format!("{} {}x{}", self.operation.name(), self.nodes, self.gpus_per_node)
    }

    /// How far apart rows of one size are, in the middle over sizes of `least` bytes and more; 0 if each has one row.
    pub fn scatter(&self, least: u64) -> f64 {
        let spreads = self.points.iter().filter(|point| point.bytes >= least).map(|point| point.spread);
        median(spreads.collect()).unwrap_or(0.0)
    }

    /// The series with some of its sizes only.
    pub(crate) fn keep(&self, is_kept: impl Fn(usize) -> bool) -> Self {
        let points = self.points.iter().enumerate().filter(|(index, _)| is_kept(*index));
        Self { points: points.map(|(_, point)| *point).collect(), ..self.clone() }
    }
}

/// Bytes, seconds, and other seconds of the same row.
pub(crate) type Timed = (u64, f64, Option<f64>);

/// Points from rows, in any order.
pub(crate) fn points(rows: impl IntoIterator<Item = Timed>) -> Vec<Point> {
    let mut rows: Vec<_> = rows.into_iter().filter(|(bytes, _, _)| *bytes > 0).collect();
    rows.sort_by_key(|(bytes, _, _)| *bytes);
    let groups = rows.chunk_by(|(a, _, _), (b, _, _)| a == b);
    let point = |group: &[(u64, f64, Option<f64>)]| {
        let all: Vec<f64> =
            group.iter().flat_map(|(_, seconds, other)| [Some(*seconds), *other]).flatten().collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(0.0, f64::max);
        let seconds = median(group.iter().map(|(_, seconds, _)| *seconds).collect());
        let seconds = seconds.expect("a group has a row at least");
        Point { bytes: group[0].0, seconds, spread: most / least - 1.0 }
    };
    groups.map(point).collect()
}

/// Median: the middle of the numbers, or the mean of the two in the middle; `None` without numbers.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        count if count % 2 == 1 => Some(numbers[middle]),
        _ => Some((numbers[middle - 1] + numbers[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
