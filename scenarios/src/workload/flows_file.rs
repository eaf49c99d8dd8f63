//! A CSV file of explicit flows: `src,dst,bytes,start_us`, in issue order.

use zipwire_schedule::{Flow, Rank};

use super::starts::{FlowError, Starts, check};
use super::table_file::{Cell, TableFile};
use crate::error::Result;
use crate::files::Files;
use crate::language::{BYTES_LIMIT, Field};
use crate::problem::Problem;

const COLUMNS: [&str; 4] = ["src", "dst", "bytes", "start_us"];
const HEADER: &str = "src,dst,bytes,start_us";
/// A row, for messages: 1 MiB from rank 0 to rank 1, at once.
const EXAMPLE: &str = "0,1,1048576,0";
/// Latest start: as late as the longest time that a scenario can name.
const START_LIMIT_US: f64 = 1e12;

pub(super) fn read(field: &Field<'_>, files: &Files, ranks: u32, starts: &mut Starts) -> Result<Vec<Flow>> {
    let file = TableFile::read(field, files)?;
    let bad_header = |found| Problem::BadHeader { expected: HEADER, example: EXAMPLE, found };
    let mut rows = file.rows();
    let Some(header) = rows.next() else {
        return Err(field.error(bad_header(String::new())));
    };
    let names: Vec<&str> = (0..header.len()).map(|index| header.cell(index).text).collect();
    if names != COLUMNS {
        return Err(header.error(bad_header(names.join(","))));
    }
    if rows.len() == 0 {
        return Err(field.error(Problem::NoRows { path: files.path(field.string()?), example: EXAMPLE }));
    }
    let mut flows = Vec::with_capacity(rows.len());
    for row in rows {
        row.need_length(COLUMNS.len())?;
        let [src, dst, bytes, start] = [0, 1, 2, 3].map(|index| row.cell(index));
        let rank = |cell: &Cell<'_>, column| {
            let rank = cell.integer(column, 0..=u64::from(ranks - 1))?;
            Ok(Rank(u32::try_from(rank).expect("ranks are u32")))
        };
        let flow = Flow {
            src: rank(&src, COLUMNS[0])?,
            dst: rank(&dst, COLUMNS[1])?,
            bytes: bytes.integer(COLUMNS[2], 1..=BYTES_LIMIT)?,
            not_before_s: start.number(COLUMNS[3], 0.0..=START_LIMIT_US)? / 1e6,
        };
        check(&flow, starts).map_err(|error| match error {
            FlowError::Pair(problem) => dst.error(problem),
            FlowError::Start(problem) => start.error(problem),
        })?;
        flows.push(flow);
    }
    Ok(flows)
}
