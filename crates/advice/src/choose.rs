//! Choice among candidates: each class alone first, then what gains together.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Value;
use zipwire_codec::DType;
use zipwire_runner::break_even::{LARGEST_RATIO, break_evens, is_quick};
use zipwire_runner::executors::SIM;
use zipwire_runner::{Cancel, ExecuteError, Prepared, RunResult, Shared, compare};
use zipwire_scenarios::Experiment;
use zipwire_traces::{BreakEven, Executors};

use crate::candidates::{Candidate, candidates, least_share, share_of};
use crate::case::{Case, Class, Run, steps_tried};
use crate::{
    ADVICE_VERSION, Advice, AdviceError, AdviceSetup, BreakEvenAdvice, ClassAdvice, Gain, Judgement,
    OptionAdvice, StepAdvice, Verdict,
};

/// Gain below which compression is not worth its trouble, in percent of a step.
const LEAST_GAIN_PCT: f64 = 1.0;

/// Gain that is none, in percent of a step.
const NOTHING_PCT: f64 = 0.05;

/// Seeds with which a verdict on a scenario is simulated.
const SEEDS: u64 = 3;

/// Error of times of calls where nothing of the job was measured: the largest of presets on hardware of their own (docs/accuracy.md).
const GIVEN_ERROR: f64 = 0.15;

/// Name of what compresses nothing.
const NATIVE: &str = "native";

/// Simulates all variants of an experiment; `keep` is shown each.
pub(crate) fn simulate(
    experiment: &Experiment,
    memory: Option<u64>,
    cancel: &Cancel,
    keep: &mut dyn FnMut(&RunResult<'_>),
) -> Result<(), AdviceError> {
    let shared = Arc::new(Shared::with_memory(memory).folding(true));
    let mut prepared = Prepared::with(experiment, shared, cancel)?;
    run(&mut prepared, cancel, keep).map(drop)
}

fn run(
    prepared: &mut Prepared<'_>,
    cancel: &Cancel,
    keep: &mut dyn FnMut(&RunResult<'_>),
) -> Result<Executors, AdviceError> {
    let keep = |ran: &RunResult<'_>| -> Result<(), ExecuteError> {
        keep(ran);
        Ok(())
    };
    let compared = compare(prepared, &[SIM], NATIVE, false, cancel, |_, _| {}, keep)?;
    match compared.failed.into_iter().next() {
        Some(failed) => Err(failed.error.into()),
        None => Ok(compared.executors),
    }
}

/// Times of variants: for calls behind others made as late as they can be, and as early.
struct Times(Vec<Executors>);

impl Times {
    fn step_s(&self, variant: &str) -> f64 {
        self.0[0].get(SIM.name(), variant).map_or(f64::INFINITY, |summary| summary.metrics.iteration_s.mean)
    }

    /// Gain of a variant, whose bounds are as wide as its time depends on what is not known; `error` is that of times of calls.
    fn gain(&self, variant: &str, error: f64) -> Gain {
        let of = |executors: &Executors| {
            let time = |name| {
                executors.get(SIM.name(), name).map_or(f64::INFINITY, |own| own.metrics.iteration_s.mean)
            };
            100.0 * (1.0 - time(variant) / time(NATIVE))
        };
        let gains: Vec<f64> = self.0.iter().map(of).collect();
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Gain { gain_pct: gains[0], low_pct: least - error * least.abs(), high_pct: most + error * most.abs() }
    }
}

/// Searches the best candidates of a job.
pub(crate) struct Chooser<'a> {
    case: &'a Case,
    setup: &'a AdviceSetup,
    cancel: &'a Cancel,
    candidates: Vec<Candidate>,
    /// Error of times of calls, as a part of them.
    error: f64,
    steps: Vec<usize>,
}

