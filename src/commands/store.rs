//! `zipwire store`: checkpoints.

use std::num::NonZero;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use zipwire::Cancel;
use zipwire::models::file::{FileError, Watch};
use zipwire::models::store::{
    Added, Addition, Keep, Manifest, Pruned, Salvaged, Selection, Store, StoreError, Swept, Unread, Verified,
    Writer, add, list, plan_prune, prune, restore, salvage, set_pinned, stats, verify,
};

use super::files::watched;
use super::{print, print_json};
use crate::cli::{
    RemovalArgs, StoreAddArgs, StoreCommand, StoreInitArgs, StoreListArgs, StorePinArgs, StorePruneArgs,
    StoreRestoreArgs, StoreRmArgs, StoreVerifyArgs,
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
        StoreCommand::Rm(args) => run_rm(args, cancel),
        StoreCommand::Pin(args) => run_pin(args, true, cancel),
        StoreCommand::Unpin(args) => run_pin(args, false, cancel),
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
        allow_missing: args.allow_missing,
        keep_trailing: args.keep_trailing,
    };
    // Each byte is looked at and then stored.
    let bytes = 2 * args.files.iter().map(|file| bytes_below(file)).sum::<u64>();
    let added = watched(&args.work, cancel, (&args.store, bytes), |watch| {
        let writer = Writer::begin(&store)?;
        say_swept(writer.swept());
        add(&writer, &args.files, &addition, watch)
    })?;
    for trouble in &added.troubles {
        match trouble {
            StoreError::File(FileError::Foreign { .. }) => say!("warning: stored as it is: {trouble}"),
            _ => say!("warning: no differences are taken from what is damaged: {trouble}"),
        }
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
        "parts": { "same": parts.same, "rounded": parts.rounded, "delta": parts.delta, "full": parts.full },
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
        ("rounded from F32", parts.rounded.to_string()),
        ("differences", parts.delta.to_string()),
        ("full", parts.full.to_string()),
        ("chain", added.chain.to_string()),
        ("time", format!("{seconds:.2} s")),
        ("GB/s", format!("{:.2}", raw as f64 / 1e9 / seconds)),
    ];
    table::text(&table::of_columns(&columns.map(|(name, cell)| (name, vec![cell])), &[0, 1])) + "\n"
}

fn run_list(args: &StoreListArgs) -> Result<(), CliError> {
    let listing = list(&Store::open(&args.store)?)?;
    let rows = &listing.checkpoints;
    if args.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "id": row.id,
                    "parent": row.parent,
                    "created_unix_s": row.created_unix_s,
                    "pinned": row.is_pinned,
                    "bytes_raw": row.bytes_raw,
                    "bytes_stored": row.bytes_stored,
                    "chain": row.chain,
                })
            })
            .collect();
        print_json(&json!({ "checkpoints": rows, "unread": json_of_unread(&listing.unread) }))?;
    } else {
        let columns = ["checkpoint", "parent", "raw", "stored", "size", "chain", "pinned"];
        let mut table = table::new(&columns, &[0, 1]);
        for row in rows {
            table.add_row(vec![
                row.id.clone(),
                row.parent.clone().unwrap_or_default(),
                table::bytes(row.bytes_raw as f64),
                table::bytes(row.bytes_stored as f64),
                format!("{:.2} %", percent(row.bytes_stored, row.bytes_raw)),
                row.chain.map_or_else(|| "damaged".to_owned(), |chain| chain.to_string()),
                if row.is_pinned { "yes" } else { "" }.to_owned(),
            ]);
        }
        print(table::text(&table) + "\n")?;
    }
    end_of_findings(&listing.unread, listing.is_sound())
}

fn json_of_unread(unread: &[Unread]) -> Vec<Value> {
    unread.iter().map(|unread| json!({ "id": unread.id, "error": unread.error })).collect()
}

/// Names manifests that are damaged, and ends with 1 unless all is sound.
fn end_of_findings(unread: &[Unread], is_sound: bool) -> Result<(), CliError> {
    for Unread { id, error } in unread {
        say!("checkpoint `{id}`: {error}");
    }
    if is_sound {
        return Ok(());
    }
    say!("help: `zipwire store verify` says what is damaged, and which checkpoints can be restored");
    Err(CliError::Said(1))
}

