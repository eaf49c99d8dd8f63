//! `zipwire compress`.

use std::fs;
use std::io::{Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

use zipwire::Cancel;
use zipwire::codec::WriterOptions;
use zipwire::models::file::{Compression, Model, compress, compress_values, is_archive, mirror};

use super::{
    MARK, PIPE, Row, SAFETENSORS, base_for, compressed_name, copy, io_error, place, print_rows, watched,
    write_file,
};
use crate::cli::CompressArgs;
use crate::error::CliError;

pub(crate) fn run(args: &CompressArgs, cancel: &Cancel) -> Result<(), CliError> {
    if args.codec.table_id().is_some() {
        return Err(CliError::Usage(format!(
            "`{}` names a table, and files are read without tables: each of their frames has its own\nhelp: leave `table` out",
            args.codec
        )));
    }
    if args.codec.takes_base() && args.base.is_none() {
        return Err(crate::commands::base_file::missing(&args.codec));
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
        super::decompress::decode(out, None, base, &args.write.work, cancel)?;
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
