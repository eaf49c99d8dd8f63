//! A scenario on a real executor against the simulator: the same digest, the same multiset of spans, every received byte
//! compared with what was sent, and no frame longer than its bound.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use zipwire::codec::{DType, FrameShape, Layout, Spec};
use zipwire::executors::SIM;
use zipwire::scenarios::{Experiment, Source, load};
use zipwire::schedule::plan::{Batch, Local, OpKind, Plan};
use zipwire::schedule::{Lane, OpId, Rank, Stage};
use zipwire::timeline::{Span, Timeline};
use zipwire::{Cancel, Executor, Prepared};

/// A scenario file and what is replaced in it.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    file: PathBuf,
    sets: Vec<String>,
    /// Layout of the frames, where a scenario allows several.
    layout: Option<Layout>,
}

impl Case {
    fn new(file: PathBuf, sets: Vec<String>) -> Self {
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self { name, file, sets, layout: None }
    }

    /// With frames of this layout, where a scenario says nothing.
    pub(crate) fn in_layout(&self, layout: Layout) -> Self {
        Self { layout: Some(layout), ..self.clone() }
    }

    /// With so many nodes of one GPU.
    pub(crate) fn on_nodes(self, nodes: u32) -> Self {
        let counts = [format!("cluster.nodes={nodes}"), "cluster.gpus_per_node=1".to_owned()];
        Self { sets: self.sets.into_iter().chain(counts).collect(), ..self }
    }

    fn with_codec(self, spec: &str) -> Self {
        let sets = self.sets.into_iter().chain([format!("codec.id={spec}")]).collect();
        Self { name: format!("{}::{spec}", self.name), sets, ..self }
    }
}

/// Smoke scenarios that together have every collective in every algorithm under every protocol, so both layouts, and the
/// worst payload: these run with every codec.
const FOR_EVERY_CODEC: [&str; 5] = [
    "all-to-all-sparse-2x3",
    "all-gather-algorithms-2x3",
    "broadcast-algorithms-2x3",
    "reduce-scatter-algorithms-2x3",
    "all-to-all-noise-2x2",
];

/// With rows in front of a codec as long as drawn payloads have them.
const DEDUP: &str = "dedup:row=256+tiered";

/// Smoke scenarios in which ranks have something that what is sent differs from: these run with every codec of differences.
const WITH_BASE: [&str; 2] = ["weight-sync-2x3", "weight-sync-broadcast-1x4"];

/// All smoke scenarios, some of them with every codec, and the quickstart with tokens of `hidden` values.
pub(crate) fn cases(hidden: u32) -> Vec<Case> {
    zipwire::paper_codecs::register();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(root.join("smoke"))
        .expect("smoke scenarios are part of the repository")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 8, "smoke scenarios cover each protocol and workload");
    let mut cases: Vec<Case> = files.into_iter().map(|file| Case::new(file, Vec::new())).collect();
    for name in FOR_EVERY_CODEC {
        let case = cases.iter().find(|case| case.name == name).expect("it is a smoke scenario").clone();
        cases.extend(Spec::ids().chain([DEDUP]).map(|spec| case.clone().with_codec(spec)));
    }
    for name in WITH_BASE {
        let case = cases.iter().find(|case| case.name == name).expect("it is a smoke scenario").clone();
        cases.extend(Spec::deltas().map(|spec| case.clone().with_codec(&spec.to_string())));
    }
    // The full one is run by hand and in CI.
    let shrunk = vec![format!("workload.model.hidden={hidden}"), "iterations=2".to_owned()];
    cases.push(Case::new(root.join("quickstart.toml"), shrunk));
    cases
}

