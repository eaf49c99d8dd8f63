//! `zipwire store`: checkpoints.

use std::num::NonZero;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use zipwire::Cancel;
use zipwire::models::file::Watch;
use zipwire::models::store::{
    Added, Addition, Keep, Manifest, Store, Swept, Verified, Writer, add, list, prune, restore, stats, verify,
};

use super::files::watched;
use super::{print, print_json};
use crate::cli::{
    StoreAddArgs, StoreCommand, StoreInitArgs, StoreListArgs, StorePruneArgs, StoreRestoreArgs,
    StoreVerifyArgs,
};
use crate::error::CliError;
use crate::table;

pub(crate) fn run(command: &StoreCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        StoreCommand::Init(args) => run_init(args, cancel),
        StoreCommand::Add(args) => run_add(args, cancel),
        StoreCommand::List(args) => run_list(args),
        StoreCommand::Restore(args) => run_restore(args, cancel),
        StoreCommand::Prune(args) => run_prune(args, cancel),
        StoreCommand::Verify(args) => run_verify(args, cancel),
        StoreCommand::Stats(args) => run_stats(args),
    }
}

fn run_init(args: &StoreInitArgs, cancel: &Cancel) -> Result<(), CliError> {
    let _hold = cancel.hold();
    Store::init(&args.store)?;
    Ok(())
}

fn run_add(args: &StoreAddArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.codec.table_id().is_some() {
        return Err(CliError::Usage(format!(
            "`{}` names a table, and checkpoints are read without tables: each of their frames has its own\nhelp: leave `table` out",
            args.codec
        )));
    }
    let begun = Instant::now();
    let store = Store::open(&args.store)?;
    let addition = Addition {
        id: args.id.clone(),
        parent: args.parent.clone(),
        spec: args.codec.clone(),
        chain: args.chain,
    };
    // Each byte is looked at and then stored.
    let bytes = 2 * args.files.iter().map(|file| bytes_below(file)).sum::<u64>();
    let added = watched(&args.work, cancel, (&args.store, bytes), |watch| {
        let writer = Writer::begin(&store)?;
        say_swept(writer.swept());
        add(&writer, &args.files, &addition, watch)
    })?;
    for trouble in &added.troubles {
        say!("warning: no differences are taken from what is damaged: {trouble}");
    }
    if args.verify {
        let Manifest { id, .. } = &added.manifest;
        let raw = added.manifest.bytes_raw();
        watched(&args.work, cancel, (&args.store, raw), |watch| {
            zipwire::models::store::check(&store, id, watch)
        })?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    if args.work.json { print_json(&json_of(&added, seconds)) } else { print(table_of(&added, seconds)) }
}

fn json_of(added: &Added, seconds: f64) -> Value {
    let Added { manifest, parts, .. } = added;
    let raw = manifest.bytes_raw();
    json!({
        "id": manifest.id,
        "parent": manifest.parent,
        "bytes_raw": raw,
        "bytes_stored": added.bytes_stored,
        "size_pct": percent(added.bytes_stored, raw),
        "chain": added.chain,
        "parts": { "same": parts.same, "delta": parts.delta, "full": parts.full },
        "seconds": seconds,
        "gbps": raw as f64 / 1e9 / seconds,
    })
}

fn table_of(added: &Added, seconds: f64) -> String {
    let Added { manifest, parts, .. } = added;
    let raw = manifest.bytes_raw();
    let columns = [
        ("checkpoint", manifest.id.clone()),
        ("parent", manifest.parent.clone().unwrap_or_default()),
        ("raw", table::bytes(raw as f64)),
        ("stored", table::bytes(added.bytes_stored as f64)),
        ("size", format!("{:.2} %", percent(added.bytes_stored, raw))),
        ("same", parts.same.to_string()),
        ("differences", parts.delta.to_string()),
        ("full", parts.full.to_string()),
        ("chain", added.chain.to_string()),
        ("time", format!("{seconds:.2} s")),
        ("GB/s", format!("{:.2}", raw as f64 / 1e9 / seconds)),
    ];
    table::text(&table::of_columns(&columns.map(|(name, cell)| (name, vec![cell])), &[0, 1])) + "\n"
}

fn run_list(args: &StoreListArgs) -> Result<(), CliError> {
    let rows = list(&Store::open(&args.store)?)?;
    if args.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "id": row.id,
                    "parent": row.parent,
                    "created_unix_s": row.created_unix_s,
                    "bytes_raw": row.bytes_raw,
                    "bytes_stored": row.bytes_stored,
                    "chain": row.chain,
                })
            })
            .collect();
        return print_json(&json!({ "checkpoints": rows }));
    }
    let mut table = table::new(&["checkpoint", "parent", "raw", "stored", "size", "chain"], &[0, 1]);
    for row in &rows {
        table.add_row(vec![
            row.id.clone(),
            row.parent.clone().unwrap_or_default(),
            table::bytes(row.bytes_raw as f64),
            table::bytes(row.bytes_stored as f64),
            format!("{:.2} %", percent(row.bytes_stored, row.bytes_raw)),
            row.chain.map_or_else(|| "damaged".to_owned(), |chain| chain.to_string()),
        ]);
    }
    print(table::text(&table) + "\n")
}

