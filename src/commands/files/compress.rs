//! `zipwire compress`, `zipwire decompress` and `zipwire verify`.

use std::fs;
use std::io::{self, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use zipwire::Cancel;
use zipwire::codec::{Reader, WriterOptions};
use zipwire::models::file::{
    Compression, FileError, Model, Values, Watch, compress, compress_values, files_below, is_archive, mirror,
    restore, verify,
};

use super::{
    MARK, PIPE, Row, SAFETENSORS, base_for, compressed_name, copy, io_error, place, print_rows,
    restored_name, watched, write_file,
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
    if args.files.iter().any(|file| file == Path::new(PIPE)) {
        return pipe(args, cancel);
    }
    let several = args.files.len() > 1;
    let mut rows = Vec::new();
    for file in &args.files {
        if file.is_dir() {
            let default =
                PathBuf::from(format!("{}{MARK}", file.display().to_string().trim_end_matches('/')));
            let out = match &args.out {
                Some(out) if several => place(file, Some(out), true, &default)?,
                Some(out) => out.clone(),
                None => default,
            };
            mirror(file, &out, args.write.force, |from, to| {
                let is_model = from.to_string_lossy().ends_with(SAFETENSORS) || is_archive(from);
                if !is_model || Model::list(from).is_ok_and(|model| model.is_compressed()) {
                    return Ok(false);
                }
                let row = one(args, from, &compressed_name(to), Some(file), cancel)?;
                rows.push(row.placed(&out, &compressed_name(from), file));
                Ok::<_, CliError>(true)
            })?;
        } else {
            let out = place(file, args.out.as_deref(), several, &compressed_name(file))?;
            rows.push(one(args, file, &out, None, cancel)?);
        }
    }
    print_rows(&rows, args.write.work.json)
}

/// Compresses a file, of `folder` if it is in one that is compressed as a whole.
fn one(
    args: &CompressArgs,
    file: &Path,
    out: &Path,
    folder: Option<&Path>,
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
        Some(dtype) => compress_values(file, out, dtype, &compression, watch),
        None => compress(file, out, &compression, base.as_deref(), watch),
    })?;
    if args.verify {
        decode(out, None, base, &args.write.work, cancel)?;
    }
    Ok(Row::new(file, Some(out), (made.bytes_raw, made.bytes_coded), Some(&args.codec), begun))
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
    match args.out.as_deref().filter(|out| *out != Path::new(PIPE)) {
        Some(out) => write_file(out, args.write.force, |file| write(file)),
        None => write(&mut stdout().lock()),
    }
}

pub(crate) fn run_decompress(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.iter().any(|file| file == Path::new(PIPE)) {
        return decompress_pipe(args, cancel);
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
                let base = base_for(args.base.as_deref(), from, Some(file))?;
                let row = decode(from, Some((&name, args.write.force)), base, &args.write.work, cancel)?;
                rows.push(row.placed(&out, &restored_name(from).unwrap_or_else(|| from.to_owned()), file));
                Ok::<_, CliError>(true)
            })?;
        } else {
            let out = match (&args.out, restored_name(file)) {
                (Some(out), None) if !several && !out.is_dir() => out.clone(),
                (_, name) => place(file, args.out.as_deref(), several, &name.ok_or_else(unnamed)?)?,
            };
            let base = base_for(args.base.as_deref(), file, None)?;
            rows.push(decode(file, Some((&out, args.write.force)), base, &args.write.work, cancel)?);
        }
    }
    print_rows(&rows, args.write.work.json)
}

pub(crate) fn run_verify(args: &VerifyArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut rows = Vec::new();
    let mut failed = None;
    let mut look = |file: &Path, folder: Option<&Path>| {
        let base = base_for(args.base.as_deref(), file, folder)?;
        match decode(file, None, base, &args.work, cancel) {
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
            Err(FileError::Header { .. }) => {
                file.to_string_lossy().ends_with(&format!("{MARK}{SAFETENSORS}"))
            }
            Err(_) => true,
        },
        Ok(Some(_)) | Err(_) => true,
    }
}

/// Decodes a file to `out`, which may be there with `force`, or to nowhere.
pub(super) fn decode(
    file: &Path,
    out: Option<(&Path, bool)>,
    base: Option<Arc<Model>>,
    work: &WorkArgs,
    cancel: &Cancel,
) -> Result<Row, CliError> {
    let begun = Instant::now();
    let coded = fs::metadata(file).map_err(io_error("read", file))?.len();
    let input = Input::open(file, base)?;
    watched(work, cancel, (file, input.bytes()), |watch| input.decode(out, watch))?;
    Ok(Row::new(file, out.map(|(out, _)| out), (input.bytes(), coded), None, begun))
}

/// A file that is decompressed.
enum Input {
    /// A container by itself.
    Values(Values),
    Model(Box<Model>),
}

impl Input {
    fn open(file: &Path, base: Option<Arc<Model>>) -> Result<Self, FileError> {
        if let Some(values) = Values::open(file)? {
            return Ok(Self::Values(values));
        }
        Ok(Self::Model(Box::new(Model::open_with(file, base)?)))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Values(values) => values.bytes(),
            Self::Model(model) => model.bytes(),
        }
    }

    /// To `out`, which may be there with `true`, or to nowhere.
    fn decode(&self, out: Option<(&Path, bool)>, watch: &Watch<'_>) -> Result<(), FileError> {
        match (self, out) {
            (Self::Values(values), Some((out, force))) => values.restore(out, force, watch),
            (Self::Values(values), None) => values.verify(watch),
            (Self::Model(model), Some((out, force))) => restore(model, out, force, watch),
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
    match args.out.as_deref().filter(|out| *out != Path::new(PIPE)) {
        Some(out) => write_file(out, args.write.force, |file| write(file)),
        None => write(&mut stdout().lock()),
    }
}
