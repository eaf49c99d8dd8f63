//! Problems with a table that frames are to share.

use zipwire_codec::TableError;
use zipwire_traces::TableFileError;

use crate::document::Place;
use crate::error::ScenarioError;
use crate::problem::Problem;

/// Why a codec has no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableProblem {
    /// The file holds none.
    #[error(transparent)]
    File(TableFileError),
    /// It is none of the codec, or not the one that the codec names.
    #[error(transparent)]
    Codec(TableError),
    /// The codec names one, and no file is given.
    #[error("codec `{codec}` names a table, and no file has it")]
    Nowhere { codec: String },
    /// It is for values of another type than the workload's.
    #[error("the table of codec `{codec}` is for {of_table} values, and the workload sends {dtype}")]
    Type { codec: String, of_table: &'static str, dtype: &'static str },
}

impl TableProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::File(error) => error.help(),
            Self::Codec(TableError::NoTables { .. }) => {
                Some("leave `table` out, or take the codec `codebook16` or `rans`".to_owned())
            }
            Self::Codec(TableError::Other { .. }) => {
                Some("leave the table out of `id`: the file says which it is".to_owned())
            }
            Self::Codec(_) => Some("name a table of the codec".to_owned()),
            Self::Nowhere { .. } => Some("name the file of the table, `table = \"FILE.json\"`".to_owned()),
            Self::Type { dtype, .. } => Some(format!(
                "train one from samples of that type, `zipwire calibrate table --dtype {dtype}`, or leave `table` out"
            )),
        }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        Problem::Table(self).at(place)
    }
}
