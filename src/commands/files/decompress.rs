//! `zipwire decompress` and `zipwire verify`.

use std::fs;
use std::io::{self, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

use zipwire::Cancel;
use zipwire::codec::Reader;
use zipwire::files::{Model, is_container, mirror, restore, restore_values, verify};

use super::{
    MARK, PIPE, Row, base_for, copy, io_error, place, print_rows, restored_name, watched, write_file,
};
use crate::cli::{DecompressArgs, VerifyArgs, WorkArgs};
use crate::error::CliError;

pub(crate) fn run(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.iter().any(|file| file == Path::new(PIPE)) {
        return pipe(args, cancel);
    }
    let several = args.files.len() > 1;
    let mut rows = Vec::new();
    for file in &args.files {
        let unnamed = || {
            let message = format!(
                "the name of `{}` does not say what it was called before\nhelp: `-o` names the output",
                file.display()
            );
            CliError::Usage(message)
        };
        if file.is_dir() {
            let text = file.display().to_string();
            let default = text.trim_end_matches('/').strip_suffix(MARK).map(PathBuf::from);
            let out = match &args.out {
                Some(out) if several => place(file, Some(out), true, &default.ok_or_else(unnamed)?)?,
                Some(out) => out.clone(),
                None => default.ok_or_else(unnamed)?,
            };
            mirror(file, &out, args.write.force, |from, to| {
                let Some(name) = restored_name(to).filter(|_| is_compressed(from)) else { return Ok(false) };
                rows.push(one(args, from, &name, cancel)?);
                Ok::<_, CliError>(true)
            })?;
        } else {
            let out = match (&args.out, restored_name(file)) {
                (Some(out), None) if !several && !out.is_dir() => out.clone(),
                (_, name) => place(file, args.out.as_deref(), several, &name.ok_or_else(unnamed)?)?,
            };
            rows.push(one(args, file, &out, cancel)?);
        }
    }
    print_rows(&rows, args.write.work.json)
}

pub(crate) fn run_verify(args: &VerifyArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut rows = Vec::new();
    let mut failed = None;
    let mut look = |file: &Path| match check(&args.work, file, args.base.as_deref(), cancel) {
        Ok(row) => {
            rows.push(row);
            Ok(())
        }
        // All are looked at, whatever is found.
        Err(error @ CliError::File(_)) if !cancel.is_cancelled() => {
            error.say();
            failed.get_or_insert(error);
            Ok(())
        }
        Err(error) => Err(error),
    };
    for file in &args.files {
        if file.is_dir() {
            let mut within: Vec<PathBuf> = Vec::new();
            for entry in fs::read_dir(file).map_err(io_error("read folder", file))? {
                within.push(entry.map_err(io_error("read folder", file))?.path());
            }
            within.sort();
            within.iter().filter(|file| is_compressed(file)).try_for_each(|file| look(file))?;
        } else {
            look(file)?;
        }
    }
    print_rows(&rows, args.work.json)?;
    failed.map_or(Ok(()), |error| Err(CliError::Said(error.exit_code())))
}

/// Whether this program has written it, damaged or not.
fn is_compressed(file: &Path) -> bool {
    match is_container(file) {
        Ok(false) => {
            !matches!(
                Model::open(file),
                Err(zipwire::files::FileError::Header { .. } | zipwire::files::FileError::Io { .. })
            ) && Model::open(file).map_or(true, |model| model.is_compressed())
        }
        Ok(true) => true,
        Err(_) => false,
    }
}

fn one(args: &DecompressArgs, file: &Path, out: &Path, cancel: &Cancel) -> Result<Row, CliError> {
    let begun = Instant::now();
    let coded = fs::metadata(file).map_err(io_error("read", file))?.len();
    let (work, force) = (&args.write.work, args.write.force);
    let raw = if is_container(file).map_err(io_error("read", file))? {
        watched(work, cancel, (file, coded), |watch| restore_values(file, Some(out), force, watch))?
    } else {
        let model = Model::open_with(file, base_for(args.base.as_deref(), file)?)?;
        watched(work, cancel, (file, model.bytes()), |watch| restore(&model, out, force, watch))?;
        model.bytes()
    };
    Ok(Row::new(file, Some(out), (raw, coded), None, begun))
}

fn check(work: &WorkArgs, file: &Path, base: Option<&Path>, cancel: &Cancel) -> Result<Row, CliError> {
    let begun = Instant::now();
    let coded = fs::metadata(file).map_err(io_error("read", file))?.len();
    let raw = if is_container(file).map_err(io_error("read", file))? {
        watched(work, cancel, (file, coded), |watch| restore_values(file, None, false, watch))?
    } else {
        let model = Model::open_with(file, base_for(base, file)?)?;
        watched(work, cancel, (file, model.bytes()), |watch| verify(&model, watch))?;
        model.bytes()
    };
    Ok(Row::new(file, None, (raw, coded), None, begun))
}

/// A container from stdin, as values to stdout or to a file.
fn pipe(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.len() > 1 {
        return Err(CliError::Usage("`-` is decompressed by itself".to_owned()));
    }
    let write = |sink: &mut dyn Write| {
        let copied = copy(&mut Reader::new(stdin().lock()), sink, cancel);
        copied.map_err(|error| match error {
            CliError::Stdout(error) if error.kind() == io::ErrorKind::InvalidData => {
                let message = format!(
                    "stdin is no container of values: {error}\nhelp: a compressed safetensors file is read at any place, so it is named"
                );
                CliError::Usage(message)
            }
            error => error,
        })
    };
    match args.out.as_deref().filter(|out| *out != Path::new(PIPE)) {
        Some(out) => write_file(out, args.write.force, |file| write(file)),
        None => write(&mut stdout().lock()),
    }
}
