//! `zipwire kernels`: machine code for GPUs, made where there is none.

use serde_json::json;
use zipwire::codec::DType;
use zipwire::kernels::{CompiledModule, cache, compile_all, compiler};
use zipwire::{Cancel, ExecuteError};

use super::{print, print_json, refuse_store};
use crate::cli::{KernelsCommand, KernelsCompileArgs};
use crate::error::CliError;
use crate::table;

pub(crate) fn run(command: &KernelsCommand, cancel: &Cancel) -> Result<(), CliError> {
    // A file that is begun is removed.
    let _hold = cancel.hold();
    match command {
        KernelsCommand::Compile(args) => compile(args, cancel),
    }
}

/// An architecture of GPUs by the compiler's name for it.
pub(crate) fn arch(name: &str) -> Result<String, String> {
    let number = name.strip_prefix("sm_").unwrap_or_default();
    let is_arch = (2..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    is_arch.then(|| name.to_owned()).ok_or_else(|| {
        "expected `sm_` and the compute capability without its point, for instance `sm_90`".to_owned()
    })
}

fn compile(args: &KernelsCompileArgs, cancel: &Cancel) -> Result<(), CliError> {
    refuse_store(args.out.as_deref())?;
    let Some(folder) = args.out.clone().or_else(cache::folder) else {
        let message = "there is no kernel cache: `ZIPWIRE_KERNEL_CACHE` is empty, or the user has no home\nhelp: `-o FOLDER` names a folder";
        return Err(CliError::Usage(message.to_owned()));
    };
    let compiler = compiler()?;
    let compiled = compile_all(&args.arch, &folder, || cancel.is_cancelled())?;
    let modules = compiled.ok_or(ExecuteError::Cancelled)?;
    if args.json {
        let file = |module: &CompiledModule| json!({ "module": module.name, "type": module.dtype.map(DType::name), "bytes": module.bytes, "path": module.path });
        let files: Vec<_> = modules.iter().map(file).collect();
        return print_json(&json!({ "compiler": compiler, "arch": args.arch, "modules": files }));
    }
    let mut lines = table::new(&["module", "type", "machine code"], &[0, 1]);
    for module in &modules {
        let dtype = module.dtype.map_or("all", |dtype| dtype.name());
        lines.add_row(vec![module.name.to_owned(), dtype.to_owned(), table::bytes(module.bytes as f64)]);
    }
    let bytes: usize = modules.iter().map(|module| module.bytes).sum();
    print(format!(
        "{}\n{} modules for {}, {}, by {compiler}, in {}\n",
        table::text(&lines),
        modules.len(),
        args.arch,
        table::bytes(bytes as f64),
        folder.display()
    ))
}
