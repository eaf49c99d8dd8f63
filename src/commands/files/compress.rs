//! `zipwire compress`, `zipwire decompress` and `zipwire verify`.

use std::fs;
use std::io::{self, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use zipwire::Cancel;
use zipwire::codec::{Reader, WriterOptions};
use zipwire::models::file::{
    Compression, Damage, FileError, Model, Values, Watch, compress, compress_values, damage, files_below,
    is_archive, mirror, restore, salvage,
};

use super::{
    MARK, PIPE, Row, SAFETENSORS, Unread, base_for, compressed_name, copy, io_error, place, print_rows,
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
    print_rows(&rows, &[], args.write.work.json)
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
        let row = decode(out, None, base, &args.write.work, cancel)?;
        row.damaged.first().map_or(Ok(()), |damage| Err(damaged(out, damage)))?;
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

/// Files that commands look at one by one: what came of each, and whether all were sound.
#[derive(Default)]
struct Report {
    rows: Vec<Row>,
    unread: Vec<Unread>,
    /// Exit code for the first file that was not.
    code: Option<u8>,
}

impl Report {
    /// Adds what came of a file, and says what is damaged.
    fn add(&mut self, row: Row) {
        for damage in &row.damaged {
            let error = damaged(&row.file, damage);
            error.say();
            self.code.get_or_insert(error.exit_code());
        }
        self.rows.push(row);
    }

    /// Says why a file is not read, and goes on: unless the user wants to stop, or it is not because of the file.
    fn pass_over(&mut self, file: &Path, error: CliError, cancel: &Cancel) -> Result<(), CliError> {
        if !matches!(error, CliError::File(_)) || cancel.is_cancelled() {
            return Err(error);
        }
        error.say();
        self.code.get_or_insert(error.exit_code());
        self.unread.push(Unread { file: file.to_owned(), error: error.to_string() });
        Ok(())
    }

    fn print(&self, json: bool) -> Result<(), CliError> {
        print_rows(&self.rows, &self.unread, json)?;
        self.code.map_or(Ok(()), |code| Err(CliError::Said(code)))
    }
}

fn damaged(file: &Path, damage: &Damage) -> CliError {
    FileError::Damaged { path: file.to_owned(), what: damage.to_string() }.into()
}

pub(crate) fn run_decompress(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.iter().any(|file| file == Path::new(PIPE)) {
        return decompress_pipe(args, cancel);
    }
    let several = args.files.len() > 1;
    let mut report = Report::default();
    // With `--keep-going`, a file that nothing comes back of does not stop the others.
    let restored = |file: &Path, out: &Path, folder: Option<&Path>| {
        let base = base_for(args.base.as_deref(), file, folder)?;
        let to = Target { out, force: args.write.force, keep_going: args.keep_going };
        decode(file, Some(to), base, &args.write.work, cancel)
    };
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
                let was = restored_name(from).unwrap_or_else(|| from.to_owned());
                match restored(from, &name, Some(file)) {
                    Ok(row) => report.add(row.placed(&out, &was, file)),
                    Err(error) if args.keep_going => {
                        // It is copied.
                        report.pass_over(from, error, cancel)?;
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
                Ok::<_, CliError>(true)
            })?;
        } else {
            let out = match (&args.out, restored_name(file)) {
                (Some(out), None) if !several && !out.is_dir() => out.clone(),
                (_, name) => place(file, args.out.as_deref(), several, &name.ok_or_else(unnamed)?)?,
            };
            match restored(file, &out, None) {
                Ok(row) => report.add(row),
                Err(error) if args.keep_going => report.pass_over(file, error, cancel)?,
                Err(error) => return Err(error),
            }
        }
    }
    report.print(args.write.work.json)
}

pub(crate) fn run_verify(args: &VerifyArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut report = Report::default();
    // All are looked at, whatever is found.
    let mut look = |file: &Path, folder: Option<&Path>| {
        let base = base_for(args.base.as_deref(), file, folder)?;
        match decode(file, None, base, &args.work, cancel) {
            Ok(row) => report.add(row),
            Err(error) => report.pass_over(file, error, cancel)?,
        }
        Ok::<_, CliError>(())
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
    report.print(args.work.json)
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

/// Where a decoded file goes.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    out: &'a Path,
    /// Whether there may be a file already.
    force: bool,
    /// Whether what comes back of a damaged file is written, too.
    keep_going: bool,
}

/// Decodes a file, to nowhere if there is no target: then all that is damaged is in the row.
fn decode(
    file: &Path,
    to: Option<Target<'_>>,
    base: Option<Arc<Model>>,
    work: &WorkArgs,
    cancel: &Cancel,
) -> Result<Row, CliError> {
    let begun = Instant::now();
    let coded = fs::metadata(file).map_err(io_error("read", file))?.len();
    let input = Input::open(file, base, to.is_some_and(|to| to.keep_going))?;
    let damaged = watched(work, cancel, (file, input.bytes()), |watch| input.decode(to, watch))?;
    let row = Row::new(file, to.map(|to| to.out), (input.bytes(), coded), None, begun);
    Ok(Row { damaged, ..row })
}

/// A file that is decompressed.
enum Input {
    /// A container by itself.
    Values(Values),
    Model(Box<Model>),
}

impl Input {
    fn open(file: &Path, base: Option<Arc<Model>>, may_be_cut: bool) -> Result<Self, FileError> {
        let values = if may_be_cut { Values::open_cut(file)? } else { Values::open(file)? };
        if let Some(values) = values {
            return Ok(Self::Values(values));
        }
        let open = if may_be_cut { Model::open_cut } else { Model::open_with };
        Ok(Self::Model(Box::new(open(file, base)?)))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Values(values) => values.bytes(),
            Self::Model(model) => model.bytes(),
        }
    }

    /// To a target, or to nowhere. Gives what is damaged, where that is no error.
    fn decode(&self, to: Option<Target<'_>>, watch: &Watch<'_>) -> Result<Vec<Damage>, FileError> {
        match (self, to) {
            (Self::Values(values), None) => values.damage(watch),
            (Self::Model(model), None) => damage(model, watch),
            (Self::Values(values), Some(Target { out, force, keep_going: true })) => {
                values.salvage(out, force, watch)
            }
            (Self::Model(model), Some(Target { out, force, keep_going: true })) => {
                salvage(model, out, force, watch)
            }
            (Self::Values(values), Some(Target { out, force, .. })) => {
                values.restore(out, force, watch).map(|()| Vec::new())
            }
            (Self::Model(model), Some(Target { out, force, .. })) => {
                restore(model, out, force, watch).map(|()| Vec::new())
            }
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
