//! `zipwire compress`, `zipwire decompress` and `zipwire verify`.

use std::fs::{self, File};
use std::io::{self, Write, stdin, stdout};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use zipwire::Cancel;
use zipwire::codec::{Reader, WriterOptions};
use zipwire::models::file::{
    Compression, FileError, Model, Output, Values, Watch, compress_into, compress_values_into, files_below,
    is_archive, open_input, restore_into, verify,
};

use super::plan::{Naming, Plan};
use super::{
    MARK, Row, SAFETENSORS, base_for, compressed_name, copy, io_error, is_stdin, is_stdout, print_rows,
    restored_name, watched, with_ending, without_ending, write_file,
};
use crate::cli::{CompressArgs, DecompressArgs, VerifyArgs, WorkArgs};
use crate::error::CliError;

pub(crate) fn run(args: &CompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.codec.table_id().is_some() {
        return Err(CliError::Usage(format!(
            "`{}` names a table, and files are read without tables: each of their frames has its own\nhelp: leave `table` out",
            args.codec
        )));
    }
    if args.codec.takes_base() && args.base.is_none() {
        return Err(crate::commands::files::missing_base(&args.codec));
    }
    if args.files.iter().any(|file| is_stdin(file)) {
        return pipe(args, cancel);
    }
    refuse_json(args.out.as_deref(), args.write.work.json)?;
    let plan =
        Plan::new(&args.files, args.out.as_deref(), args.base.as_deref(), args.write.force, &COMPRESSION)?;
    let made = plan
        .carry_out(args.write.force, cancel, |file, folder, output| one(args, file, folder, output, cancel));
    print_unless_piped(&made?, args.out.as_deref(), args.write.work.json)
}

/// Names of what is compressed.
const COMPRESSION: Naming = Naming {
    file: |file| Some(compressed_name(file)),
    folder: |folder| Some(with_ending(folder, MARK)),
    makes: |file| {
        let is_model = file.extension().is_some_and(|ending| ending == SAFETENSORS) || is_archive(file);
        is_model && !Model::list(file).is_ok_and(|model| model.is_compressed())
    },
};

/// Names of what is decompressed.
const DECOMPRESSION: Naming =
    Naming { file: restored_name, folder: |folder| without_ending(folder, MARK), makes: is_compressed };

/// Compresses a file, of `folder` if it is in one that is compressed as a whole. What is verified has no name yet.
fn one(
    args: &CompressArgs,
    file: &Path,
    folder: Option<&Path>,
    output: &Output,
    cancel: &Cancel,
) -> Result<Row, CliError> {
    let begun = Instant::now();
    let bytes = fs::metadata(file).map_err(io_error("read", file))?.len();
    let compression = Compression { spec: args.codec.clone(), force: args.write.force };
    let base = match args.dtype {
        Some(_) => None,
        // Archives in a folder are coded without, beside models that have one.
        None if folder.is_some() && is_archive(file) => None,
        None => base_for(args.base.as_deref(), file, folder)?,
    };
    let made = watched(&args.write.work, cancel, (file, bytes), |watch| match args.dtype {
        Some(dtype) => compress_values_into(file, output, dtype, &compression, watch),
        None => compress_into(file, output, &compression, base.as_deref(), watch),
    })?;
    if args.verify {
        let staged = output.file().try_clone().map_err(io_error("read", output.path()))?;
        decode((staged, output.path()), None, base, &args.write.work, cancel).inspect_err(|_| {
            let name = output.path().display();
            say!("`{name}` is not written: what it would have does not give back `{}`", file.display());
        })?;
    }
    Ok(Row::new(file, Some(output.path()), (made.bytes_raw, made.bytes_coded), Some(&args.codec), begun))
}

/// Values from stdin, as a container to stdout or to a file.
fn pipe(args: &CompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    let Some(dtype) = args.dtype.filter(|_| args.files.len() == 1 && args.base.is_none()) else {
        return Err(CliError::Usage(
            "`-` takes raw values of one type, by itself and without a base\nhelp: say which by `--dtype TYPE`; a safetensors file is named"
                .to_owned(),
        ));
    };
    let write = |sink: &mut dyn Write| -> Result<(), CliError> {
        let opened = WriterOptions::new(dtype).codec(args.codec.codec()).open(sink);
        let mut writer = opened.map_err(|error| CliError::Usage(error.to_string()))?;
        copy(&mut stdin().lock(), &mut writer, cancel)?;
        writer.finish()?;
        Ok(())
    };
    match args.out.as_deref().filter(|out| !is_stdout(out)) {
        Some(out) => write_file(out, args.write.force, |file| write(file)),
        None => write(&mut stdout().lock()),
    }
}

