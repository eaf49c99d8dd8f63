//! Scenario errors: a problem, and the places in the scenario that it points at.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use thiserror::Error;
use zipwire_traces::{escaped, printable};

use crate::excerpt::excerpts;
use crate::problem::Problem;
use crate::tree::Place;

pub(crate) type Result<T> = std::result::Result<T, ScenarioError>;

/// A problem of a scenario, and the places in its text that it concerns.
///
/// `Display` gives one line, `path:line:column: what is wrong`; [`render`](Self::render) shows the source.
#[derive(Debug, Error)]
#[error("{}", self.line_of_text())]
pub struct ScenarioError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    problem: Problem,
    /// The first is where the problem is, the others explain it.
    places: Vec<(Place, &'static str)>,
}

impl Problem {
    #[allow(clippy::needless_pass_by_value, reason = "values are numbers, mostly")]
    /// A number outside its limits: its path, or what it is; `limits` are the end of "must be".
    pub(crate) fn out_of_range(
        path: impl Into<String>,
        value: impl ToString,
        limits: impl Into<String>,
    ) -> Self {
        Self::OutOfRange { path: path.into(), value: value.to_string(), limits: limits.into() }
    }

    /// A key that is not there; `example` is a value for it, as TOML.
    pub(crate) fn missing_key(key: &str, table: &str, example: &str) -> Self {
        Self::MissingKey { key: key.to_owned(), table: table.to_owned(), example: example.to_owned() }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        ScenarioError(Box::new(Inner { problem: self, places: vec![(place, "")] }))
    }

    /// The error of this problem when there is no text to point into.
    pub(crate) fn nowhere(self) -> ScenarioError {
        ScenarioError(Box::new(Inner { problem: self, places: Vec::new() }))
    }
}

impl ScenarioError {
    /// Adds a place that explains the problem.
    pub(crate) fn with(mut self, place: Place, label: &'static str) -> Self {
        self.0.places.push((place, label));
        self
    }

    /// The same problem as one of a point of a sweep; `blamed` is the value of the sweep to point at, if the error does not
    /// point at one already.
    pub(crate) fn at_point(self, point: usize, count: usize, set: String, blamed: Option<Place>) -> Self {
        let Inner { problem, mut places } = *self.0;
        if let Some(blamed) = blamed {
            if let Some((_, label)) = places.first_mut() {
                *label = if label.is_empty() { "wrong with it" } else { label };
            }
            places.insert(0, (blamed, ""));
        }
        let problem = Problem::AtPoint { problem: Box::new(problem), point, count, set };
        Self(Box::new(Inner { problem, places }))
    }

    /// Whether the problem is inside `place`.
    pub(crate) fn is_within(&self, place: &Place) -> bool {
        self.0.places.first().is_some_and(|(own, _)| {
            std::sync::Arc::ptr_eq(&own.document, &place.document)
                && place.span.start <= own.span.start
                && own.span.end <= place.span.end
        })
    }

    /// The problem as data.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// Line in the file, from 1; `None` if the problem is in a command-line argument.
    pub fn line(&self) -> Option<usize> {
        self.0.places.first().filter(|(place, _)| place.document.is_file).map(|(place, _)| place.line())
    }

    /// Column in the file or the command-line argument, from 1, in characters.
    pub fn column(&self) -> Option<usize> {
        self.0.places.first().map(|(place, _)| place.column())
    }

    /// Message, place, the source line with a mark under it, and the remedy; several lines, without
    /// a final newline. With `colour`, ANSI escapes for a terminal.
    pub fn render(&self, colour: bool) -> String {
        // What a file or an argument says is shown, and not obeyed.
        let message = printable(&self.0.problem.to_string()).into_owned();
        let mut group = Group::with_title(Level::ERROR.primary_title(message));
        let mut rest = self.0.places.as_slice();
        while let Some(((place, _), _)) = rest.split_first() {
            // Neighbours in one document share an excerpt.
            let document = &place.document;
            let same = rest.iter().take_while(|(other, _)| std::sync::Arc::ptr_eq(&other.document, document));
            let count = same.count();
            let spans: Vec<Range<usize>> = rest[..count].iter().map(|(place, _)| span(place)).collect();
            let is_first = rest.len() == self.0.places.len();
            let mut left = &rest[..count];
            for excerpt in excerpts(&document.text, &spans) {
                let (shown, further) = left.split_at(excerpt.spans.len());
                let annotations =
                    shown.iter().zip(&excerpt.spans).enumerate().map(|(index, ((_, label), span))| {
                        let is_primary = is_first && index == 0 && left.len() == count;
                        let kind = if is_primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                        kind.span(span.clone()).label(Some(*label).filter(|label| !label.is_empty()))
                    });
                let annotations: Vec<_> = annotations.collect();
                let name = document.is_file.then(|| escaped(&document.name).into_owned());
                let snippet = Snippet::source(excerpt.text)
                    .path(name.clone().filter(|_| !excerpt.is_cut))
                    .line_start(excerpt.line)
                    .line_numbering(document.is_file)
                    .annotations(annotations);
                group = group.element(snippet);
                // A snippet counts columns in what is shown.
                if let Some(name) = name.filter(|_| excerpt.is_cut) {
                    let column = shown[0].0.column();
                    group = group.element(Origin::path(name).line(excerpt.line).char_column(column));
                }
                left = further;
            }
            rest = &rest[count..];
        }
        if let Some(help) = self.0.problem.help() {
            group = group.element(Level::HELP.message(printable(&help).into_owned()));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }

    fn line_of_text(&self) -> String {
        let problem = &self.0.problem;
        match self.0.places.first() {
            Some((place, _)) if place.document.is_file => {
                format!("{}:{}:{}: {problem}", place.document.name, place.line(), place.column())
            }
            Some((place, _)) => format!("`{}`: {problem}", place.document.text),
            None => problem.to_string(),
        }
    }
}

/// The span, inside the text and with something to underline even at its end.
fn span(place: &Place) -> Range<usize> {
    let length = place.document.text.len();
    let start = place.span.start.min(length);
    start..place.span.end.clamp(start, length)
}
