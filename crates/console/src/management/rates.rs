//! How fast counts grow: what was counted when somebody looked before is held against what is counted now. Nobody pays
//! for it but who looks; how much is remembered is bounded.

use std::collections::HashMap;
use std::time::Duration;

use model::Mono;

/// Rates are taken over so long a time at least.
const SAMPLE_TIME: Duration = Duration::from_secs(5);

/// What was looked at longer ago says nothing of now.
const SAMPLE_TIME_MAX: Duration = Duration::from_secs(60);

/// Things of which samples are kept.
const SAMPLES_MAX: usize = 20_000;

/// Counts of one thing.
const COUNTS_MAX: usize = 13;

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Mono,
    counts: [u64; COUNTS_MAX],
    rates: [f32; COUNTS_MAX],
}

/// What was counted when somebody looked.
#[derive(Debug, Default)]
pub struct Sampler {
    samples: HashMap<String, Sample>,
}

impl Sampler {
    /// How much each count grows a second; 0 for what was not looked at before. Of more than [`COUNTS_MAX`] counts the
    /// rest are 0.
    pub fn rates<const N: usize>(&mut self, name: &str, counts: [u64; N], now: Mono) -> [f64; N] {
        let mut padded = [0; COUNTS_MAX];
        padded.iter_mut().zip(counts).for_each(|(place, count)| *place = count);
        if let Some(sample) = self.samples.get_mut(name) {
            let passed = Duration::from_nanos(now.0.saturating_sub(sample.at.0));
            if passed >= SAMPLE_TIME {
                let is_stale = passed > SAMPLE_TIME_MAX;
                for (at, rate) in sample.rates.iter_mut().enumerate() {
                    let grown = padded[at].saturating_sub(sample.counts[at]);
                    *rate = if is_stale { 0.0 } else { grown as f32 / passed.as_secs_f32() };
                }
                (sample.at, sample.counts) = (now, padded);
            }
            let mut rates = [0.0; N];
            rates.iter_mut().zip(sample.rates).for_each(|(place, rate)| *place = f64::from(rate));
            return rates;
        }
        if self.samples.len() >= SAMPLES_MAX {
            let fresh = |sample: &Sample| now.0.saturating_sub(sample.at.0) <= SAMPLE_TIME_MAX.as_nanos() as u64;
            self.samples.retain(|_, sample| fresh(sample));
        }
        if self.samples.len() < SAMPLES_MAX {
            self.samples.insert(name.to_owned(), Sample { at: now, counts: padded, rates: [0.0; COUNTS_MAX] });
        }
        [0.0; N]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn a_rate_is_growth_since_somebody_looked() {
        let mut sampler = Sampler::default();
        assert_eq!(sampler.rates("q", [10, 0], at(1)), [0.0, 0.0]);
        assert_eq!(sampler.rates("q", [20, 0], at(2)), [0.0, 0.0], "too soon to say");
        assert_eq!(sampler.rates("q", [60, 5], at(6)), [10.0, 1.0]);
        assert_eq!(sampler.rates("q", [70, 5], at(8)), [10.0, 1.0], "kept until the next");
        assert_eq!(sampler.rates("q", [70, 5], at(300)), [0.0, 0.0], "long ago");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut sampler = Sampler::default();
        for name in 0..SAMPLES_MAX + 10 {
            sampler.rates(&name.to_string(), [1], at(1));
        }
        assert_eq!(sampler.samples.len(), SAMPLES_MAX);
        sampler.rates("late", [1], at(100));
        assert_eq!(sampler.samples.len(), 1);
    }
}
