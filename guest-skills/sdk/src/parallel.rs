//! Several calls at once: each with its own result, or none after the first failure.

use serde_json::json;

use crate::{HostError, SkillError};

/// Calls at a time where the skill does not say how many; the host's default.
const PARALLEL_DEFAULT: usize = 4;

/// Makes the calls whose arguments could be encoded, and puts the results in the order of all calls. A
/// call whose arguments could not is not made, and has that as its result.
pub(crate) fn in_order<'a, T>(
    calls: impl Iterator<Item = (&'a String, &'a Result<String, HostError>)>,
    make: impl FnOnce(Vec<(String, String)>) -> Vec<Result<T, HostError>>,
) -> Vec<Result<T, HostError>> {
    let mut encoded = Vec::new();
    let mut refused = Vec::new();
    for (name, arguments) in calls {
        match arguments {
            Ok(arguments) => {
                encoded.push((name.clone(), arguments.clone()));
                refused.push(None);
            }
            Err(error) => refused.push(Some(error.clone())),
        }
    }
    let mut made = make(encoded).into_iter();
    let missing = || Err(HostError::Failed("the host gave no result".to_owned()));
    let results = refused.into_iter().map(|refused| match refused {
        Some(error) => Err(error),
        None => made.next().unwrap_or_else(missing),
    });
    results.collect()
}

/// Makes calls in batches as large as may be under way at once, and no batch after one with a failure.
pub(crate) fn until_failure<C, T>(
    calls: &[C],
    parallel_max: u32,
    make: impl Fn(&[C]) -> Vec<Result<T, SkillError>>,
) -> Result<Vec<T>, SkillError> {
    let batch_len = match usize::try_from(parallel_max) {
        Ok(0) | Err(_) => PARALLEL_DEFAULT,
        Ok(parallel_max) => parallel_max,
    };
    let mut done = Vec::new();
    for batch in calls.chunks(batch_len) {
        for result in make(batch) {
            let index = done.len();
            done.push(result.map_err(|error| error.with_details(json!({ "call": index })))?);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::{in_order, until_failure};
    use crate::{HostError, SkillError};

    #[test]
    fn what_cannot_be_encoded_is_not_called_and_keeps_its_place() {
        let bad = || Err(HostError::Invalid("bad".to_owned()));
        let calls = [
            ("a".to_owned(), Ok("1".to_owned())),
            ("b".to_owned(), bad()),
            ("c".to_owned(), Ok("3".to_owned())),
        ];
        let results = in_order(calls.iter().map(|(name, text)| (name, text)), |encoded| {
            assert_eq!(encoded.len(), 2);
            vec![Ok("first")]
        });
        let lost = Err(HostError::Failed("the host gave no result".to_owned()));
        assert_eq!(results, [Ok("first"), bad().map(|_: String| ""), lost]);
    }

    #[test]
    fn no_batch_begins_after_a_failure() {
        let begun = RefCell::new(Vec::new());
        let result = until_failure(&[1, 2, -3, -4, 5], 2, |batch| {
            begun.borrow_mut().extend_from_slice(batch);
            let check = |n: &i32| match *n {
                n if n < 0 => Err(SkillError::new(n.to_string())),
                n => Ok(n),
            };
            batch.iter().map(check).collect()
        });
        let error = SkillError::new("-3").with_details(json!({ "call": 2 }));
        assert_eq!(result, Err(error));
        assert_eq!(begun.into_inner(), [1, 2, -3, -4]);
        assert_eq!(
            until_failure(&[1, 2, 3], 0, |batch| batch
                .iter()
                .map(|n| Ok(*n))
                .collect()),
            Ok(vec![1, 2, 3])
        );
    }
}
