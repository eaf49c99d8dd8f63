//! Executors: each that is listed is in the help and in the docs, and one of a caller's own runs beside them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use zipwire::executors::{
    self, CUDA, Capabilities, MPI, NCCL, PlanReport, PlanRun, SIM, ServeReport, ServeRun, THREADS,
    ValidationSupport,
};
use zipwire::scenarios::{Experiment, Source, Variant, load};
use zipwire::schedule::FailureKind;
use zipwire::{
    Cancel, ExecuteError, Executor, Output, Prepared, RunResult, ServingValidationSetup, compare,
    validate_serving, write_run,
};

use crate::common::process;

use process::{output, text_of};

/// Runs what another executor runs, and says that it is something else.
struct Echo {
    of: &'static dyn Executor,
    is_real: bool,
    /// Bytes that it takes besides the timeline.
    memory: u64,
    refuses: bool,
    /// Runs that it was asked for.
    runs: AtomicU32,
}

impl Echo {
    const fn new(of: &'static dyn Executor, is_real: bool) -> Self {
        Self { of, is_real, memory: 0, refuses: false, runs: AtomicU32::new(0) }
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }
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
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.of.run_plan(prepared, run, cancel)
    }

    fn serve(
        &self,
        prepared: &Prepared<'_>,
        run: &ServeRun<'_>,
        cancel: &Cancel,
    ) -> Result<ServeReport, ExecuteError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.of.serve(prepared, run, cancel)
    }
}

static ECHO: Echo = Echo::new(SIM, false);

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
    let lent = Echo::new(THREADS, true);
    let cancel = Cancel::new();
    let adaptive = experiment_of("switcher/small-2x2", &[]);
    let mut prepared = Prepared::new(&adaptive, &cancel).unwrap();
    let index = adaptive.variants.iter().position(Variant::is_adaptive).unwrap();
    let outcome = prepared.run(index, &lent, &cancel).unwrap();
    assert_eq!(outcome.verified, Some(true));
    let switcher = outcome.switcher.unwrap();
    assert!(!switcher.decisions.is_empty() && switcher.elapsed_s > 0.0, "{switcher:?}");
    assert_eq!(outcome.timeline.iterations.len(), adaptive.iterations as usize);
    assert_eq!(lent.runs(), adaptive.iterations, "each iteration is a plan of its own");

    let faulty = experiment_of("faults/delay", &[]);
    let mut prepared = Prepared::new(&faulty, &cancel).unwrap();
    let Err(ExecuteError::Run(_, _, failure)) = prepared.run(0, &lent, &cancel) else {
        panic!("a transfer is delayed beyond its deadline")
    };
    assert_eq!((failure.root_cause.rank.0, failure.first.kind), (6, FailureKind::Timeout));
}

/// Requests are served, at the speed of this machine and paced beside a prediction, by the executor that is asked.
#[test]
fn an_executor_of_ones_own_serves() {
    let lent = Echo::new(THREADS, true);
    let cancel = Cancel::new();
    // A cluster that is slow enough for this machine to keep up with.
    let sets = [
        "workload.model={ preset = \"llama3-8b\", layers = 2 }",
        "workload.arrivals.requests=4",
        "cluster.nic_bandwidth=\"100 MB/s\"",
        "variant.1.codec={ id = \"tiered\", speed = { encode = \"200 MB/s\", decode = \"200 MB/s\", launch = \"15 us\" } }",
    ];
    let mut served = experiment_of("serving/paced", &sets);
    served.select(&["tiered".to_owned()]).unwrap();
    let mut prepared = Prepared::new(&served, &cancel).unwrap();
    prepared.check(&lent).unwrap();
    let outcome = prepared.run(0, &lent, &cancel).unwrap();
    assert_eq!((outcome.verified, lent.runs()), (Some(true), 1));
    assert_eq!(outcome.served.unwrap().summary.metrics.finished, 4);

    let setup =
        ServingValidationSetup { simulated: &prepared, real: &prepared, executor: &lent, dilation: None };
    let mut steps = Vec::new();
    let validation = validate_serving(&setup, &cancel, |step| steps.push(step)).unwrap();
    assert_eq!(lent.runs(), 3, "once as fast as it goes, and once paced");
    assert_eq!(steps, ["sim: tiered", "work of tiered on this machine", "echo: tiered"]);
    assert_eq!(validation.variants[0].measured.metrics.finished, 4);

    // It says that it serves nothing.
    let dumb = Echo::new(CUDA, true);
    let refused = prepared.check(&dumb).unwrap_err().to_string();
    assert!(refused.starts_with("`echo` does not serve requests"), "{refused}");
    assert_eq!(dumb.runs(), 0);
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
    let real = Echo::new(SIM, true);
    let barrier = refused(&["cluster.start=\"barrier\""], &real);
    assert!(barrier.starts_with("`cluster.start` is `barrier`, and on `echo` each"), "{barrier}");
    let hungry = Echo { memory: 1 << 60, ..Echo::new(SIM, false) };
    let memory = refused(&[], &hungry);
    assert!(memory.contains("on `echo` needs 1152921504.61 GB of memory"), "{memory}");
    let strict = Echo { refuses: true, ..Echo::new(SIM, false) };
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
    assert_eq!([support(MPI), support(NCCL)], [ValidationSupport::Probed; 2]);
    for executor in executors::ALL.iter().filter(|executor| ![THREADS, MPI, NCCL].contains(executor)) {
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
    let on = help.lines().skip_while(|line| !line.contains("--on ")).take(3).collect::<String>();
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
    for name in ["slurm", "rccl", "Sim", ""] {
        for command in ["run", "validate"] {
            let ended = output(&[command, "scenarios/quickstart.toml", "--on", name]);
            assert_eq!(ended.status.code(), Some(2), "{command} {name}");
            let error = text_of(&ended.stderr);
            let expected = format!("unknown executor `{name}`: ");
            let lists =
                error.contains(&expected) && error.contains("expected one of sim, threads, mpi, cuda, nccl");
            assert!(name.is_empty() || lists, "{error}");
        }
    }
}
