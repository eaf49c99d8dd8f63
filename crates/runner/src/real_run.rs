//! Whether a real run that differs from the scenario still does what was simulated.

use zipwire_scenarios::Experiment;

use crate::{Cancel, ExecuteError, Prepared};

/// Refuses a real run that would do other work than the simulation. What it takes from `real`, links, costs and times,
/// may differ; what it shares with the simulation may not.
///
/// # Errors
/// What differs, and the first variant that it concerns.
pub(crate) fn check(
    prepared: &Prepared<'_>,
    simulated: &Experiment,
    real: &Experiment,
    cancel: &Cancel,
) -> Result<(), ExecuteError> {
    let names =
        |experiment: &Experiment| experiment.variants.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
    let ratio = |experiment: &Experiment| {
        let of = |variant| experiment.codec_of(variant).and_then(|choice| choice.ratio);
        experiment.variants.iter().map(of).collect::<Vec<_>>()
    };
    let shared = [
        ("name", simulated.name == real.name),
        ("seed", simulated.seed == real.seed),
        ("iteration count", simulated.iterations == real.iterations),
        ("list of variants", names(simulated) == names(real)),
        ("payload", simulated.payload == real.payload),
        ("ratio", ratio(simulated) == ratio(real)),
        ("deadline", simulated.slack == real.slack),
    ];
    if let Some((what, _)) = shared.into_iter().find(|(_, is_same)| !is_same) {
        return Err(ExecuteError::OtherWork { variant: simulated.variants[0].name.clone(), what });
    }
    let planned = Prepared::new(real, cancel)?;
    let mut pairs = prepared.variants().zip(planned.variants());
    match pairs.find(|((_, simulated), (_, real))| simulated.digest != real.digest) {
        Some(((variant, _), _)) => {
            Err(ExecuteError::OtherWork { variant: variant.name.clone(), what: "plan" })
        }
        None => Ok(()),
    }
}