/// Candidate for some classes, by the name of its variant.
struct Tried {
    name: String,
    candidate: Candidate,
    classes: Vec<String>,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(
        case: &'a Case,
        judgement: Option<&Judgement>,
        setup: &'a AdviceSetup,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            case,
            setup,
            cancel,
            candidates: candidates(case.codec.as_ref()),
            error: judgement
                .map_or(GIVEN_ERROR, |judgement| (judgement.collectives_error_pct / 100.0).abs().min(1.0)),
            steps: steps_tried(case.steps),
        }
    }

    pub(crate) fn advise(
        self,
        calibration: Option<Judgement>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Advice, AdviceError> {
        let classes: Vec<&Class> =
            self.case.classes.iter().filter(|class| !class.codable.is_empty()).collect();
        progress("candidates for each class of calls");
        let pairs =
            classes.iter().flat_map(|class| self.candidates.iter().map(move |candidate| (class, candidate)));
        let alone: Vec<Tried> = pairs
            .enumerate()
            .map(|(number, (class, candidate))| Tried {
                name: format!("alone-{number}"),
                candidate: candidate.clone(),
                classes: vec![class.name.clone()],
            })
            .collect();
        let (times, _) = self.times(&alone, false)?;
        let advised: Vec<ClassAdvice> =
            self.case.classes.iter().map(|class| self.of_class(class, &alone, &times)).collect();
        progress("what gains, together");
        let together = self.together(&advised, &classes);
        let (together_times, break_evens) = self.times(&together, true)?;
        let verdict = self.verdict(&together, &together_times, calibration.as_ref());
        let native = times.0[0].get(SIM.name(), NATIVE).expect("it was simulated").metrics;
        let advised = with_break_evens(advised, &together, &break_evens, &verdict);
        let step = StepAdvice {
            measured_s: self.case.measured_s,
            predicted_s: native.iteration_s.mean,
            communication_s: native.comm_s,
            exposed_s: self.case.exposed_s.unwrap_or((native.iteration_s.mean - native.compute_s).max(0.0)),
        };
        Ok(Advice {
            zipwire_advice: ADVICE_VERSION,
            source: self.case.source.clone(),
            cluster: self.case.cluster.clone(),
            first: self.first(&verdict, calibration.as_ref()),
            would_change: self.would_change(&verdict, &together, &break_evens),
            notes: self.notes(),
            calibration,
            step,
            classes: advised,
            verdict,
        })
    }

    /// Bytes after compression over those before, of what a candidate codes.
    fn share(&self, classes: &[String]) -> (f64, Vec<DType>) {
        let mut bytes: BTreeMap<DType, u64> = BTreeMap::new();
        for class in self.case.classes.iter().filter(|class| classes.contains(&class.name)) {
            for (dtype, own) in &class.codable {
                *bytes.entry(*dtype).or_default() += own;
            }
        }
        share_of(&bytes, &self.case.shares)
    }

    /// Largest part of frames, over the types of some classes, that no values make shorter.
    fn least_share(&self, candidate: &Candidate, classes: &[String]) -> f64 {
        let of = self.case.classes.iter().filter(|class| classes.contains(&class.name));
        of.flat_map(|class| class.codable.keys())
            .map(|dtype| least_share(candidate.id(), *dtype))
            .fold(0.0, f64::max)
    }

    /// Simulates candidates; with `searches` also where they break even, if that is quick.
    fn times(
        &self,
        tried: &[Tried],
        searches: bool,
    ) -> Result<(Times, Vec<(String, BreakEven)>), AdviceError> {
        let variant = |tried: &Tried| {
            let (share, least) =
                (self.share(&tried.classes).0, self.least_share(&tried.candidate, &tried.classes));
            (tried.candidate.variant(&tried.name, share, least), tried.classes.clone())
        };
        let variants: Vec<(Value, Vec<String>)> = tried.iter().map(variant).collect();
        let (mut times, mut found, mut is_slow) = (Vec::new(), Vec::new(), false);
        for run_of in self.runs(searches) {
            if run_of.seed > 0 && is_slow {
                break;
            }
            let experiment = self.case.experiment(&variants, &run_of)?;
            let shared = Arc::new(Shared::with_memory(self.setup.memory).folding(true));
            let mut prepared = Prepared::with(&experiment, shared, self.cancel)?;
            let executors = run(&mut prepared, self.cancel, &mut |_| {})?;
            is_slow = !is_quick(&prepared);
            if searches && times.is_empty() && !is_slow && !self.setup.without_break_even {
                found = break_evens(&executors, &mut prepared, self.cancel)?;
            }
            times.push(executors);
        }
        Ok((Times(times), found))
    }

    /// Simulations of the same variants: of a profile with calls made late and early, of a scenario with other seeds if it is about the verdict.
    fn runs(&self, is_verdict: bool) -> Vec<Run<'_>> {
        let late = Run { steps: &self.steps, queued: "late", seed: 0 };
        if self.case.is_profile {
            return vec![late, Run { queued: "early", ..late }];
        }
        (0..if is_verdict { SEEDS } else { 1 }).map(|seed| Run { seed, ..late }).collect()
    }

    fn of_class(&self, class: &Class, tried: &[Tried], times: &Times) -> ClassAdvice {
        let mut options: Vec<OptionAdvice> = tried
            .iter()
            .filter(|tried| tried.classes[0] == class.name)
            .map(|tried| OptionAdvice {
                variant: tried.candidate.name.clone(),
                step_s: times.step_s(&tried.name),
                gain: times.gain(&tried.name, self.error),
            })
            .collect();
        options.sort_by(|a, b| a.step_s.total_cmp(&b.step_s));
        let native_s = times.step_s(NATIVE);
        let best = options.first().filter(|option| option.gain.gain_pct > 0.0);
        ClassAdvice {
            name: class.name.clone(),
            op: class.op.clone(),
            group: class.group.clone(),
            ranks: class.ranks,
            calls: class.calls.round() as u32,
            bytes: class.bytes.round() as u64,
            total_s: class.total_s,
            exposed_s: class.exposed_s,
            best: best.map_or(NATIVE.to_owned(), |option| option.variant.clone()),
            gain_s: best.map_or(0.0, |option| native_s - option.step_s),
            gain: best.map(|option| option.gain).unwrap_or_default(),
            break_even: None,
            options,
        }
    }

    /// Candidates for all classes that gain by them, or for all classes if none does.
    fn together(&self, advised: &[ClassAdvice], classes: &[&Class]) -> Vec<Tried> {
        let of = |(number, candidate): (usize, &Candidate)| {
            let gains = |class: &&ClassAdvice| {
                let own = class.options.iter().find(|option| option.variant == candidate.name);
                own.is_some_and(|option| option.gain.gain_pct > 0.0)
            };
            let gaining: Vec<String> = advised.iter().filter(gains).map(|class| class.name.clone()).collect();
            let all = || classes.iter().map(|class| class.name.clone()).collect();
            let classes = if gaining.is_empty() { all() } else { gaining };
            Tried { name: format!("together-{number}"), candidate: candidate.clone(), classes }
        };
        if classes.is_empty() { Vec::new() } else { self.candidates.iter().enumerate().map(of).collect() }
    }

    fn verdict(&self, tried: &[Tried], times: &Times, calibration: Option<&Judgement>) -> Verdict {
        let best = tried.iter().min_by(|a, b| times.step_s(&a.name).total_cmp(&times.step_s(&b.name)));
        let Some(best) = best else {
            return Verdict {
                compress: false,
                text: "Do not compress: no call carries floating-point values that a codec shortens."
                    .to_owned(),
                variant: None,
                classes: Vec::new(),
                gain: Gain::default(),
            };
        };
        let gain = times.gain(&best.name, self.error);
        let compress = gain.gain_pct >= LEAST_GAIN_PCT && gain.low_pct > 0.0;
        let interval = format!("{:.1} to {:.1} %", gain.low_pct, gain.high_pct);
        let which = best.classes.join(", ");
        let mut text = if compress {
            format!(
                "Compress {which} by `{}`: steps take {:.1} % less ({interval}).",
                best.candidate.name, gain.gain_pct
            )
        } else if gain.gain_pct.abs() < NOTHING_PCT {
            format!(
                "Do not compress: `{}` for {which}, and all else that was tried, makes no difference.",
                best.candidate.name
            )
        } else if gain.gain_pct > 0.0 {
            format!(
                "Do not compress: the best that was found, `{}` for {which}, saves {:.2} % of a step ({interval}).",
                best.candidate.name, gain.gain_pct
            )
        } else {
            format!(
                "Do not compress: the least bad, `{}` for {which}, makes steps {:.2} % longer.",
                best.candidate.name, -gain.gain_pct
            )
        };
        if let Some(judged) = calibration.filter(|judged| !judged.is_believed) {
            text += &format!(" Take it with care: {}.", judged.why);
        }
        Verdict {
            compress,
            text,
            variant: Some(best.candidate.name.clone()),
            classes: best.classes.clone(),
            gain,
        }
    }

    /// Next steps.
    fn first(&self, verdict: &Verdict, calibration: Option<&Judgement>) -> Vec<String> {
        let mut first = Vec::new();
        let Some(_) = &verdict.variant else { return first };
        if calibration.is_some_and(|judged| !judged.is_believed) {
            first.push(
                "Profile all ranks, for several steps: what is not believed is not worth tuning.".to_owned(),
            );
        }
        let (_, assumed) = self.share(&verdict.classes);
        if !assumed.is_empty() && self.case.codec.is_none() {
            let types: Vec<&str> = assumed.iter().map(|dtype| dtype.name()).collect();
            first.push(format!(
                "Measure what your tensors compress to: `--tensors FILES`; that of {} is assumed.",
                types.join(", ")
            ));
        }
        if verdict.compress {
            first.push("Measure how fast your GPUs code, `zipwire bench gpu`, and run again with `codec_speed` of a cluster file.".to_owned());
            first.push(
                "Run it for real on a few nodes: `zipwire run --on mpi`, or `nccl`, takes scenarios, and workload `profile` replays profiles (docs/scenarios.md)."
                    .to_owned(),
            );
        } else {
            first.push(
                "Look for more overlap or fewer bytes elsewhere: compression has nothing to win here."
                    .to_owned(),
            );
        }
        first
    }

    /// Conditions that turn the verdict.
    fn would_change(&self, verdict: &Verdict, tried: &[Tried], found: &[(String, BreakEven)]) -> Vec<String> {
        let mut changes = Vec::new();
        let Some(variant) = &verdict.variant else { return changes };
        // What gains too little gains no more with another codec.
        if !verdict.compress && verdict.gain.gain_pct > -NOTHING_PCT {
            return vec![
                "Calls that ranks wait for longer: slower links, more ranks, less compute between them."
                    .to_owned(),
            ];
        }
        let Some(tried) = tried.iter().find(|tried| tried.candidate.name == *variant) else { return changes };
        let Some((_, at)) = found.iter().find(|(name, _)| *name == tried.name) else { return changes };

        let ratio = 1.0 / self.share(&tried.classes).0;
        let now = if self.case.codec.is_some() { String::new() } else { format!(" (now {ratio:.2})") };
        let reached = at.ratio.filter(|ratio| *ratio < LARGEST_RATIO - 1e-6);
        match (reached, verdict.gain.gain_pct > 0.0) {
            (Some(at), true) => changes.push(format!("A ratio below {at:.2}{now}: then it gains nothing.")),
            (Some(at), false) => changes.push(format!("A ratio above {at:.2}{now}.")),
            (None, false) => changes.push("No ratio up to 16 is enough.".to_owned()),
            (None, true) => {}
        }
        if let Some((encode, decode)) = at.encode_gbps.zip(at.decode_gbps) {
            let side = if verdict.gain.gain_pct > 0.0 { "slower" } else { "faster" };
            changes.push(format!(
                "A codec {side} than {encode:.1} GB/s to encode and {decode:.1} GB/s to decode."
            ));
        } else if verdict.gain.gain_pct <= 0.0 {
            changes.push("No codec is fast enough, as the way itself costs more than it saves: slower links, or larger calls.".to_owned());
        }
        changes
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.case.notes.clone();
        if self.case.is_profile && self.case.exposed_s.is_none() {
            notes.push("nothing is known of what ranks compute: calls count as exposed, one after the other, so gains are of their time and not of a step".to_owned());
        }
        notes
    }
}

/// Break-even points of the variants that code a class together, for the one that the verdict is about.
fn with_break_evens(
    mut classes: Vec<ClassAdvice>,
    tried: &[Tried],
    found: &[(String, BreakEven)],
    verdict: &Verdict,
) -> Vec<ClassAdvice> {
    let own = tried.iter().find(|tried| Some(&tried.candidate.name) == verdict.variant.as_ref());
    let at = own.and_then(|tried| found.iter().find(|(name, _)| *name == tried.name));
    if let Some((tried, (_, at))) = own.zip(at) {
        for class in classes.iter_mut().filter(|class| tried.classes.contains(&class.name)) {
            class.break_even = Some(BreakEvenAdvice {
                ratio: at.ratio,
                codec_bytes_per_s: at.encode_gbps.map(|gbps| gbps * 1e9),
            });
        }
    }
    classes
}
