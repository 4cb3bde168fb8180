//! Lists, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::{ErrorData, PaginatedRequestParams};

/// For how long a client may take a list of what skills are for what there is, in milliseconds. It is told of changes
/// besides, if it wants to be.
pub(super) const LIST_TTL_MS: u64 = 5_000;
/// Bytes of a cursor that are looked at. Protects whoever decodes it; ours are shorter than any address.
const CURSOR_BYTES_MAX: usize = 8 * 1024;

/// Some entries of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<T> {
    /// The entries, in the order of their keys.
    pub(super) items: Vec<T>,
    /// What brings those behind them; none when there are none.
    pub(super) next_cursor: Option<String>,
}

/// The page of `list` that a request asks for. A cursor is the key of the last entry of a page, so that one stays of
/// use when entries come and go.
///
/// # Errors
/// The cursor is none of this list.
pub(super) fn page<T>(
    list: &str,
    items: impl IntoIterator<Item = (String, T)>,
    request: Option<&PaginatedRequestParams>,
    page_size: usize,
) -> Result<Page<T>, ErrorData> {
    let cursor = request.and_then(|request| request.cursor.as_deref());
    let after = match cursor {
        None => None,
        Some(cursor) => Some(key_of(list, cursor).ok_or_else(|| {
            ErrorData::invalid_params(format!("cursor: expected one that {list} gave"), None)
        })?),
    };
    let mut items: Vec<(String, T)> = items.into_iter().collect();
    items.sort_by(|a, b| a.0.cmp(&b.0));
    items.retain(|(key, _)| after.as_ref().is_none_or(|after| key > after));
    let has_more = items.len() > page_size;
    items.truncate(page_size);
    let last = items.last().filter(|_| has_more);
    let next_cursor = last.map(|(key, _)| cursor_of(list, key));
    Ok(Page {
        items: items.into_iter().map(|(_, item)| item).collect(),
        next_cursor,
    })
}

fn cursor_of(list: &str, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{key}"))
}

fn key_of(list: &str, cursor: &str) -> Option<String> {
    if cursor.len() > CURSOR_BYTES_MAX {
        return None;
    }
    let decoded = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (of, key) = decoded.split_once('\n')?;
    (of == list).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::PaginatedRequestParams;

    use super::{CURSOR_BYTES_MAX, cursor_of, key_of, page};

    fn at(cursor: Option<String>) -> Option<PaginatedRequestParams> {
        Some(PaginatedRequestParams::default().with_cursor(cursor))
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended_whatever_came_and_went() {
        let items = |keys: &str| -> Vec<(String, char)> {
            keys.chars().map(|key| (key.to_string(), key)).collect()
        };
        let first = page("tools/list", items("acbe"), None, 2).unwrap();
        assert_eq!(first.items, ['a', 'b']);
        let next = at(first.next_cursor);
        let second = page("tools/list", items("acde"), next.as_ref(), 2).unwrap();
        assert_eq!(second.items, ['c', 'd']);
        let next = at(second.next_cursor);
        let third = page("tools/list", items("e"), next.as_ref(), 2).unwrap();
        assert_eq!((third.items, third.next_cursor), (vec!['e'], None));
        let other = page("prompts/list", items("e"), next.as_ref(), 2).unwrap_err();
        assert_eq!(other.code.0, -32602);
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let long = cursor_of("l", &"k".repeat(CURSOR_BYTES_MAX));
        for bad in ["", "!", "bm8", "////", &long] {
            assert_eq!(key_of("l", bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_says_what_was_put_into_it(key in "\\PC{0,40}") {
            prop_assert_eq!(key_of("l", &cursor_of("l", &key)), Some(key));
        }

        #[test]
        fn any_text_is_a_cursor_or_none(text in "\\PC{0,60}") {
            let _key = key_of("l", &text);
        }
    }
}
