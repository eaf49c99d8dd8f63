//! How long it takes to open a model file and to read a part of one tensor, into memory that is there: `random_access FILE TENSOR ROWS [TURNS]`.

use std::path::Path;
use std::time::Instant;

use zipwire_models::file::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, name, rows, turns @ ..] = &args[..] else {
        return Err("usage: random_access FILE TENSOR ROWS [TURNS]".into());
    };
    let turns = turns.first().map_or(Ok(9), |turns| turns.parse())?;
    let begin = Instant::now();
    let model = Model::open(Path::new(file))?;
    println!("open: {:.2} ms", 1e3 * begin.elapsed().as_secs_f64());
    let tensor = model.tensor(name)?;
    let row = tensor.bytes() / tensor.shape[0] as u64;
    let len = row * rows.parse::<u64>()?;
    let mut out = vec![1; usize::try_from(len.min(tensor.bytes()))?];
    let mut times = Vec::new();
    for turn in 0..turns {
        // Another place each time, as far as there is one.
        let start = (tensor.bytes() - out.len() as u64) / row * turn / turns * row;
        let begin = Instant::now();
        model.read_into(name, start, &mut out)?;
        times.push(1e3 * begin.elapsed().as_secs_f64());
    }
    let first = times[0];
    times.sort_by(f64::total_cmp);
    println!(
        "{:.1} MiB of `{name}`: first {first:.2} ms, middle {:.2} ms, {:.2} GB/s",
        out.len() as f64 / f64::from(1 << 20),
        times[times.len() / 2],
        out.len() as f64 / 1e6 / times[times.len() / 2]
    );
    Ok(())
}