fn run_restore(args: &StoreRestoreArgs, cancel: &Cancel) -> Result<(), CliError> {
    let begun = Instant::now();
    let store = Store::open(&args.store)?;
    let raw = store.manifest(&args.id)?.bytes_raw();
    let Salvaged { manifest, missing } =
        watched(&args.write.work, cancel, (&args.out, raw), |watch| match args.keep_going {
            true => salvage(&store, &args.id, &args.out, args.write.force, watch),
            false => restore(&store, &args.id, &args.out, args.write.force, watch)
                .map(|manifest| Salvaged { manifest, missing: Vec::new() }),
        })?;
    let seconds = begun.elapsed().as_secs_f64();
    for part in &missing {
        say!("`{}` of `{}` is damaged, and its {} bytes are zeros", part.tensor, part.file, part.bytes);
    }
    if args.write.work.json {
        let missing: Vec<Value> = missing
            .iter()
            .map(|part| {
                json!({
                    "file": part.file,
                    "tensor": part.tensor,
                    "at": part.at,
                    "bytes": part.bytes,
                    "error": part.error.to_string(),
                })
            })
            .collect();
        print_json(&json!({
            "id": manifest.id,
            "out": args.out,
            "files": manifest.files.len(),
            "bytes_raw": raw,
            "seconds": seconds,
            "gbps": raw as f64 / 1e9 / seconds,
            "zeros": missing,
        }))?;
    } else {
        let mut table = table::new(&["checkpoint", "out", "files", "raw", "time", "GB/s"], &[0, 1]);
        table.add_row(vec![
            manifest.id,
            args.out.display().to_string(),
            manifest.files.len().to_string(),
            table::bytes(raw as f64),
            format!("{seconds:.2} s"),
            format!("{:.2}", raw as f64 / 1e9 / seconds),
        ]);
        print(table::text(&table) + "\n")?;
    }
    if missing.is_empty() { Ok(()) } else { Err(CliError::Said(1)) }
}

fn run_prune(args: &StorePruneArgs, cancel: &Cancel) -> Result<(), CliError> {
    let keep = Keep { newest: args.keep.unwrap_or(NonZero::<usize>::MIN), every: args.every };
    remove(&args.store, keep.into(), &args.removal, cancel)
}

fn run_rm(args: &StoreRmArgs, cancel: &Cancel) -> Result<(), CliError> {
    remove(&args.store, Selection::Ids(args.ids.clone()), &args.removal, cancel)
}

/// Threads of a prune at the most: each has all objects of several chains open, some thirty files.
const MOST_THREADS: NonZero<usize> = NonZero::new(16).unwrap();

fn remove(path: &Path, selection: Selection, args: &RemovalArgs, cancel: &Cancel) -> Result<(), CliError> {
    let store = Store::open(path)?;
    let _hold = cancel.hold();
    let cancelled = || cancel.is_cancelled();
    let threads = Watch::default().threads.min(MOST_THREADS);
    let watch = Watch { cancelled: &cancelled, threads, ..Watch::default() };
    let say = |pruned: &Pruned| match args.json {
        true => print_json(&json_of_pruned(pruned)),
        false => print(text_of_pruned(pruned, args.dry_run)),
    };
    if args.dry_run {
        return say(&plan_prune(&store, selection, &watch)?);
    }
    let writer = Writer::begin(&store)?;
    say_swept(writer.swept());
    match prune(&writer, selection, &watch) {
        Ok(pruned) => say(&pruned),
        Err(error) => {
            if let (StoreError::Unfinished { done, .. }, true) = (&error, args.json) {
                say(done)?;
            }
            Err(error.into())
        }
    }
}

fn json_of_pruned(pruned: &Pruned) -> Value {
    json!({
        "removed": pruned.removed,
        "kept": pruned.kept,
        "pinned": pruned.pinned,
        "rebased": pruned.rebased,
        "left": pruned.left,
        "objects": pruned.swept.objects,
        "bytes": pruned.swept.bytes,
        "bytes_before": pruned.bytes_before,
        "bytes_after": pruned.bytes_after,
    })
}

fn text_of_pruned(pruned: &Pruned, is_planned: bool) -> String {
    let Pruned { removed, kept, rebased, swept, bytes_before, bytes_after, .. } = pruned;
    let list = if is_planned { removed.iter().map(|id| format!("{id}\n")).collect() } else { String::new() };
    let [removes, takes, about] =
        if is_planned { ["would remove", "would then take", "about "] } else { ["removed", "take", ""] };
    format!(
        "{list}{removes} {} of {} checkpoints, and {} objects of {}; of the others {rebased} written anew: all objects took {}, and {takes} {about}{}\n",
        removed.len(),
        removed.len() + kept.len(),
        swept.objects,
        table::bytes(swept.bytes as f64),
        table::bytes(*bytes_before as f64),
        table::bytes(*bytes_after as f64),
    )
}

fn run_pin(args: &StorePinArgs, is_pinned: bool, cancel: &Cancel) -> Result<(), CliError> {
    let store = Store::open(&args.store)?;
    let _hold = cancel.hold();
    let writer = Writer::begin(&store)?;
    say_swept(writer.swept());
    Ok(set_pinned(&writer, &args.id, is_pinned)?)
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
        print_json(&json!({
            "checkpoints": stats.checkpoints,
            "unread": json_of_unread(&stats.unread),
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
        }))?;
        return end_of_findings(&stats.unread, stats.is_sound());
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
    row("damaged checkpoints", stats.unread.len().to_string());
    let unneeded = stats.bytes_unneeded.map_or("unknown".to_owned(), |bytes| table::bytes(bytes as f64));
    row("needed by none", unneeded);
    print(table::text(&table) + "\n")?;
    end_of_findings(&stats.unread, stats.is_sound())
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
