//! How long new weights take to ranks that work with them, and how old theirs are: a table below the one of times.

use zipwire::timeline::Updates;
use zipwire::traces::Summary;

use crate::table;

/// The table, with a row per executor and variant; nothing where nothing is brought up to date, or no times can be compared. `first_variant` is
/// what others are compared with, on each executor.
pub(super) fn text(summary: &Summary, first_variant: &str) -> String {
    let all = || {
        let results = summary.executors.iter();
        results.filter_map(|(executor, variant, result)| Some((executor, variant, result.updates?)))
    };
    if all().next().is_none() {
        return String::new();
    }
    let header = [
        "updates",
        "executor",
        "time to update",
        "times as fast",
        "age",
        "at most",
        "steps behind",
        "at most",
    ];
    let mut rows = table::new(&header, &[0, 1]);
    for (executor, variant, Updates { update_s, age_s, age_steps }) in all() {
        let first = all().find(|(on, variant, _)| (*on, *variant) == (executor, first_variant));
        let faster = first.map(|(.., first)| format!("{:.3}", first.update_s.mean / update_s.mean));
        rows.add_row([
            variant.to_owned(),
            executor.to_owned(),
            table::seconds(update_s.mean),
            faster.unwrap_or_else(|| "-".to_owned()),
            table::seconds(age_s.mean),
            table::seconds(age_s.max),
            format!("{:.2}", age_steps.mean),
            format!("{:.0}", age_steps.max),
        ]);
    }
    format!("\n{}\n", table::text(&rows))
}
