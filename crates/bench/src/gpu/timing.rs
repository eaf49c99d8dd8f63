//! Seconds of a device, by its own clock.

use std::time::{Duration, Instant};

use zipwire_kernels::{Device, Event, GpuError, Stream};

/// Rounds that are measured, after those that are not; the median counts.
const ROUNDS: usize = 5;
/// Launches of a round at most: where they are so short, the queue is full before.
const MOST_LAUNCHES: usize = 2000;
/// Launches that are timed alone; the median counts.
const ALONE: usize = 21;

/// Times what is launched on a stream.
pub(super) struct Timer<'a> {
    stream: &'a Stream,
    begin: Event,
    end: Event,
    /// Seconds that a round takes at least.
    shortest_s: f64,
    /// Seconds of launches in front of the first round: an idle GPU takes tens of milliseconds to reach its clock.
    warm_up_s: f64,
}

impl<'a> Timer<'a> {
    pub(super) fn new(
        device: &Device,
        stream: &'a Stream,
        shortest_s: f64,
        warm_up_s: f64,
    ) -> Result<Self, GpuError> {
        Ok(Self { stream, begin: Event::new(device)?, end: Event::new(device)?, shortest_s, warm_up_s })
    }

    /// Seconds of the device from one launch to the next, if one follows the other. `launch` gets a running number.
    pub(super) fn seconds_per_launch(
        &self,
        launch: &dyn Fn(usize) -> Result<(), GpuError>,
    ) -> Result<f64, GpuError> {
        let mut next = 0;
        let mut round = |launches: usize| {
            self.stream.record(&self.begin)?;
            for _ in 0..launches {
                launch(next)?;
                next += 1;
            }
            self.stream.record(&self.end)?;
            self.end.wait()?;
            self.end.seconds_since(&self.begin).map(|seconds| seconds / launches as f64)
        };
        // The first launches are slow, and those behind them say how many there are in a round.
        round(2)?;
        let begin = Instant::now();
        let launches = loop {
            let guess_s = round(4)?.max(1e-7);
            let left_s = self.warm_up_s - begin.elapsed().as_secs_f64();
            let of = |seconds: f64| ((seconds / guess_s) as usize).clamp(1, MOST_LAUNCHES);
            if left_s <= 0.0 {
                break of(self.shortest_s);
            }
            round(of(left_s))?;
        };
        let rounds = (0..ROUNDS).map(|_| round(launches)).collect::<Result<Vec<f64>, _>>()?;
        Ok(median(rounds))
    }

    /// Seconds of the device for a launch on an idle stream, to whose end the host waits: no launch hides the start of another one.
    pub(super) fn seconds_alone(
        &self,
        launch: &dyn Fn(usize) -> Result<(), GpuError>,
    ) -> Result<f64, GpuError> {
        let alone = |number: usize| {
            self.stream.record(&self.begin)?;
            launch(number)?;
            self.stream.record(&self.end)?;
            self.end.wait()?;
            self.end.seconds_since(&self.begin)
        };
        let begin = Instant::now();
        let mut seconds = Vec::with_capacity(ALONE);
        // Where a launch takes long, one says enough.
        while seconds.len() < ALONE && (seconds.is_empty() || begin.elapsed() < Duration::from_millis(50)) {
            seconds.push(alone(seconds.len())?);
        }
        Ok(median(seconds))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
