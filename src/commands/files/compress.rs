//! `zipwire compress`, `zipwire decompress` and `zipwire verify`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write};
use std::path::Path;
use std::time::Instant;

use zipwire::Cancel;
use zipwire::codec::{Reader, WriterOptions};
use zipwire::models::file::{
    Bases, Below, Compression, Damage, FileError, Model, Output, Values, Watch, begins_compressed, codec_for,
    compress_into, compress_values_into, damage, is_archive, open_input, restore_into, salvage_into,
};

use super::plan::{Naming, Plan};
use super::{
    BaseFiles, MARK, Row, SAFETENSORS, Stdin, Unread, compressed_name, copy, io_error, is_stdin, is_stdout,
    print_rows, restored_name, watched, with_ending, without_ending, write_out,
};
use crate::cli::{CompressArgs, DecompressArgs, VerifyArgs, WorkArgs};
use crate::error::CliError;

pub(crate) fn run(args: &CompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    let codec = &args.spec();
    if codec.table_id().is_some() {
        return Err(CliError::Usage(format!(
            "`{codec}` names a table, and files are read without tables: each of their frames has its own\nhelp: leave `table` out"
        )));
    }
    if codec.takes_base() && args.base.is_none() {
        return Err(crate::commands::files::missing_base(codec));
    }
    if args.files.iter().any(|file| is_stdin(file)) {
        return pipe(args, cancel);
    }
    refuse_json(args.out.as_deref(), args.write.work.json)?;
    let plan =
        Plan::new(&args.files, args.out.as_deref(), args.base.as_deref(), args.write.force, &COMPRESSION)?;
    let base = BaseFiles::open_for(&args.files, args.base.as_deref())?;
    let mut report = Report::default();
    plan.carry_out(args.write.force, cancel, |file, place, output| {
        // Archives in a folder are coded without, beside models that have one.
        let has_base = args.dtype.is_none() && (place.is_none() || !is_archive(file));
        let base = base.of(file, place).filter(|_| has_base);
        match one(args, file, base, output, cancel) {
            Ok(row) => report.add(row),
            // What is no model is no reason to leave the models of its folder.
            Err(CliError::File(error @ FileError::Foreign { .. })) if place.is_some() => {
                say!("warning: copied as it is: {error}");
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    })?;
    report.print(args.out.as_deref(), args.write.work.json)
}

/// Names of what is compressed.
const COMPRESSION: Naming = Naming {
    file: |file| Some(compressed_name(file)),
    folder: |folder| Some(with_ending(folder, MARK)),
    makes: |file, names| {
        let is_called = |name: &&Path| name.extension().is_some_and(|ending| ending == SAFETENSORS);
        let is_model = names.iter().any(is_called) || is_archive(file);
        is_model && !Model::list(file).is_ok_and(|model| model.is_compressed())
    },
};

/// Names of what is decompressed.
const DECOMPRESSION: Naming = Naming {
    file: restored_name,
    folder: |folder| without_ending(folder, MARK),
    makes: |file, _| is_compressed(file),
};

/// Compresses a file. What is verified has no name yet.
fn one(
    args: &CompressArgs,
    file: &Path,
    base: Option<Bases>,
    output: &Output,
    cancel: &Cancel,
) -> Result<Row, CliError> {
    let begun = Instant::now();
    let bytes = fs::metadata(file).map_err(io_error("read", file))?.len();
    let compression =
        Compression { spec: args.spec(), force: args.write.force, keep_trailing: args.keep_trailing };
    let made = watched(&args.write.work, cancel, (file, bytes), |watch| match args.dtype {
        Some(dtype) => compress_values_into(file, output, dtype, &compression, watch),
        None => compress_into(file, output, &compression, base.as_ref(), watch),
    })?;
    let tensors_from_base = base.is_some().then_some(made.against);
    if tensors_from_base == Some(0) {
        say!(
            "note: no tensor of `{}` is coded as differences: the base has none of the same name, type and shape that saves bytes",
            file.display()
        );
    }
    if let Some(name) = made.ambiguous.first()
        && let Some(Err(error)) = base.as_ref().map(|base| base.model_with(name))
    {
        let count = made.ambiguous.len();
        say!("note: tensors of `{}` that are coded without a base: {count}: {error}", file.display());
    }
    if args.verify {
        let staged = output.file().try_clone().map_err(io_error("read", output.path()))?;
        let found = decode((staged, output.path()), None, false, base, &args.write.work, cancel);
        let sound = found.and_then(|row| match row.damaged.first() {
            Some(damage) => Err(damaged(output.path(), damage)),
            None => Ok(()),
        });
        sound.inspect_err(|_| {
            let name = output.path().display();
            say!("`{name}` is not written: what it would have does not give back `{}`", file.display());
        })?;
    }
    let bytes = (made.bytes_raw, made.bytes_coded);
    Ok(Row { tensors_from_base, ..Row::new(file, Some(output.path()), bytes, Some(&args.spec()), begun) })
}

/// Bytes of a pipe by which its codec is chosen.
const SAMPLE: u64 = 1 << 20;

/// Values from stdin, as a container to stdout or to a file.
fn pipe(args: &CompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    let Some(dtype) = args.dtype.filter(|_| args.files.len() == 1 && args.base.is_none()) else {
        return Err(CliError::Usage(
            "`-` takes raw values of one type, by itself and without a base\nhelp: say which by `--dtype TYPE`; a safetensors file is named"
                .to_owned(),
        ));
    };
    let write = |sink: &mut dyn Write| -> Result<(), CliError> {
        let (mut first, mut stdin) = (Vec::new(), Stdin(cancel));
        stdin.by_ref().take(SAMPLE).read_to_end(&mut first)?;
        let spec = codec_for(&args.spec(), dtype, &first);
        let opened = WriterOptions::new(dtype).codec(spec.codec()).open(sink);
        let mut writer = opened.map_err(|error| CliError::Usage(error.to_string()))?;
        copy(first.as_slice().chain(stdin), &mut writer)?;
        writer.finish()?;
        Ok(())
    };
    write_out(args.out.as_deref(), args.write.force, cancel, write)
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

    /// Prints all, unless stdout has the output `out`.
    fn print(&self, out: Option<&Path>, json: bool) -> Result<(), CliError> {
        if !out.is_some_and(is_stdout) {
            print_rows(&self.rows, &self.unread, json)?;
        }
        self.code.map_or(Ok(()), |code| Err(CliError::Said(code)))
    }
}

fn damaged(file: &Path, damage: &Damage) -> CliError {
    FileError::Damaged { path: file.to_owned(), what: damage.to_string() }.into()
}

pub(crate) fn run_decompress(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.iter().any(|file| is_stdin(file)) {
        return decompress_pipe(args, cancel);
    }
    refuse_json(args.out.as_deref(), args.write.work.json)?;
    let plan =
        Plan::new(&args.files, args.out.as_deref(), args.base.as_deref(), args.write.force, &DECOMPRESSION)?;
    let base = BaseFiles::open_any(args.base.as_deref())?;
    let mut report = Report::default();
    plan.carry_out(args.write.force, cancel, |file, place, output| {
        let (base, work) = (base.of(file, place), &args.write.work);
        let made =
            open(file).and_then(|opened| decode(opened, Some(output), args.keep_going, base, work, cancel));
        match made {
            Ok(row) => report.add(row),
            // A file that nothing comes back of does not stop the others.
            Err(error) if args.keep_going => {
                report.pass_over(file, error, cancel)?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    })?;
    report.print(args.out.as_deref(), args.write.work.json)
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

pub(crate) fn run_verify(args: &VerifyArgs, cancel: &Cancel) -> Result<(), CliError> {
    let base = BaseFiles::open_any(args.base.as_deref())?;
    let mut report = Report::default();
    // All are looked at, whatever is found.
    let mut look = |file: &Path, place: Option<&Path>| {
        let base = base.of(file, place);
        match open(file).and_then(|opened| decode(opened, None, false, base, &args.work, cancel)) {
            Ok(row) => report.add(row),
            Err(error) => report.pass_over(file, error, cancel)?,
        }
        Ok::<_, CliError>(())
    };
    for file in &args.files {
        if !file.is_dir() {
            look(file, None)?;
            continue;
        }
        for within in Below::of(file)?.once(file).iter().filter(|within| is_compressed(within)) {
            look(within, within.strip_prefix(file).ok())?;
        }
    }
    report.print(None, args.work.json)
}

/// Whether this program has written the file, damaged or not. Its name decides if its content does not: a file that was cut is not passed over.
fn is_compressed(file: &Path) -> bool {
    match Values::open(file) {
        Ok(None) => match Model::list(file) {
            Ok(model) => model.is_compressed(),
            Err(FileError::Header { .. } | FileError::Foreign { .. }) => {
                restored_name(file).is_some() || begins_compressed(file)
            }
            Err(_) => true,
        },
        Ok(Some(_)) | Err(_) => true,
    }
}

/// A file and its name.
fn open(file: &Path) -> Result<(File, &Path), CliError> {
    Ok((open_input(file).map_err(io_error("read", file))?, file))
}

/// Decodes a file to `output`, with `keep_going` also what comes back of a damaged one; or to nowhere. Gives all that is damaged, where that is no error.
fn decode(
    (file, path): (File, &Path),
    output: Option<&Output>,
    keep_going: bool,
    base: Option<Bases>,
    work: &WorkArgs,
    cancel: &Cancel,
) -> Result<Row, CliError> {
    let begun = Instant::now();
    let coded = file.metadata().map_err(io_error("read", path))?.len();
    let input = Input::of(file, path, base, keep_going)?;
    let damaged =
        watched(work, cancel, (path, input.bytes()), |watch| input.decode(output, keep_going, watch))?;
    let row = Row::new(path, output.map(Output::path), (input.bytes(), coded), None, begun);
    Ok(Row { damaged, ..row })
}

/// A file that is decompressed.
enum Input {
    /// A container by itself.
    Values(Values),
    Model(Box<Model>),
}

impl Input {
    fn of(file: File, path: &Path, base: Option<Bases>, may_be_cut: bool) -> Result<Self, FileError> {
        let other = file.try_clone().map_err(FileError::io("read", path))?;
        let values = if may_be_cut { Values::open_cut(path)? } else { Values::of_file(other, path)? };
        if let Some(values) = values {
            return Ok(Self::Values(values));
        }
        let model = if may_be_cut { Model::open_cut(path, base)? } else { Model::of_file(file, path, base)? };
        Ok(Self::Model(Box::new(model)))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Values(values) => values.bytes(),
            Self::Model(model) => model.bytes(),
        }
    }

    /// To `output`, or to nowhere. Gives what is damaged, where that is no error.
    fn decode(
        &self,
        output: Option<&Output>,
        keep_going: bool,
        watch: &Watch<'_>,
    ) -> Result<Vec<Damage>, FileError> {
        match (self, output) {
            (Self::Values(values), None) => values.damage(watch),
            (Self::Model(model), None) => damage(model, watch),
            (Self::Values(values), Some(output)) if keep_going => values.salvage_into(output, watch),
            (Self::Model(model), Some(output)) if keep_going => salvage_into(model, output, watch),
            (Self::Values(values), Some(output)) => values.restore_into(output, watch).map(|()| Vec::new()),
            (Self::Model(model), Some(output)) => restore_into(model, output, watch).map(|()| Vec::new()),
        }
    }
}

/// A container from stdin, as values to stdout or to a file.
fn decompress_pipe(args: &DecompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.files.len() > 1 {
        return Err(CliError::Usage("`-` is decompressed by itself".to_owned()));
    }
    let write = |sink: &mut dyn Write| match copy(Reader::new(BufReader::new(Stdin(cancel))), sink) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(CliError::Usage(format!(
            "stdin is no container of values: {error}\nhelp: a compressed safetensors file is read at any place, so it is named"
        ))),
        copied => Ok(copied.map(drop)?),
    };
    write_out(args.out.as_deref(), args.write.force, cancel, write)
}
