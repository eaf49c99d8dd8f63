//! Commands of the documentation: a flag that is renamed must be renamed there, too.

use clap::Parser;
use clap::error::ErrorKind;

use super::Cli;
use markdown::{blocks, docs, read};

#[allow(dead_code, reason = "tests of pages take the rest")]
#[path = "../../tests/it/common/markdown.rs"]
mod markdown;

/// Pages outside of `docs/` with commands.
const PAGES: [&str; 5] = [
    "README.md",
    "codec/README.md",
    "crates/python/README.md",
    "crates/c-api/README.md",
    "traces/samples/README.md",
];

/// Lines that a shell would run: words of each command, without redirections, and with `1` in the place of `$(...)`.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut lexer = Lexer { chars: script.chars().collect(), ..Lexer::default() };
    while lexer.step() {}
    lexer.end_command();
    lexer.commands
}

/// Arguments of the program, where a command runs it: by its name, behind a launcher, or through Cargo.
fn arguments(words: &[String]) -> Option<&[String]> {
    if words.first().is_some_and(|word| word == "cargo") {
        let own = words.iter().position(|word| word == "--")?;
        let is_run =
            words[1..own].iter().all(|word| ["run", "--release", "--quiet"].contains(&word.as_str()));
        return is_run.then(|| &words[own + 1..]);
    }
    let place = words.iter().position(|word| word == "zipwire" || word.ends_with("/zipwire"))?;
    Some(&words[place + 1..])
}

#[derive(Default)]
struct Lexer {
    chars: Vec<char>,
    at: usize,
    word: Option<String>,
    words: Vec<String>,
    /// Whether the next word names the file of a redirection.
    is_redirected: bool,
    commands: Vec<Vec<String>>,
}

impl Lexer {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_redirected) {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(words);
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += 1;
        c
    }

    /// Reads one character, or all of what it opens; false at the end.
    fn step(&mut self) -> bool {
        let Some(c) = self.next() else { return false };
        match c {
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(c) => self.push(c),
            },
            '\'' => {
                self.word.get_or_insert_default();
                while let Some(c) = self.next().filter(|c| *c != '\'') {
                    self.push(c);
                }
            }
            '"' => self.quoted(),
            '$' if self.chars.get(self.at) == Some(&'(') => self.substituted(),
            '#' if self.word.is_none() => {
                while self.chars.get(self.at).is_some_and(|c| *c != '\n') {
                    self.at += 1;
                }
            }
            '\n' | ';' | '|' => self.end_command(),
            // `2>&1` is a redirection.
            '&' if !self.is_redirected => self.end_command(),
            '&' => {}
            '>' | '<' => {
                // The number of what is redirected is no word.
                self.word.take_if(|word| word.parse::<u8>().is_ok());
                self.end_word();
                self.is_redirected = true;
            }
            c if c.is_whitespace() => self.end_word(),
            c => self.push(c),
        }
        true
    }

    fn quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.next().filter(|c| *c != '"') {
            match c {
                '\\' => self.next().into_iter().for_each(|c| self.push(c)),
                '$' if self.chars.get(self.at) == Some(&'(') => self.substituted(),
                c => self.push(c),
            }
        }
    }

    /// Passes over the output of a command.
    fn substituted(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.next() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 {
                break;
            }
        }
        self.push('1');
    }
}

#[test]
fn every_command_of_the_pages_parses() {
    let (mut parsed, mut wrong) = (0, Vec::new());
    for page in docs().into_iter().chain(PAGES.map(str::to_owned)) {
        for block in blocks(&read(&page)).iter().filter(|block| block.language() == "sh") {
            for words in commands(&block.text) {
                let Some(arguments) = arguments(&words) else { continue };
                parsed += 1;
                let words = std::iter::once("zipwire").chain(arguments.iter().map(String::as_str));
                let Err(error) = Cli::try_parse_from(words) else { continue };
                if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                    let (line, arguments) = (block.line, arguments.join(" "));
                    wrong.push(format!("{page}:{line}: {arguments}\n{error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 100, "{parsed} commands");
}

#[test]
fn words_are_those_of_a_shell() {
    let script = "zipwire run 'a b.toml' --set \"x=\\\"1 $(seq 1 2)\\\"\" \\\n  --json >out.json 2>&1 # all of it\n\
                  A=1 srun -n 2 zipwire ls m && cat <in | bin/zipwire decompress - > 'kv.bin'; cargo run --release -- plan s\n\
                  cargo run -p x --example y -- z\n";
    let found: Vec<Vec<String>> =
        commands(script).iter().filter_map(|words| arguments(words)).map(<[String]>::to_vec).collect();
    let expected: [&[&str]; 4] = [
        &["run", "a b.toml", "--set", "x=\"1 1\"", "--json"],
        &["ls", "m"],
        &["decompress", "-"],
        &["plan", "s"],
    ];
    assert_eq!(found, expected);
}
