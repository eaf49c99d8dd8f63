//! The arguments of `zipwire help` and `zipwire completions`, and examples of every command.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// The command, for instance `store add` [default: the program].
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Print it as a man page.
    #[arg(long)]
    pub(crate) man: bool,
    /// Write the man pages of all commands to this folder, which is made where it is not there.
    #[arg(long, value_name = "DIR", requires = "man", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,
    /// Print the help of all commands, as a page of Markdown.
    #[arg(long, conflicts_with_all = ["man", "command"])]
    pub(crate) markdown: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// The grammar with examples in the help of every command.
pub(crate) fn command() -> Command {
    with_examples(super::Cli::command(), "")
}

fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |sub| with_examples(sub, path.trim_start()))
    });
    match of(path) {
        // The program itself has more to say there.
        _ if path.is_empty() => command,
        examples => command.after_help(format!("Examples:\n  {}", examples.join("\n  "))),
    }
}

/// Examples of a command; of one that has others below it, the first ones of the first two.
fn of(path: &str) -> Vec<&'static str> {
    if let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == path) {
        return examples.to_vec();
    }
    let below = |of: &str| of.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '));
    EXAMPLES.iter().filter(|(of, _)| below(of)).map(|(_, examples)| examples[0]).take(2).collect()
}

/// Two examples of each command. They run in a folder with a model file, logs of nccl-tests and what the program carries.
pub(crate) const EXAMPLES: &[(&str, [&str; 2])] = &[
    (
        "scenario new",
        [
            "zipwire scenario new -o my.toml",
            "zipwire scenario new --preset h100-8x --model llama3-70b -o dense.toml",
        ],
    ),
    (
        "scenario check",
        ["zipwire scenario check my.toml", "zipwire scenario check my.toml --set cluster.nodes=4 --json"],
    ),
    ("scenario list", ["zipwire scenario list", "zipwire scenario list scenarios/serving --json"]),
    ("scenario presets", ["zipwire scenario presets", "zipwire scenario presets h100-8x"]),
    ("scenario schema", ["zipwire scenario schema", "zipwire scenario schema --markdown"]),
    (
        "scenario routes",
        ["zipwire scenario routes my.toml --src 0 --dst 9", "zipwire scenario routes my.toml --json"],
    ),
    ("scenario unpack", ["zipwire scenario unpack shipped", "zipwire scenario unpack out/shipped"]),
    (
        "run",
        [
            "zipwire run scenarios/quickstart.toml",
            "zipwire run my.toml --set cluster.nodes=4 --report out/my.html",
        ],
    ),
    (
        "validate",
        [
            "zipwire validate scenarios/validate/moe-skew-2x4.toml",
            "zipwire validate scenarios/validate/moe-skew-2x4.toml --variant native --out out/validation",
        ],
    ),
    ("plan", ["zipwire plan scenarios/quickstart.toml --variant native --rank 0", "zipwire plan my.toml"]),
    (
        "diff",
        [
            "zipwire diff out/quickstart/sim-native.trace.json out/quickstart/sim-static-first.trace.json",
            "zipwire diff out/my/sim-native.trace.json out/my/sim-size-first.trace.json --top 3",
        ],
    ),
    (
        "report",
        [
            "zipwire report out/quickstart -o out/quickstart.html",
            "zipwire report out/validation -o out/validation.html",
        ],
    ),
    ("plot", ["zipwire plot out/quickstart", "zipwire plot out/quickstart -o out/quickstart.svg"]),
    (
        "inspect",
        ["zipwire inspect model.safetensors", "zipwire inspect model.safetensors --codec rans,tiered --json"],
    ),
    (
        "compress",
        [
            "zipwire compress model.safetensors",
            "zipwire compress model.safetensors --codec rans --verify -o out/rans.safetensors",
        ],
    ),
    (
        "decompress",
        [
            "zipwire decompress model.zw.safetensors -o out/again.safetensors",
            "zipwire decompress model.zw.safetensors -o - --threads 2",
        ],
    ),
    (
        "verify",
        [
            "zipwire verify model.zw.safetensors",
            "zipwire verify model.zw.safetensors out/rans.safetensors --json",
        ],
    ),
    ("ls", ["zipwire ls model.zw.safetensors", "zipwire ls model.safetensors --json"]),
    (
        "cat",
        [
            "zipwire cat model.zw.safetensors --tensor L2.n1.w -o out/n1.bf16",
            "zipwire cat model.zw.safetensors --tensor L2.n1.w --range 0..2",
        ],
    ),
    ("store init", ["zipwire store init checkpoints", "zipwire store init out/checkpoints"]),
    (
        "store add",
        [
            "zipwire store add checkpoints model.safetensors --id step-1000",
            "zipwire store add checkpoints model.safetensors --id step-2000 --verify",
        ],
    ),
    ("store list", ["zipwire store list checkpoints", "zipwire store list checkpoints --json"]),
    (
        "store restore",
        [
            "zipwire store restore checkpoints step-1000 -o restored",
            "zipwire store restore checkpoints step-2000 -o restored --force",
        ],
    ),
    ("store pin", ["zipwire store pin checkpoints step-1000", "zipwire store pin checkpoints step-2000"]),
    (
        "store unpin",
        ["zipwire store unpin checkpoints step-1000", "zipwire store unpin checkpoints step-2000"],
    ),
    ("store verify", ["zipwire store verify checkpoints", "zipwire store verify checkpoints --json"]),
    ("store stats", ["zipwire store stats checkpoints", "zipwire store stats checkpoints --json"]),
    (
        "store prune",
        [
            "zipwire store prune checkpoints --keep 5 --every 10 --dry-run",
            "zipwire store prune checkpoints --keep 1",
        ],
    ),
    (
        "store rm",
        ["zipwire store rm checkpoints step-2000 --dry-run", "zipwire store rm checkpoints step-2000"],
    ),
    (
        "calibrate nccl-tests",
        [
            "zipwire calibrate nccl-tests logs/*.txt -o out/cluster.toml",
            "zipwire calibrate nccl-tests logs/*.txt --nics 8x400G --json",
        ],
    ),
    (
        "calibrate table",
        [
            "zipwire calibrate table model.safetensors --codec rans -o out/table.json",
            "zipwire calibrate table model.safetensors --codec codebook16 --layout split",
        ],
    ),
    (
        "calibrate probe",
        [
            "zipwire calibrate probe --gpus-per-node 4 -o out/hosts.toml",
            "zipwire calibrate probe --nodes 2 --gpus-per-node 8 --codec tiered,rans",
        ],
    ),
    (
        "bench collective",
        [
            "zipwire bench collective --cluster h100-8x --nodes 4 --op all_reduce,alltoall",
            "zipwire bench collective --cluster out/cluster.toml --op alltoall,all_gather --end 64M",
        ],
    ),
    (
        "bench codec",
        [
            "zipwire bench codec model.safetensors --codec tiered,rans,zstd",
            "zipwire bench codec model.safetensors --codec rans --threads 1,2 --json",
        ],
    ),
    (
        "bench held",
        [
            "zipwire bench held model.safetensors --passes 1",
            "zipwire bench held model.safetensors --codec tiered --passes 1 --json",
        ],
    ),
    (
        "bench sim",
        [
            "zipwire bench sim scenarios/quickstart.toml",
            "zipwire bench sim scenarios/quickstart.toml --level simulator --json",
        ],
    ),
    (
        "bench gpu",
        ["zipwire bench gpu", "zipwire bench gpu model.safetensors --codec window7 --compare-only"],
    ),
    (
        "import kineto",
        [
            "zipwire import kineto traces/samples/profiles",
            "zipwire import kineto traces/samples/profiles -o out/profile.json",
        ],
    ),
    (
        "import flight",
        ["zipwire import flight dumps", "zipwire import flight dumps/rank_0 dumps/rank_1 -o flight.json"],
    ),
    (
        "import inspector",
        ["zipwire import inspector logs", "zipwire import inspector logs -o inspector.json"],
    ),
    (
        "import chakra",
        ["zipwire import chakra traces", "zipwire import chakra job.0.et job.1.et -o chakra.json"],
    ),
    ("import shim", ["zipwire import shim journals", "zipwire import shim journals -o shim.json --json"]),
    (
        "advise",
        [
            "zipwire advise scenarios/quickstart.toml",
            "zipwire advise out/profile.json --gpus-per-node 2 -o out/advice.json",
        ],
    ),
    ("reproduce", ["zipwire reproduce dfloat11", "zipwire reproduce zipnn --json"]),
    (
        "kernels compile",
        ["zipwire kernels compile --arch sm_90", "zipwire kernels compile --arch sm_90 -o kernels --json"],
    ),
    ("doctor", ["zipwire doctor", "zipwire doctor --json"]),
    ("completions", ["zipwire completions bash", "zipwire completions zsh"]),
    ("help", ["zipwire help store add", "zipwire help --man --out out/man"]),
];

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::cli::Cli;

    /// Commands with nothing below them.
    fn leaves(command: &Command, path: &str) -> Vec<String> {
        let below: Vec<&Command> = command.get_subcommands().collect();
        if below.is_empty() {
            return vec![path.trim_start().to_owned()];
        }
        below.iter().flat_map(|sub| leaves(sub, &format!("{path} {}", sub.get_name()))).collect()
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut leaves = leaves(&command(), "");
        let mut paths: Vec<String> = EXAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
        leaves.sort();
        paths.sort();
        assert_eq!(paths, leaves);
        // Codecs are arguments, too.
        zipwire::paper_codecs::register();
        for (path, examples) in EXAMPLES {
            for example in examples {
                assert!(example.starts_with(&format!("zipwire {path}")), "{example}");
                assert!(example.len() <= 96, "a line of a page has no room for it: {example}");
                let matches = command().try_get_matches_from(example.split_whitespace());
                matches
                    .and_then(|matches| Cli::from_arg_matches(&matches))
                    .unwrap_or_else(|error| panic!("{example}\n{error}"));
            }
        }
    }

    #[test]
    fn help_of_groups_has_examples_of_what_is_below() {
        let help = command().find_subcommand_mut("store").unwrap().render_help().to_string();
        assert!(help.contains("Examples:\n  zipwire store init checkpoints\n  zipwire store add "), "{help}");
    }
}