fn run_restore(args: &StoreRestoreArgs, cancel: &Cancel) -> Result<(), CliError> {
    let begun = Instant::now();
    let store = Store::open(&args.store)?;
    let raw = store.manifest(&args.id)?.bytes_raw();
    let manifest = watched(&args.write.work, cancel, (&args.out, raw), |watch| {
        restore(&store, &args.id, &args.out, args.write.force, watch)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    if args.write.work.json {
        return print_json(&json!({
            "id": manifest.id,
            "out": args.out,
            "files": manifest.files.len(),
            "bytes_raw": raw,
            "seconds": seconds,
            "gbps": raw as f64 / 1e9 / seconds,
        }));
    }
    let mut table = table::new(&["checkpoint", "out", "files", "raw", "time", "GB/s"], &[0, 1]);
    table.add_row(vec![
        manifest.id,
        args.out.display().to_string(),
        manifest.files.len().to_string(),
        table::bytes(raw as f64),
        format!("{seconds:.2} s"),
        format!("{:.2}", raw as f64 / 1e9 / seconds),
    ]);
    print(table::text(&table) + "\n")
}

fn run_prune(args: &StorePruneArgs, cancel: &Cancel) -> Result<(), CliError> {
    let store = Store::open(&args.store)?;
    let _hold = cancel.hold();
    let writer = Writer::begin(&store)?;
    say_swept(writer.swept());
    let keep = Keep { newest: args.keep.unwrap_or(NonZero::<usize>::MIN), every: args.every };
    let cancelled = || cancel.is_cancelled();
    let pruned = prune(&writer, keep, &Watch { cancelled: &cancelled, ..Watch::default() })?;
    if args.json {
        return print_json(&json!({
            "removed": pruned.removed,
            "kept": pruned.kept,
            "rebased": pruned.rebased,
            "objects": pruned.swept.objects,
            "bytes": pruned.swept.bytes,
        }));
    }
    print(format!(
        "removed {} of {} checkpoints, and {} objects of {}; {} are no differences from these any more\n",
        pruned.removed.len(),
        pruned.removed.len() + pruned.kept.len(),
        pruned.swept.objects,
        table::bytes(pruned.swept.bytes as f64),
        pruned.rebased
    ))
}

fn run_verify(args: &StoreVerifyArgs, cancel: &Cancel) -> Result<(), CliError> {
    let store = Store::open(&args.store)?;
    // Damaged manifests are found below.
    let bytes = stats(&store).map_or(0, |stats| stats.bytes_stored);
    let verified =
        watched(&args.work, cancel, (&args.store, bytes), |watch| verify(&store, args.deep, watch))?;
    if args.work.json {
        print_json(&verdicts(&verified))?;
    } else {
        print(verdicts_text(&verified))?;
    }
    if verified.is_sound() { Ok(()) } else { Err(CliError::Said(1)) }
}

fn verdicts(verified: &Verified) -> Value {
    let checkpoints: Vec<Value> = verified
        .checkpoints
        .iter()
        .map(|verdict| {
            let lost: Vec<Value> = verdict
                .lost
                .iter()
                .map(|lost| {
                    json!({
                        "file": lost.file,
                        "tensor": lost.tensor,
                        "object": lost.object.to_string(),
                        "error": verified.objects.get(&lost.object),
                    })
                })
                .collect();
            let manifest = verdict.manifest.as_ref().map(ToString::to_string);
            json!({ "id": verdict.id, "restores": verdict.restores(), "manifest": manifest, "lost": lost })
        })
        .collect();
    json!({
        "checkpoints": checkpoints,
        "objects": verified.looked_at,
        "bytes": verified.bytes,
        "damaged": verified.objects.iter().map(|(address, what)| json!({ "object": address.to_string(), "error": what })).collect::<Vec<_>>(),
        "unneeded": verified.unneeded,
    })
}

fn verdicts_text(verified: &Verified) -> String {
    let mut table = table::new(&["checkpoint", "restores", "what is lost"], &[0, 1, 2]);
    for verdict in &verified.checkpoints {
        let lost = match (&verdict.manifest, verdict.lost.first()) {
            (Some(error), _) => error.to_string().lines().next().unwrap_or_default().to_owned(),
            (None, None) => String::new(),
            (None, Some(first)) => {
                let more = verdict.lost.len() - 1;
                let first = format!("`{}` of `{}`", first.tensor, first.file);
                if more == 0 { first } else { format!("{first} and {more} more") }
            }
        };
        let restores = if verdict.restores() { "yes" } else { "no" };
        table.add_row(vec![verdict.id.clone(), restores.to_owned(), lost]);
    }
    let mut text = table::text(&table) + "\n";
    if !verified.objects.is_empty() {
        let mut table = table::new(&["damaged object", "what is wrong"], &[0, 1]);
        for (address, what) in &verified.objects {
            table.add_row(vec![address.to_string(), what.clone()]);
        }
        text += &format!("\n{}\n", table::text(&table));
    }
    text
}

fn run_stats(args: &StoreListArgs) -> Result<(), CliError> {
    let stats = stats(&Store::open(&args.store)?)?;
    if args.json {
        return print_json(&json!({
            "checkpoints": stats.checkpoints,
            "objects": {
                "raw": stats.raw,
                "full": stats.full,
                "delta": stats.delta,
                "damaged": stats.damaged,
                "bases_only": stats.bases_only,
            },
            "bytes_raw": stats.bytes_raw,
            "bytes_stored": stats.bytes_stored,
            "size_pct": percent(stats.bytes_stored, stats.bytes_raw),
            "bytes_unneeded": stats.bytes_unneeded,
            "chain": stats.chain,
        }));
    }
    let mut table = table::new(&["store", ""], &[0]);
    let objects = stats.raw + stats.full + stats.delta;
    let mut row = |name: &str, value: String| {
        table.add_row(vec![name.to_owned(), value]);
    };
    row("checkpoints", stats.checkpoints.to_string());
    row("their files", table::bytes(stats.bytes_raw as f64));
    row("stored", table::bytes(stats.bytes_stored as f64));
    row("size", format!("{:.2} %", percent(stats.bytes_stored, stats.bytes_raw)));
    row("objects", objects.to_string());
    row("of these differences", stats.delta.to_string());
    row("of these as they are", stats.raw.to_string());
    row("of these for differences only", stats.bases_only.to_string());
    row("damaged objects", stats.damaged.to_string());
    row("longest chain", stats.chain.to_string());
    row("needed by none", table::bytes(stats.bytes_unneeded as f64));
    print(table::text(&table) + "\n")
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Says what was left of a writer that did not come to its end.
fn say_swept(swept: Swept) {
    if !swept.is_empty() {
        say!(
            "removed what an interrupted writer has left: {} staged and {} objects of {}",
            swept.staged,
            swept.objects,
            table::bytes(swept.bytes as f64)
        );
    }
}

/// Bytes of a file or of the files below a folder; what cannot be read counts nothing, and is an error later.
fn bytes_below(path: &Path) -> u64 {
    let files = if path.is_dir() {
        zipwire::models::file::files_below(path).unwrap_or_default()
    } else {
        vec![path.to_owned()]
    };
    files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}
