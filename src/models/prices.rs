//! What an answer costs.

use std::collections::BTreeMap;

use crate::call::Usage;
use crate::capability::tool_matches;
use crate::config::ModelPrices;

/// Tokens for which a price is given.
const TOKENS_PER_PRICE: f64 = 1_000_000.0;

/// What an answer took, before it has a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tokens {
    /// Of the request, those from a cache included.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

impl Tokens {
    /// Tokens with what they cost; 0, where there is no price.
    #[expect(
        clippy::cast_precision_loss,
        reason = "no answer has so many tokens that it would be noticed"
    )]
    pub(super) fn priced(self, prices: Option<&ModelPrices>) -> Usage {
        let cost = |tokens: u64, price: f64| tokens as f64 * price / TOKENS_PER_PRICE;
        let cached = self.cache_read.saturating_add(self.cache_write);
        let cost_usd = prices.map_or(0.0, |prices| {
            let cache_read = prices.cache_read.unwrap_or(prices.input);
            let cache_write = prices.cache_write.unwrap_or(prices.input);
            cost(self.input.saturating_sub(cached), prices.input)
                + cost(self.cache_read, cache_read)
                + cost(self.cache_write, cache_write)
                + cost(self.output, prices.output)
        });
        Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            cost_usd,
        }
    }
}

/// The price of a model: that of its own name, else that of the longest pattern that its name fits.
pub(super) fn of<'p>(
    prices: &'p BTreeMap<String, ModelPrices>,
    model: &str,
) -> Option<&'p ModelPrices> {
    let fitting = prices
        .iter()
        .filter(|(pattern, _)| tool_matches(pattern, model));
    let narrowest = fitting.max_by_key(|(pattern, _)| (pattern.as_str() == model, pattern.len()));
    narrowest.map(|(_, prices)| prices)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Tokens, of};
    use crate::config::ModelPrices;

    fn prices(input: f64, cache_read: Option<f64>) -> ModelPrices {
        ModelPrices {
            input,
            output: 10.0,
            cache_read,
            cache_write: None,
        }
    }

    #[test]
    fn the_narrowest_name_counts() {
        let prices = BTreeMap::from(
            [("*", 1.0), ("gpt-*", 2.0), ("gpt-5*", 3.0), ("gpt-5", 4.0)]
                .map(|(name, input)| (name.to_owned(), prices(input, None))),
        );
        for (model, input) in [
            ("o3", 1.0),
            ("gpt-4", 2.0),
            ("gpt-5-mini", 3.0),
            ("gpt-5", 4.0),
        ] {
            assert_eq!(of(&prices, model).map(|found| found.input), Some(input));
        }
        assert_eq!(of(&BTreeMap::new(), "o3"), None);
    }

    #[test]
    fn tokens_from_a_cache_have_their_own_price() {
        let tokens = Tokens {
            input: 3_000_000,
            output: 500_000,
            cache_read: 1_000_000,
            cache_write: 1_000_000,
        };
        let cost = |prices: &ModelPrices| tokens.priced(Some(prices)).cost_usd;
        assert!((cost(&prices(2.0, Some(0.5))) - (2.0 + 0.5 + 2.0 + 5.0)).abs() < 1e-9);
        assert!((cost(&prices(2.0, None)) - (6.0 + 5.0)).abs() < 1e-9);
        assert!(tokens.priced(None).cost_usd.abs() < f64::EPSILON);
        let hostile = Tokens {
            cache_read: u64::MAX,
            cache_write: u64::MAX,
            ..Tokens::default()
        };
        assert!(
            hostile
                .priced(Some(&prices(2.0, None)))
                .cost_usd
                .is_finite()
        );
    }
}
