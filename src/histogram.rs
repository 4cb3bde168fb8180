//! How long things took, counted: a histogram with fixed bounds that many threads add to at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// The upper bounds of the buckets, in microseconds. What takes longer than the last is counted beyond it.
pub const BOUNDS_MICROS: [u64; 16] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
    3_600_000_000,
];

/// Counts durations. An addition costs two atomic steps.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One for each bound.
    buckets: [AtomicU64; BOUNDS_MICROS.len()],
    beyond: AtomicU64,
    sum_micros: AtomicU64,
}

/// What was counted until a moment. Additions that happen meanwhile may be in part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Durations up to each of [`BOUNDS_MICROS`] and above the bound before it.
    pub buckets: [u64; BOUNDS_MICROS.len()],
    /// Durations above the last bound.
    pub beyond: u64,
    /// All durations summed, in microseconds.
    pub sum_micros: u64,
}

impl Histogram {
    /// Adds one duration.
    pub fn add(&self, micros: u64) {
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        let bucket = self.buckets.get(bucket).unwrap_or(&self.beyond);
        bucket.fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What was counted until now.
    pub fn counted(&self) -> Counted {
        let mut buckets = [0; BOUNDS_MICROS.len()];
        for (count, bucket) in buckets.iter_mut().zip(&self.buckets) {
            *count = bucket.load(Ordering::Relaxed);
        }
        Counted {
            buckets,
            beyond: self.beyond.load(Ordering::Relaxed),
            sum_micros: self.sum_micros.load(Ordering::Relaxed),
        }
    }
}

impl Counted {
    /// How many durations there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum::<u64>() + self.beyond
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS_MICROS, Histogram};

    #[test]
    fn a_duration_is_in_the_first_bucket_that_is_large_enough() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 3_600_000_000, 3_600_000_001] {
            histogram.add(micros);
        }
        let counted = histogram.counted();
        assert_eq!(counted.buckets[..2], [2, 1]);
        assert_eq!(counted.buckets[BOUNDS_MICROS.len() - 1], 1);
        assert_eq!((counted.beyond, counted.count()), (1, 5));
        assert_eq!(counted.sum_micros, 7_200_000_202);
    }
}
