//! Executors: each that is listed is in the help and in the docs, and one of a caller's own runs beside them.

use std::collections::BTreeSet;
use std::path::Path;

use tempfile::TempDir;
use zipwire::executors::{self, Capabilities, MPI, PlanReport, PlanRun, SIM, THREADS, ValidationSupport};
use zipwire::scenarios::{Experiment, Source, Variant, load};
use zipwire::schedule::FailureKind;
use zipwire::{Cancel, ExecuteError, Executor, Output, Prepared, RunResult, compare, write_run};

use crate::common::process;

use process::{output, text_of};

/// Runs what another executor runs, and says that it is something else.
struct Echo {
    of: &'static dyn Executor,
    is_real: bool,
    /// Bytes that it takes besides the timeline.
    memory: u64,
    refuses: bool,
}

impl Executor for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn summary(&self) -> &'static str {
        "another executor under another name"
    }

    fn clock(&self) -> &'static str {
        "borrowed"
    }

    fn times(&self, _: &Experiment) -> &'static str {
        "echoed"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_real: self.is_real, ..self.of.capabilities() }
    }

    fn memory_bytes(&self, _: &Prepared<'_>, _: usize) -> u64 {
        self.memory
    }

    fn check(&self, prepared: &Prepared<'_>, index: usize) -> Result<(), ExecuteError> {
        let name = prepared.experiment().variants[index].name.clone();
        if self.refuses { Err(ExecuteError::Adaptive(name, "others".to_owned())) } else { Ok(()) }
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        assert!(!self.refuses, "what is refused is not run");
        self.of.run_plan(prepared, run, cancel)
    }
}

static ECHO: Echo = Echo { of: SIM, is_real: false, memory: 0, refuses: false };

fn experiment(sets: &[&str]) -> Experiment {
    experiment_of("smoke/moe-dirichlet-2x2", sets)
}

fn experiment_of(name: &str, sets: &[&str]) -> Experiment {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.toml"));
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    load(&Source::read(&file).unwrap(), &sets, None).unwrap()
}

/// One implementation is all that it takes: comparisons, summaries and files ask it what it is.
#[test]
fn an_executor_of_ones_own_runs_beside_the_others() {
    let experiment = experiment(&[]);
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let executors: [&'static dyn Executor; 2] = [SIM, &ECHO];
    let folder = TempDir::new().unwrap();
    let mut output = Output::create(folder.path()).unwrap();
    let keep = |ran: &RunResult<'_>| {
        write_run(&mut output, ran).unwrap();
        Ok::<(), ExecuteError>(())
    };
    let first = &experiment.variants[0].name;
    let compared = compare(&mut prepared, &executors, first, false, &cancel, |_, _| {}, keep).unwrap();
    output.commit().unwrap();
    assert_eq!(compared.failed.len(), 0);
    for variant in &experiment.variants {
        let result = |executor: &str| compared.executors.get(executor, &variant.name).unwrap().metrics;
        assert_eq!(result("echo"), result("sim"), "{}", variant.name);
        let file = folder.path().join(format!("echo-{}.trace.json", variant.name));
        let trace = std::fs::read_to_string(file).unwrap();
        assert!(trace.contains("\"executor\":\"echo\"") && trace.contains("\"clock\":\"borrowed\""));
    }
}

/// Runs of single plans are all that adaptive variants and faults take of an executor.
#[test]
fn an_executor_of_ones_own_adapts_and_has_faults() {
    // Nobody above knows that it is threads.
    let lent = Echo { of: THREADS, is_real: true, memory: 0, refuses: false };
    let cancel = Cancel::new();
    let adaptive = experiment_of("switcher/small-2x2", &[]);
    let mut prepared = Prepared::new(&adaptive, &cancel).unwrap();
    let index = adaptive.variants.iter().position(Variant::is_adaptive).unwrap();
    let outcome = prepared.run(index, &lent, &cancel).unwrap();
    assert_eq!(outcome.verified, Some(true));
    let switcher = outcome.switcher.unwrap();
    assert!(!switcher.decisions.is_empty() && switcher.elapsed_s > 0.0, "{switcher:?}");
    assert_eq!(outcome.timeline.iterations.len(), adaptive.iterations as usize);

    let faulty = experiment_of("faults/delay", &[]);
    let mut prepared = Prepared::new(&faulty, &cancel).unwrap();
    let Err(ExecuteError::Run(_, _, failure)) = prepared.run(0, &lent, &cancel) else {
        panic!("a transfer is delayed beyond its deadline")
    };
    assert_eq!((failure.root_cause.rank.0, failure.first.kind), (6, FailureKind::Timeout));
}

