//! Requests and pools in the output of `zipwire scenario check`, before anything runs.

use serde::Serialize;
use zipwire::scenarios::Serving;

use crate::table;

/// Requests and pools of a scenario of serving.
#[derive(Serialize)]
pub(super) struct ServingReport {
    requests: usize,
    /// Seconds from the first arrival to the last.
    arrivals_s: f64,
    /// Means of all requests.
    input_tokens: f64,
    output_tokens: f64,
    /// Bytes that a token's cache has when it moves, all shards together.
    token_bytes: u64,
    /// Seconds of computing a prompt, mean of all requests, none of it cached.
    prefill_s: f64,
    /// Seconds of computing all prompts over those that prefill instances have from the first arrival to the last: above 1 they cannot keep up, unless earlier
    /// prompts help. `None` if all arrive at once.
    prefill_load: Option<f64>,
    /// Tokens whose caches an instance of each pool has room for.
    prefill_kv_tokens: u64,
    decode_kv_tokens: u64,
}

impl ServingReport {
    pub(super) fn of(serving: &Serving) -> Self {
        let (list, config) = (serving.requests.list(), &serving.config);
        let count = list.len() as f64;
        let seconds = |input: u32| {
            let chunks = (0..input).step_by(config.chunk_tokens as usize);
            let of = |begin: u32| {
                let end = input.min(begin.saturating_add(config.chunk_tokens));
                serving.compute.prefill.seconds(&(begin..end))
            };
            chunks.map(of).sum::<f64>()
        };
        let all_s: f64 = list.iter().map(|request| seconds(request.input_tokens)).sum();
        let first_s = list.first().map_or(0.0, |request| request.arrival_s);
        let arrivals_s = serving.requests.last_arrival_s() - first_s;
        let mean = |of: fn(&zipwire::serving::Request) -> u32| {
            list.iter().map(|request| f64::from(of(request))).sum::<f64>() / count
        };
        let instances = f64::from(config.prefill.instances);
        Self {
            requests: list.len(),
            arrivals_s,
            input_tokens: mean(|request| request.input_tokens),
            output_tokens: mean(|request| request.output_tokens),
            token_bytes: serving.shards.bytes(1, serving.shards.layers()),
            prefill_s: all_s / count,
            prefill_load: (arrivals_s > 0.0).then(|| all_s / (instances * arrivals_s)),
            prefill_kv_tokens: config.prefill.kv_tokens,
            decode_kv_tokens: config.decode.kv_tokens,
        }
    }

    pub(super) fn text(&self) -> String {
        let cache = table::bytes(self.token_bytes as f64 * self.input_tokens);
        let load = self.prefill_load.map_or_else(String::new, |load| {
            let too_much =
                if load > 1.0 { ", more than they can compute unless earlier prompts help" } else { "" };
            format!("prefill instances are asked for {:.0} % of their time{too_much}\n", 100.0 * load)
        });
        format!(
            "{} requests in {}: prompts of {:.0} tokens and answers of {:.0}, in the mean\n\
             a prompt takes {} to compute, and its cache, {} a token, has {cache}\n\
             {load}room for caches of {} tokens on each prefill instance and {} on each decode instance\n",
            self.requests,
            table::seconds(self.arrivals_s),
            self.input_tokens,
            self.output_tokens,
            table::seconds(self.prefill_s),
            table::bytes(self.token_bytes as f64),
            self.prefill_kv_tokens,
            self.decode_kv_tokens
        )
    }
}
