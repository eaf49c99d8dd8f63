//! `zipwire cat` and `zipwire ls`: what is in model files.

use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

use serde::Serialize;
use zipwire::Cancel;
use zipwire::models::file::{FileError, Model, Output, Sources, nearest_names};

use super::{BaseFiles, ModelFile, io_error, is_stdout, models_of, print, print_json};
use crate::cli::{CatArgs, LsArgs};
use crate::error::CliError;
use crate::table;

/// Bytes that are decoded at once: whole pieces, as files have digests of them.
const AT_ONCE: u64 = 1 << 26;

pub(crate) fn cat(args: &CatArgs, cancel: &Cancel) -> Result<(), CliError> {
    let ModelFile { path: file, place } = match args.file.is_dir() {
        true => file_with(&args.file, &args.tensor)?,
        false => ModelFile { path: args.file.clone(), place: None },
    };
    let base = BaseFiles::open_any(args.base.as_deref())?;
    let model = Model::open_with(&file, base.of(&file, place.as_deref()))?;
    if args.out.is_none() && stdout().is_terminal() {
        let help = "`-o FILE` writes them to a file, `-o -` to the terminal all the same";
        return Err(CliError::Usage(format!("values are bytes, and stdout is a terminal\nhelp: {help}")));
    }
    let Some(out) = args.out.as_deref().filter(|out| !is_stdout(out)) else {
        return write_rows(args, &model, &mut stdout().lock(), cancel);
    };
    let mut sources = Sources::default();
    args.base.iter().chain([&args.file]).try_for_each(|file| sources.add(file))?;
    sources.refuse_file(out)?;
    let _hold = cancel.hold();
    let output = Output::like(out, args.force, &file)?;
    write_rows(args, &model, &mut output.file(), cancel)?;
    Ok(output.finish()?)
}

fn write_rows(args: &CatArgs, model: &Model, out: &mut dyn Write, cancel: &Cancel) -> Result<(), CliError> {
    let tensor = model.tensor(&args.tensor)?;
    let count = tensor.shape.first().map_or(1, |rows| *rows as u64);
    let rows = args.range.clone().unwrap_or(0..count);
    // Also where there is none: the range is checked.
    let bytes = model.bytes_of_rows(&args.tensor, rows)?;
    let mut start = bytes.start;
    while start < bytes.end {
        if cancel.is_cancelled() {
            return Err(FileError::Cancelled.into());
        }
        // Steps end where pieces do, so that each piece that is asked for as a whole is compared with its digest.
        let end = bytes.end.min((start / AT_ONCE + 1) * AT_ONCE);
        out.write_all(&model.read_bytes(&args.tensor, start..end)?)?;
        start = end;
    }
    Ok(out.flush()?)
}

/// The file of a folder that has a tensor.
fn file_with(folder: &Path, tensor: &str) -> Result<ModelFile, CliError> {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for file in models_of(&[folder.to_owned()])? {
        let model = Model::list(&file.path)?;
        match model.tensor(tensor) {
            Ok(_) => found.push(file),
            Err(_) => names.extend(model.tensors().iter().map(|tensor| tensor.name.clone())),
        }
    }
    match (found.pop(), &found[..]) {
        (Some(one), []) => Ok(one),
        (None, _) => {
            let nearest = nearest_names(tensor, names);
            Err(FileError::NoTensor { path: folder.to_owned(), tensor: tensor.to_owned(), nearest }.into())
        }
        (Some(last), [one, ..]) => Err(CliError::Usage(format!(
            "`{}` and `{}` have a tensor `{tensor}`\nhelp: name one of them",
            one.path.display(),
            last.path.display()
        ))),
    }
}

#[derive(Serialize)]
struct Listed {
    file: PathBuf,
    compressed: bool,
    bytes_raw: u64,
    bytes: u64,
    tensors: Vec<ListedTensor>,
}

#[derive(Serialize)]
struct ListedTensor {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    bytes_raw: u64,
    bytes: u64,
}

pub(crate) fn ls(args: &LsArgs) -> Result<(), CliError> {
    let mut files = Vec::new();
    for ModelFile { path: file, .. } in &models_of(&args.files)? {
        // Names, types and lengths are there without the base.
        let model = Model::list(file)?;
        let bytes = fs::metadata(file).map_err(io_error("read", file))?.len();
        let tensors = model.tensors().iter().map(|tensor| {
            Ok::<_, CliError>(ListedTensor {
                name: tensor.name.clone(),
                dtype: tensor.dtype.clone(),
                shape: tensor.shape.clone(),
                bytes_raw: tensor.bytes(),
                bytes: model.bytes_kept(&tensor.name)?,
            })
        });
        files.push(Listed {
            file: file.clone(),
            compressed: model.is_compressed(),
            bytes_raw: model.bytes(),
            bytes,
            tensors: tensors.collect::<Result<_, _>>()?,
        });
    }
    if args.json {
        return print_json(&serde_json::json!({ "files": files }));
    }
    print(files.iter().map(text).collect::<Vec<_>>().join("\n\n") + "\n")
}

fn text(file: &Listed) -> String {
    let mut rows = table::new(&["tensor", "type", "shape", "raw", "here", "size"], &[0, 1]);
    let mut add = |name: &str, dtype: &str, shape: String, raw: u64, here: u64| {
        let size = format!("{:.2} %", 100.0 * here as f64 / raw.max(1) as f64);
        rows.add_row(vec![
            name.to_owned(),
            dtype.to_owned(),
            shape,
            table::bytes(raw as f64),
            table::bytes(here as f64),
            size,
        ]);
    };
    for tensor in &file.tensors {
        let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
        let shape = if shape.is_empty() { "scalar".to_owned() } else { shape.join("x") };
        add(&tensor.name, &tensor.dtype, shape, tensor.bytes_raw, tensor.bytes);
    }
    add("the file", "", String::new(), file.bytes_raw, file.bytes);
    format!("{}\n\n{}", file.file.display(), table::text(&rows))
}