#[test]
fn what_an_executor_says_of_itself_is_checked_before_it_runs() {
    let refused = |sets: &[&str], executor: &dyn Executor| {
        let experiment = experiment(sets);
        let cancel = Cancel::new();
        let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
        let checked = prepared.check(executor).unwrap_err().to_string();
        assert_eq!(prepared.run(0, executor, &cancel).unwrap_err().to_string(), checked);
        checked
    };
    let real = Echo { of: SIM, is_real: true, memory: 0, refuses: false };
    let barrier = refused(&["cluster.start=\"barrier\""], &real);
    assert!(barrier.starts_with("`cluster.start` is `barrier`, and on `echo` each"), "{barrier}");
    let hungry = Echo { of: SIM, is_real: false, memory: 1 << 60, refuses: false };
    let memory = refused(&[], &hungry);
    assert!(memory.contains("on `echo` needs 1152921504.61 GB of memory"), "{memory}");
    let strict = Echo { of: SIM, is_real: false, memory: 0, refuses: true };
    assert!(refused(&[], &strict).contains("is adaptive"));
}

#[test]
fn names_are_distinct_and_lead_back() {
    let names: BTreeSet<_> = executors::ALL.iter().map(|executor| executor.name()).collect();
    assert_eq!(names.len(), executors::ALL.len());
    for &executor in executors::ALL {
        assert!(executors::named(executor.name()).unwrap() == executor);
        assert_ne!(executor.summary(), "");
    }
    assert!(SIM != THREADS);
}

/// `validate` paces the links of threads, and probes hosts over MPI: another executor that says it can be held against a prediction
/// needs a way of its own there first.
#[test]
fn validation_measures_on_threads_and_hosts() {
    let support = |executor: &dyn Executor| executor.capabilities().validation;
    assert_eq!(support(THREADS), ValidationSupport::Paced);
    assert_eq!(support(MPI), ValidationSupport::Probed);
    for executor in executors::ALL.iter().filter(|executor| **executor != THREADS && **executor != MPI) {
        let ValidationSupport::None(reason) = support(*executor) else { panic!("{executor}") };
        let ended = output(&["validate", "scenarios/quickstart.toml", "--on", executor.name()]);
        assert_eq!(ended.status.code(), Some(2));
        let error = text_of(&ended.stderr);
        assert!(error.contains(reason) && error.contains("use `threads`"), "{error}");
    }
}

/// Hosts run as fast as they can and are what they are: nothing is slowed down or changed, nor paced with constants of theirs.
#[test]
fn flags_of_other_validations_are_refused() {
    for (flags, has_no_effect_on) in [
        (["--on", "mpi", "--dilation", "2"], "`--dilation` has no effect on `mpi`"),
        (["--on", "mpi", "--real-set", "iterations=1"], "`--real-set` has no effect on `mpi`"),
        (["--on", "threads", "--cluster", "hosts.toml"], "`--cluster` has no effect on `threads`"),
        (["--on", "mpi", "--cluster", "absent.toml"], "absent.toml"),
    ] {
        let ended = output(&[["validate", "scenarios/quickstart.toml"].as_slice(), &flags].concat());
        let error = text_of(&ended.stderr);
        assert!(ended.status.code() == Some(2) && error.contains(has_no_effect_on), "{error}");
    }
}

#[test]
fn every_executor_is_in_the_help_and_in_the_docs() {
    let help = text_of(&output(&["run", "--help"]).stdout);
    let on = help.lines().skip_while(|line| !line.contains("--on ")).take(2).collect::<String>();
    let commands = include_str!("../../docs/capabilities.md");
    let listed: Vec<_> = executors::ALL.iter().map(|executor| executor.name()).collect();
    let synopsis = format!("zipwire run SCENARIO.toml [--on {}]", listed.join(","));
    assert!(commands.contains(&synopsis), "docs/capabilities.md says how `run` is called: `{synopsis}`");
    let design = include_str!("../../crates/runner/DESIGN.md");
    for executor in listed {
        assert!(on.contains(executor), "`{executor}` is not in the help: {on}");
        assert!(
            design.contains(&format!("| `{executor}` |")),
            "`{executor}` has no row in crates/runner/DESIGN.md"
        );
    }
}

/// They may come, but a name that nothing stands behind is a wrong argument and not a machine that lacks something.
#[test]
fn what_does_not_exist_is_not_listed() {
    for name in ["slurm", "nccl", "Sim", ""] {
        for command in ["run", "validate"] {
            let ended = output(&[command, "scenarios/quickstart.toml", "--on", name]);
            assert_eq!(ended.status.code(), Some(2), "{command} {name}");
            let error = text_of(&ended.stderr);
            let expected = format!("unknown executor `{name}`: ");
            let lists =
                error.contains(&expected) && error.contains("expected one of sim, threads, mpi, cuda");
            assert!(name.is_empty() || lists, "{error}");
        }
    }
}