pub(crate) fn run_decompress(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.iter().any(|file| is_stdin(file)) {
        return decompress_pipe(args, cancel);
    }
    refuse_json(args.out.as_deref(), args.write.work.json)?;
    let plan =
        Plan::new(&args.files, args.out.as_deref(), args.base.as_deref(), args.write.force, &DECOMPRESSION)?;
    let made = plan.carry_out(args.write.force, cancel, |file, folder, output| {
        let base = base_for(args.base.as_deref(), file, folder)?;
        decode(open(file)?, Some(output), base, &args.write.work, cancel)
    });
    print_unless_piped(&made?, args.out.as_deref(), args.write.work.json)
}

/// Refuses a report as JSON where the file itself goes.
fn refuse_json(out: Option<&Path>, json: bool) -> Result<(), CliError> {
    match out.is_some_and(is_stdout) && json {
        true => Err(CliError::Usage(
            "the output and `--json` would both go to stdout\nhelp: `-o` names a file for one of them"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn print_unless_piped(rows: &[Row], out: Option<&Path>, json: bool) -> Result<(), CliError> {
    if out.is_some_and(is_stdout) { Ok(()) } else { print_rows(rows, json) }
}

pub(crate) fn run_verify(args: &VerifyArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut rows = Vec::new();
    let mut failed = None;
    let mut look = |file: &Path, folder: Option<&Path>| {
        let base = base_for(args.base.as_deref(), file, folder)?;
        match open(file).and_then(|opened| decode(opened, None, base, &args.work, cancel)) {
            Ok(row) => rows.push(row),
            // All are looked at, whatever is found.
            Err(error @ CliError::File(_)) if !cancel.is_cancelled() => {
                error.say();
                failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    };
    for file in &args.files {
        if file.is_dir() {
            let within = files_below(file)?;
            within
                .iter()
                .filter(|within| is_compressed(within))
                .try_for_each(|within| look(within, Some(file)))?;
        } else {
            look(file, None)?;
        }
    }
    print_rows(&rows, args.work.json)?;
    failed.map_or(Ok(()), |error| Err(CliError::Said(error.exit_code())))
}

/// Whether this program has written the file, damaged or not. Its name decides if its content does not: a file that was cut is not passed over.
fn is_compressed(file: &Path) -> bool {
    match Values::open(file) {
        Ok(None) => match Model::list(file) {
            Ok(model) => model.is_compressed(),
            Err(FileError::Header { .. } | FileError::Foreign { .. }) => restored_name(file).is_some(),
            Err(_) => true,
        },
        Ok(Some(_)) | Err(_) => true,
    }
}

/// A file and its name.
fn open(file: &Path) -> Result<(File, &Path), CliError> {
    Ok((open_input(file).map_err(io_error("read", file))?, file))
}

/// Decodes a file to `output`, or to nowhere.
fn decode(
    (file, path): (File, &Path),
    output: Option<&Output>,
    base: Option<Arc<Model>>,
    work: &WorkArgs,
    cancel: &Cancel,
) -> Result<Row, CliError> {
    let begun = Instant::now();
    let coded = file.metadata().map_err(io_error("read", path))?.len();
    let input = Input::of(file, path, base)?;
    watched(work, cancel, (path, input.bytes()), |watch| input.decode(output, watch))?;
    Ok(Row::new(path, output.map(Output::path), (input.bytes(), coded), None, begun))
}

/// A file that is decompressed.
enum Input {
    /// A container by itself.
    Values(Values),
    Model(Box<Model>),
}

impl Input {
    fn of(file: File, path: &Path, base: Option<Arc<Model>>) -> Result<Self, FileError> {
        let other = file.try_clone().map_err(FileError::io("read", path))?;
        if let Some(values) = Values::of_file(other, path)? {
            return Ok(Self::Values(values));
        }
        Ok(Self::Model(Box::new(Model::of_file(file, path, base)?)))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Values(values) => values.bytes(),
            Self::Model(model) => model.bytes(),
        }
    }

    /// To `output`, or to nowhere.
    fn decode(&self, output: Option<&Output>, watch: &Watch<'_>) -> Result<(), FileError> {
        match (self, output) {
            (Self::Values(values), Some(output)) => values.restore_into(output, watch),
            (Self::Values(values), None) => values.verify(watch),
            (Self::Model(model), Some(output)) => restore_into(model, output, watch),
            (Self::Model(model), None) => verify(model, watch),
        }
    }
}

/// A container from stdin, as values to stdout or to a file.
fn decompress_pipe(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
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
    match args.out.as_deref().filter(|out| !is_stdout(out)) {
        Some(out) => write_file(out, args.write.force, |file| write(file)),
        None => write(&mut stdout().lock()),
    }
}
