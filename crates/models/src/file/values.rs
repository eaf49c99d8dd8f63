//! Values of one type without a header: a container by itself.

use std::fs::File;
use std::path::{Path, PathBuf};

use zipwire_codec::ContainerIndex;

use crate::file::chunks::{Chunks, read_index};
use crate::file::note::PIECE;
use crate::file::output::Output;
use crate::file::{FileError, Watch, at, open_input};

/// What a container begins with.
const MAGIC: [u8; 4] = *b"ZPWS";

/// A file that is a container by itself, as [`compress_values`](crate::file::compress_values) and [`zipwire_codec::Writer`] write them.
#[derive(Debug)]
pub struct Values {
    path: PathBuf,
    file: File,
    index: ContainerIndex,
}

impl Values {
    /// Opens a file and reads its index; `None` if the file begins as no container does.
    ///
    /// # Errors
    /// If it cannot be read, or is a container that is cut or damaged.
    pub fn open(path: &Path) -> Result<Option<Self>, FileError> {
        let read = FileError::io("read", path);
        let file = open_input(path).map_err(&read)?;
        let len = file.metadata().map_err(&read)?.len();
        let mut magic = [0; MAGIC.len()];
        if len < magic.len() as u64 {
            return Ok(None);
        }
        at::read_exact(&file, &mut magic, 0).map_err(&read)?;
        if magic != MAGIC {
            return Ok(None);
        }
        let index = read_index(&file, path, "", (0, len))?;
        Ok(Some(Self { path: path.to_owned(), file, index }))
    }

    /// Bytes of the values, and of what is behind the last whole one.
    pub fn bytes(&self) -> u64 {
        self.index.len()
    }

    /// Writes what was compressed, byte for byte.
    ///
    /// # Errors
    /// If the file is damaged, there is an output already, the system refuses something, or `watch` says to stop. Then there is no new file.
    pub fn restore(&self, output: &Path, force: bool, watch: &Watch<'_>) -> Result<(), FileError> {
        let staged = Output::begin(output, force)?;
        let write = |bytes: &[u8], at: u64| {
            at::write_all(staged.file(), bytes, at).map_err(FileError::io("write", output))
        };
        self.decode(watch, write)?;
        write(self.index.tail(), self.bytes() - self.index.tail().len() as u64)?;
        staged.finish()
    }

    /// Decodes all of it; frames have checksums over their values.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn verify(&self, watch: &Watch<'_>) -> Result<(), FileError> {
        self.decode(watch, |_, _| Ok(()))
    }

    /// Gives all values, in pieces, and where each begins.
    fn decode(
        &self,
        watch: &Watch<'_>,
        take: impl Fn(&[u8], u64) -> Result<(), FileError> + Sync,
    ) -> Result<(), FileError> {
        let Self { path, file, index } = self;
        let chunks = Chunks { file, path, base: None, tensor: "", index, at: 0 };
        let chunks_of_piece = (PIECE as usize / chunks.chunk_len()).max(1);
        watch.for_each(index.chunk_count().div_ceil(chunks_of_piece), |number, values| {
            let first = number * chunks_of_piece;
            let last = (first + chunks_of_piece).min(index.chunk_count()) - 1;
            let range = index.data(first).start..index.data(last).end;
            values.resize((range.end - range.start) as usize, 0);
            chunks.decode(first, values)?;
            take(values, range.start)?;
            (watch.done)(values.len() as u64);
            Ok(())
        })
    }
}
