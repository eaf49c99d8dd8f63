//! How long new weights take to ranks that work with them, and how old theirs are: a table below the one of times.

use zipwire::Executor;
use zipwire::timeline::Updates;
use zipwire::traces::Summary;

use crate::table;

/// The table of an executor; nothing where nothing is brought up to date, or times cannot be compared. `first_variant` is what others are
/// compared with.
pub(super) fn text(summary: &Summary, first_variant: &str, executor: &dyn Executor) -> String {
    let of_executor = summary.executors.iter().filter(|(name, ..)| *name == executor.name());
    let rows: Vec<(&str, Updates)> =
        of_executor.filter_map(|(_, variant, result)| Some((variant, result.updates?))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let first = rows.iter().find(|(variant, _)| *variant == first_variant);
    let header = ["updates", "time to update", "times as fast", "age", "at most", "steps behind", "at most"];
    let mut all = table::new(&header, &[0]);
    for (variant, Updates { update_s, age_s, age_steps }) in &rows {
        let faster = first.map_or_else(
            || "-".to_owned(),
            |(_, first)| format!("{:.3}", first.update_s.mean / update_s.mean),
        );
        all.add_row([
            (*variant).to_owned(),
            table::seconds(update_s.mean),
            faster,
            table::seconds(age_s.mean),
            table::seconds(age_s.max),
            format!("{:.2}", age_steps.mean),
            format!("{:.0}", age_steps.max),
        ]);
    }
    format!("\n{}\n", table::text(&all))
}
