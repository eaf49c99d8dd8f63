//! `zipwire help` and `zipwire completions`: help as text, man pages and Markdown, and completions of shells.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use clap::Command;

use crate::cli::{self, CompletionsArgs, HelpArgs};
use crate::error::CliError;

/// Name of the program in what is generated.
const NAME: &str = env!("CARGO_PKG_NAME");

/// Characters of a line in generated pages.
const PAGE_WIDTH: usize = 100;

pub(crate) fn run(args: &HelpArgs) -> Result<(), CliError> {
    let mut program = cli::command();
    program.build();
    if let Some(folder) = &args.out {
        return write_man_pages(program, folder);
    }
    if args.markdown {
        return print(&markdown(&program.term_width(PAGE_WIDTH)));
    }
    let command = find(&mut program, &args.command)?;
    if args.man {
        return print(&man_page(command)?);
    }
    Ok(command.print_long_help()?)
}

/// Prints completions, a script for the shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), NAME, &mut script);
    print(&script)
}

fn print(text: &[u8]) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(text)?;
    Ok(out.flush()?)
}

/// The command that words name.
fn find<'c>(program: &'c mut Command, words: &[String]) -> Result<&'c mut Command, CliError> {
    let mut command = program;
    for word in words {
        if command.find_subcommand(word).is_none() {
            let names = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>();
            let near = zipwire::scenarios::nearest(word, names.iter().map(String::as_str));
            let meant = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let all = if names.is_empty() {
                "it has none".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            let of = command.get_bin_name().unwrap_or(NAME);
            return Err(CliError::Usage(format!("`{of}` has no command `{word}`\nhelp: {meant}{all}")));
        }
        command = command.find_subcommand_mut(word).expect("it was found");
    }
    Ok(command)
}

fn man_page(command: &Command) -> Result<Vec<u8>, CliError> {
    let name = command.get_bin_name().unwrap_or(NAME).replace(' ', "-");
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name)).render(&mut page)?;
    Ok(page)
}

/// Writes the man pages of the program and of each command; pages of these names that are there are replaced.
fn write_man_pages(program: Command, folder: &Path) -> Result<(), CliError> {
    let shown = folder.display();
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(program, folder));
    written.map_err(|error| CliError::Usage(format!("cannot write man pages to `{shown}`: {error}")))?;
    say!("man pages are in {shown}: `man -l {shown}/{NAME}.1` shows the first one");
    Ok(())
}

/// A page with the help of the program and of each command.
fn markdown(program: &Command) -> Vec<u8> {
    let mut page =
        format!("# Commands\n\nThe help of `{NAME}` and of each of its commands, as `--help` prints it.\n");
    add_markdown(program, &mut page);
    page.into_bytes()
}

fn add_markdown(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(NAME).to_owned();
    let help = command.clone().term_width(PAGE_WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *page += &format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    command.get_subcommands().for_each(|sub| add_markdown(sub, page));
}
