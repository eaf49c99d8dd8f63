//! What simulated iterations are bound by: a table below the one of times.

use zipwire::timeline::CriticalPath;
use zipwire::traces::Summary;

use crate::table;

/// Shares below this have no column of their own, unless they have one in another variant.
const NOTHING: f64 = 0.0005;

/// The table, in shares of the mean iteration; nothing if there is no chain.
pub(super) fn text(summary: &Summary) -> String {
    let paths: Vec<(&str, &CriticalPath)> = summary
        .executors
        .iter()
        .filter_map(|(_, variant, result)| Some((variant, result.critical_path.as_ref()?)))
        .collect();
    let share = |path: &CriticalPath, name: &str| {
        let seconds = path.critical_path_s.get(name).copied().unwrap_or_default();
        seconds / path.critical_path_s.values().sum::<f64>()
    };
    let columns = CriticalPath::NAMES.iter().copied();
    let columns: Vec<&str> =
        columns.filter(|name| paths.iter().any(|(_, path)| share(path, name) > NOTHING)).collect();
    if columns.is_empty() {
        return String::new();
    }
    let header: Vec<&str> = ["critical path"].into_iter().chain(columns.iter().copied()).collect();
    let header = [header, vec!["busiest link"]].concat();
    let mut rows = table::new(&header, &[0, header.len() - 1]);
    for (variant, path) in paths {
        let mut row = vec![variant.to_owned()];
        row.extend(columns.iter().map(|name| format!("{:.1} %", 100.0 * share(path, name))));
        row.push(path.busiest_link.as_ref().map_or_else(|| "-".to_owned(), |link| link.name.clone()));
        rows.add_row(row);
    }
    format!("\n{}\n\n", table::text(&rows))
}