/// Compares the variants at these places, or all of them.
pub(crate) fn conforms(
    executor: &dyn Executor,
    case: &Case,
    variants: Option<&[usize]>,
) -> Result<(), Failed> {
    // Loaded and planned apart: executors must agree because they plan the same, not because they share a plan.
    let (simulated, real) = (resolve(case)?, resolve(case)?);
    let cancel = Cancel::new();
    let (mut simulation, mut run) = (Prepared::new(&simulated, &cancel)?, Prepared::new(&real, &cancel)?);
    let digests =
        |prepared: &Prepared<'_>| prepared.variants().map(|(_, p)| p.digest.clone()).collect::<Vec<_>>();
    if digests(&simulation) != digests(&run) {
        return Err("plan digests differ".into());
    }
    let chosen = |index: &usize| variants.is_none_or(|variants| variants.contains(index));
    for (index, variant) in simulated.variants.iter().enumerate().filter(|(index, _)| chosen(index)) {
        let expected = facts(&simulation.run(index, SIM, &cancel)?.timeline);
        let outcome = run.run(index, executor, &cancel)?;
        if let Some(spec) = &run.planned(index).plan.codec {
            stays_within_bounds(&run.planned(index).plan, spec, &outcome.timeline)
                .map_err(|error| format!("variant `{}`: {error}", variant.name))?;
        }
        if outcome.verified != Some(true) {
            return Err(format!("variant `{}`: not every received byte was compared", variant.name).into());
        }
        let got = facts(&outcome.timeline);
        if expected.is_empty() {
            return Err(format!("variant `{}` executes nothing", variant.name).into());
        }
        if let Some(difference) = difference(&expected, &got) {
            return Err(format!("variant `{}`: {difference}", variant.name).into());
        }
    }
    Ok(())
}

pub(crate) fn resolve(case: &Case) -> Result<Experiment, Failed> {
    let mut experiment = load(&Source::read(&case.file)?, &case.sets, None)?;
    for variant in experiment.variants.iter_mut().filter(|variant| variant.protocol.takes_layout()) {
        variant.layout = variant.layout.or(case.layout);
    }
    Ok(experiment)
}

/// Fields of a span that conformance compares: all but times.
type Fact = (u32, Rank, OpId, Lane, &'static str, Option<Stage>, Option<Rank>, u64);

/// No op yields more than the bounds of its frames, nor has a plan room for more.
fn stays_within_bounds(plan: &Plan, spec: &Spec, timeline: &Timeline) -> Result<(), String> {
    let codec = spec.codec();
    let bound = |batch: &Batch| -> u64 {
        let bounds = batch.blocks.iter().map(|block| {
            let count = block.values.len as usize / batch.dtype.width();
            let bound = codec.bound(FrameShape::new(batch.layout, batch.dtype, count)) as u64;
            assert_eq!(block.known_len() + block.dynamic_section.len, bound);
            bound
        });
        bounds.sum()
    };
    let mut encoded = 0;
    for span in timeline.spans.iter().filter(|span| span.name == "encode") {
        let OpKind::Local(Local::Encode(batch)) = &plan.programs[span.rank.index()].ops[span.op.index()].kind
        else {
            return Err(format!("op {} of rank {} is no encode", span.op, span.rank));
        };
        let (coded, bound) = (span.bytes_coded.unwrap_or(u64::MAX), bound(batch));
        if coded > bound {
            return Err(format!("rank {} encoded {coded} bytes where {bound} is the bound", span.rank));
        }
        encoded += 1;
    }
    // All that a reduction in two levels sends to other nodes is sums, in FP32.
    if encoded == 0 && codec.supports(DType::F32) { Err("it encodes nothing".to_owned()) } else { Ok(()) }
}

fn facts(timeline: &Timeline) -> BTreeMap<Fact, usize> {
    let mut facts = BTreeMap::new();
    for span in &timeline.spans {
        let &Span { iteration, rank, op, lane, name, stage, peer, bytes, .. } = span;
        *facts.entry((iteration, rank, op, lane, name, stage, peer, bytes)).or_default() += 1;
    }
    facts
}

fn difference(expected: &BTreeMap<Fact, usize>, got: &BTreeMap<Fact, usize>) -> Option<String> {
    let mut keys: Vec<&Fact> = expected.keys().chain(got.keys()).collect();
    keys.sort();
    let differs = |key: &&&Fact| expected.get(**key) != got.get(**key);
    keys.iter().find(differs).map(|key| {
        let count = |facts: &BTreeMap<Fact, usize>| facts.get(*key).copied().unwrap_or(0);
        format!("{key:?}: {} times simulated, {} times for real", count(expected), count(got))
    })
}
