//! Codecs and sums, while all ranks code or add up.

use zipwire_calibrate::{Codec, HostConstants};
use zipwire_codec::Spec;
use zipwire_timeline::Timeline;

use super::{Prober, ROUNDS, line_of, median};
use crate::ExecuteError;

/// How long all frames of the longest probe travel, about.
const LONGEST_S: f64 = 0.2;
/// Bytes of values that a rank has for each other one, at most and at the least.
const LONGEST: u64 = 4 << 20;
const SHORTEST: u64 = 128 << 10;

impl Prober<'_> {
    /// Measures launch time and speed of a codec; `None` if they are below the clock's resolution.
    pub(super) fn codec(
        &self,
        spec: &Spec,
        constants: &HostConstants,
    ) -> Result<Option<Codec>, ExecuteError> {
        let (mut encodes, mut decodes) = (Vec::new(), Vec::new());
        for parts in 1..=4 {
            let bytes = self.longest(constants) / 4 * parts;
            let timeline = self.run(
                &format!(
                    "[workload]\nkind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"{bytes} B\"\n\
                     payload = {{ gaussian = 0.02 }}\n\n[codec]\nid = \"{spec}\"\n\
                     speed = {{ encode = \"1 GB/s\", decode = \"1 GB/s\" }}\n\n[[variant]]\nname = \"coded\"\n\
                     protocol = \"static-first\"\nalgorithm = \"direct\"\n"
                ),
                ROUNDS,
            )?;
            encodes.extend(samples(&timeline, "encode"));
            decodes.extend(samples(&timeline, "decode"));
        }
        let lines = line_of(encodes).zip(line_of(decodes));
        Ok(lines.map(|(encode, decode)| Codec { id: spec.to_string(), encode, decode }))
    }

    /// Bytes that a rank reads per second where it adds up.
    pub(super) fn sums(&self, constants: &HostConstants) -> Result<Option<f64>, ExecuteError> {
        let bytes = self.longest(constants) * u64::from(self.topology.ranks());
        let timeline = self.run(
            &format!(
                "[workload]\nkind = \"collective\"\ncollective = \"reduce-scatter\"\nbytes_per_rank = \"{bytes} B\"\n\n\
                 [[variant]]\nname = \"native\"\nalgorithm = \"direct\"\n"
            ),
            ROUNDS,
        )?;
        // All are about as long, so there is no line through them.
        let rates: Vec<f64> = samples(&timeline, "reduce")
            .filter(|(bytes, seconds)| *bytes > 0 && *seconds > 0.0)
            .map(|(bytes, seconds)| bytes as f64 / seconds)
            .collect();
        Ok((!rates.is_empty()).then(|| median(rates)))
    }

    /// Bytes of values that a rank has for each other one in the longest probe.
    fn longest(&self, constants: &HostConstants) -> u64 {
        let pair = constants.inter.or(constants.intra);
        let bytes_per_s = pair.map_or(f64::INFINITY, |pair| pair.line.bytes_per_s);
        let others = f64::from(self.topology.ranks() - 1);
        ((bytes_per_s * LONGEST_S / others) as u64).clamp(SHORTEST, LONGEST) / 64 * 64
    }
}

/// Bytes and seconds of the ops of a name, behind the first iteration.
fn samples<'t>(timeline: &'t Timeline, name: &'static str) -> impl Iterator<Item = (u64, f64)> + 't {
    let spans = timeline.spans.iter().filter(move |span| span.name == name && span.iteration > 0);
    spans.map(|span| (span.bytes, span.end_s - span.begin_s))
}
