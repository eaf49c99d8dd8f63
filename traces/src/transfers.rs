//! `transfers.csv`: when each transfer of an explicit list of flows started and finished.

use std::io::{self, Write};

use serde::Serialize;

/// One transfer: a row of the file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransferRow {
    /// Sending rank.
    pub src: u32,
    /// Receiving rank.
    pub dst: u32,
    /// Bytes sent.
    pub bytes: u64,
    /// Start of the latency or, if it is coded, of its coding, in seconds.
    pub start_s: f64,
    /// Arrival of the last byte or, if it is coded, end of its decoding, in seconds.
    pub finish_s: f64,
}

/// Writes `rows` in the order given, under the header `src,dst,bytes,start_s,finish_s`. Times are the shortest text
/// that reads back as the same number, so that files compare bit by bit.
///
/// # Errors
/// If `out` fails.
pub fn write_transfers(rows: impl IntoIterator<Item = TransferRow>, out: impl Write) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    // By hand, so that a file without transfers has a header too.
    writer.write_record(["src", "dst", "bytes", "start_s", "finish_s"])?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(src: u32, start_s: f64, finish_s: f64) -> TransferRow {
        TransferRow { src, dst: src + 1, bytes: 1 << 40, start_s, finish_s }
    }

    fn written(rows: &[TransferRow]) -> String {
        let mut out = Vec::new();
        write_transfers(rows.iter().copied(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_in_the_order_given() {
        insta::assert_snapshot!(written(&[row(3, 0.0, 1.5), row(0, 1e-7, 0.1 + 0.2)]), @r#"
        src,dst,bytes,start_s,finish_s
        3,4,1099511627776,0.0,1.5
        0,1,1099511627776,1e-7,0.30000000000000004
        "#);
    }

    #[test]
    fn times_read_back_bit_by_bit() {
        let times = [0.1 + 0.2, 1.0 / 3.0, 5e-324, 1e-9, 123_456_789.000_000_01, f64::EPSILON];
        let text = written(&times.map(|time| row(0, time, time * 3.0)));
        let read: Vec<f64> =
            text.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect();
        assert_eq!(read, times);
    }

    #[test]
    fn no_transfers_is_a_header() {
        assert_eq!(written(&[]), "src,dst,bytes,start_s,finish_s\n");
    }
}
