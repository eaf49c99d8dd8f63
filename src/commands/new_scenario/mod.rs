//! `zipwire scenario new`: a commented scenario of a model on a preset.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use zipwire::scenarios::{Source, load, model_presets, presets};

use super::print_file;
use crate::cli::{NewScenarioArgs, Workload};
use crate::error::CliError;

/// GPUs of a server; what has more is a rack, of which one makes a cluster.
const MOST_IN_BOX: u32 = 8;

/// Numbers of nodes that are tried, each twice the one before.
const DOUBLINGS: u32 = 6;

/// Characters of a name.
const LONGEST_NAME: usize = 60;

/// GPUs of an instance that serves, at the most.
const MOST_TOGETHER: u32 = 64;

pub(crate) fn run(args: &NewScenarioArgs) -> Result<(), CliError> {
    let name = args.out.as_deref().and_then(Path::file_stem).unwrap_or_default();
    let text = text(&name.to_string_lossy(), args)?;
    let Some(path) = &args.out else { return print_file(&text) };
    let shown = path.display();
    write_new(path, &text).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::AlreadyExists => "\nhelp: name another file, or remove it",
            io::ErrorKind::NotFound => "\nhelp: make its folder first",
            _ => "",
        };
        CliError::Usage(format!("cannot write `{shown}`: {error}{help}"))
    })?;
    say!("{shown} is there: try `zipwire run {shown}`, then change what differs");
    Ok(())
}

/// Writes a file that is not there yet: whole or not at all.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // Half a scenario is of no use.
        let _ = fs::remove_file(path);
    })
}

/// The scenario, which loads.
fn text(name: &str, args: &NewScenarioArgs) -> Result<String, CliError> {
    let model = match &args.model {
        Some(model) => model,
        None if args.workload == Some(Workload::Moe) || args.workload.is_none() => "deepseek-v3",
        None => "llama3-8b",
    };
    let has_experts = model_presets(true).any(|known| known == model);
    let workload = args.workload.unwrap_or(if has_experts { Workload::Moe } else { Workload::Fsdp });
    if workload == Workload::Moe && !has_experts {
        let with: Vec<&str> = model_presets(true).collect();
        let help = format!("`--workload fsdp`, or a model with experts: {}", with.join(", "));
        return Err(CliError::Usage(format!("`{model}` has no experts\nhelp: {help}")));
    }
    let preset = presets().iter().find(|preset| preset.name == args.preset);
    let preset = preset.expect("the command line takes names of presets only");
    let template = match workload {
        Workload::Moe => include_str!("moe.toml"),
        Workload::Fsdp => include_str!("fsdp.toml"),
        Workload::Serving => include_str!("serving.toml"),
    };
    let name = scenario_name(name);
    let gpus_per_node = preset.topology()?.gpus_per_node;
    let filled = |nodes: u32| {
        let gpus = 1 << (gpus_per_node * nodes / 2).clamp(1, MOST_TOGETHER).ilog2();
        let values = [
            ("@NAME@", name.as_str()),
            ("@PRESET@", preset.name),
            ("@MODEL@", model),
            ("@NODES@", &nodes.to_string()),
            ("@GPUS@", &gpus.to_string()),
        ];
        let text = values.iter().fold(template.to_owned(), |text, (key, value)| text.replace(key, value));
        load(&Source::from_text("the new scenario", &text, ""), &[], None)?;
        Ok(text)
    };
    let least = if gpus_per_node > MOST_IN_BOX { 1 } else { 2 };
    let mut found = filled(args.nodes.unwrap_or(least));
    // The fewest nodes that hold the model.
    for doublings in 1..=DOUBLINGS {
        if found.is_ok() || args.nodes.is_some() {
            break;
        }
        found = filled(least << doublings).or(found);
    }
    found
}

/// The name of a scenario after that of its file: of letters, digits and hyphens, for files and folders are called by it.
fn scenario_name(file: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = file.chars().map(plain).take(LONGEST_NAME).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "my-scenario".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_and_model_makes_a_scenario_that_loads() {
        let args = |preset: &str, model: &str, workload| NewScenarioArgs {
            preset: preset.to_owned(),
            model: Some(model.to_owned()),
            workload,
            nodes: None,
            out: None,
        };
        let of_models = model_presets(false).map(|model| args("h100-8x", model, None));
        let of_presets = presets().iter().flat_map(|preset| {
            [None, Some(Workload::Fsdp), Some(Workload::Serving)]
                .map(|kind| args(preset.name, "mixtral-8x7b", kind))
        });
        for args in
            of_models.chain(of_presets).chain([args("a100-8x", "llama3-405b", Some(Workload::Serving))])
        {
            let text = text("x", &args).unwrap_or_else(|error| panic!("{args:?}\n{error}"));
            assert!(!text.contains('@'), "{text}");
        }
    }
}
