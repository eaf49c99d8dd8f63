//! Memory of one kind of pages for the buffers of a measurement: small pages, or huge ones if the kernel has them to give.

use std::ops::Range;

use memmap2::MmapMut;
use serde::Serialize;

/// The pages that buffers are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// The smallest of the system, of 4 KiB mostly; on Linux no transparent huge page takes their place.
    #[default]
    Small,
    /// Transparent huge pages of Linux, of 2 MiB mostly.
    Huge,
}

impl Pages {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Huge];

    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Huge => "huge",
        }
    }

    /// Whether this system can be asked for them.
    pub fn can_be_asked_for(self) -> bool {
        self == Self::Small || cfg!(target_os = "linux")
    }

    /// Bytes of a page.
    pub fn bytes(self) -> usize {
        /// Huge page of processors with base pages of 4 KiB, if the system names no size.
        const HUGE: usize = 2 << 20;
        match self {
            Self::Small => rustix::param::page_size(),
            Self::Huge => {
                let said = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
                said.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(HUGE)
            }
        }
    }
}

/// Zeroed memory in pages of one kind, which begins where a huge page does.
pub(super) struct Memory {
    map: MmapMut,
    /// Where in the map the memory is.
    range: Range<usize>,
}

impl Memory {
    /// Memory of `len` bytes; no page of it is there before it is touched.
    pub(super) fn new(pages: Pages, len: usize) -> Result<Self, String> {
        // Both kinds begin alike, so that they differ in nothing but their pages.
        let boundary = Pages::Huge.bytes();
        let whole = len.checked_next_multiple_of(boundary).and_then(|whole| whole.checked_add(boundary));
        let map = MmapMut::map_anon(whole.ok_or("more bytes than an address has")?);
        let map = map.map_err(|error| error.to_string())?;
        advise(&map, pages)?;
        let begin = map.as_ptr().addr().wrapping_neg() % boundary;
        Ok(Self { map, range: begin..begin + len })
    }

    /// The bytes, cut into parts of these lengths and what is left: each begins with a line of the cache.
    pub(super) fn parts(&mut self, lens: impl Iterator<Item = usize>) -> Vec<&mut [u8]> {
        let mut rest = &mut self.map[self.range.clone()];
        let part = |len: usize| {
            let (padded, behind) = std::mem::take(&mut rest).split_at_mut(padded(len));
            rest = behind;
            &mut padded[..len]
        };
        lens.map(part).collect()
    }

    /// The share of the memory that lies on huge pages, in percent, once all of it was touched; `None` if the system does not say.
    pub(super) fn huge_pct(&self) -> Option<f64> {
        let begin = self.map.as_ptr().addr() + self.range.start;
        let given =
            huge_bytes(&std::fs::read_to_string("/proc/self/smaps").ok()?, begin..begin + self.range.len())?;
        let whole = self.range.len().next_multiple_of(Pages::Huge.bytes());
        Some((100.0 * given as f64 / whole.max(1) as f64).min(100.0))
    }
}

/// Bytes that a part takes with what is left free behind it.
pub(super) fn padded(len: usize) -> usize {
    const CACHE_LINE: usize = 64;
    len.next_multiple_of(CACHE_LINE)
}

#[cfg(target_os = "linux")]
fn advise(map: &MmapMut, pages: Pages) -> Result<(), String> {
    use memmap2::Advice;

    match pages {
        Pages::Huge => map.advise(Advice::HugePage).map_err(|error| error.to_string()),
        Pages::Small => {
            // A kernel that refuses this knows no huge pages: then these are small, too.
            let _ = map.advise(Advice::NoHugePage);
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &MmapMut, pages: Pages) -> Result<(), String> {
    match pages {
        Pages::Huge => Err("huge pages can be asked of Linux only".to_owned()),
        Pages::Small => Ok(()),
    }
}

/// Bytes on huge pages in the mappings of `smaps` that have a part of these addresses; `None` if there is none, or one of them does
/// not say.
fn huge_bytes(smaps: &str, addresses: Range<usize>) -> Option<u64> {
    let (mut total, mut is_ours) = (None, false);
    for line in smaps.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        let bounds = first.split_once('-').and_then(|(begin, end)| {
            Some((usize::from_str_radix(begin, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        });
        if let Some((begin, end)) = bounds {
            is_ours = begin < addresses.end && addresses.start < end;
        } else if let Some(amount) = line.strip_prefix("AnonHugePages:").filter(|_| is_ours) {
            let kib: u64 = amount.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
            total = Some(total.unwrap_or(0) + (kib << 10));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg
7f0000400000-7f0000800000 rw-p 00000000 00:00 0
AnonHugePages:      4096 kB
7f0000800000-7f0000c00000 r--p 00000000 08:01 77                         /lib/AnonHugePages: 1 kB
Rss:                   4 kB
";

    #[test]
    fn huge_pages_are_those_of_the_mappings_that_are_asked_for() {
        let bytes =
            |begin: usize, end: usize| huge_bytes(SMAPS, 0x7f00_0000_0000 + begin..0x7f00_0000_0000 + end);
        assert_eq!(bytes(0, 1), Some(2 << 20));
        assert_eq!(bytes(0x1000, 0x40_0001), Some(6 << 20));
        assert_eq!(bytes(0x40_0000, 0x80_0000), Some(4 << 20));
        assert_eq!(bytes(0x80_0000, 0xc0_0000), None, "a mapping that does not say");
        assert_eq!(bytes(0xc0_0000, 0xd0_0000), None, "no mapping");
    }

    #[test]
    fn parts_are_apart_and_begin_with_a_huge_page() {
        for pages in Pages::ALL.into_iter().filter(|pages| pages.can_be_asked_for()) {
            let lens = [100, 0, 64, 5 << 20];
            let mut memory = Memory::new(pages, lens.into_iter().map(padded).sum()).unwrap();
            let mut parts = memory.parts(lens.into_iter());
            assert_eq!(parts[0].as_ptr().addr() % Pages::Huge.bytes(), 0);
            for (part, number) in parts.iter_mut().zip(1..) {
                assert_eq!(part.as_ptr().addr() % 64, 0);
                part.fill(number);
            }
            for ((part, number), len) in parts.iter().zip(1..).zip(lens) {
                assert!(part.len() == len && part.iter().all(|byte| *byte == number), "{pages:?} {number}");
            }
            if cfg!(target_os = "linux") && pages == Pages::Small {
                assert_eq!(memory.huge_pct(), Some(0.0));
            }
        }
    }

    #[test]
    fn memory_that_no_address_reaches_is_refused() {
        for len in [usize::MAX, usize::MAX / 2] {
            assert!(Memory::new(Pages::Small, len).is_err());
        }
    }
}
