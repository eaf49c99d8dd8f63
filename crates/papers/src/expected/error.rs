//! What is wrong with a file of published numbers.

use std::io;

use super::CALIBRATIONS;

/// Why published numbers cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", text(file, fault))]
pub struct ExpectedError {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with the file.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum Fault {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is no TOML, or not of the form.
    Form {
        /// Line, from 1, where it is known.
        line: Option<usize>,
        message: String,
    },
    /// Two numbers of a paper have one id.
    Twice(String),
    /// A number breaks a rule.
    Rule {
        /// Paper and id.
        number: String,
        rule: &'static str,
    },
    /// So many numbers are calibrations.
    Calibrations(usize),
}

fn text(file: &str, fault: &Fault) -> String {
    match fault {
        Fault::Unreadable(source) => {
            format!(
                "cannot read `{file}`: {source}\nhelp: `--scenarios` names the folder of the papers' scenarios"
            )
        }
        Fault::Form { line: Some(line), message } => format!("`{file}`, line {line}: {message}"),
        Fault::Form { line: None, message } => format!("`{file}`: {message}"),
        Fault::Twice(number) => {
            format!("`{file}`: there are two numbers `{number}`\nhelp: give one of them another `id`")
        }
        Fault::Rule { number, rule } => format!("`{file}`: number `{number}` breaks a rule: {rule}"),
        Fault::Calibrations(found) => format!(
            "`{file}`: {found} numbers are calibrations, and there are {CALIBRATIONS}\n\
             help: give what was not fitted the role `prediction`"
        ),
    }
}
