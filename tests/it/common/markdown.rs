//! Blocks of code in Markdown, and where pages are. Also for tests beside the command line's grammar.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::Path;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A block of code.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Language, and what is behind it: `sh needs=mpi`.
    pub(crate) info: String,
    /// Line of the page that opens it, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.split([' ', ',']).next().unwrap_or_default()
    }

    /// Needs for it to run, besides the folder of a [`Place`].
    pub(crate) fn needs(&self) -> Option<&str> {
        self.info.split(' ').find_map(|word| word.strip_prefix("needs="))
    }
}

/// All blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { info: info.to_owned(), line: index + 1, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block has no end");
    blocks
}

/// Pages of `docs/`, relative to the root, in order.
pub(crate) fn docs() -> Vec<String> {
    let (mut pages, mut folders) = (Vec::new(), vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    pages.sort();
    pages
}

pub(crate) fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}
