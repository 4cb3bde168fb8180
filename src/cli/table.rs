//! Columns for a person.

use std::borrow::Cow;

/// Lays rows out in columns as wide as their widest cell; the last column is left as it is.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(title.chars().count())
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, &width) in cells.zip(&widths) {
            line.push_str(cell);
            // A cell can be as long as its author likes, which is longer than a format can pad to.
            let padding = width.saturating_sub(cell.chars().count()) + 2;
            line.extend(std::iter::repeat_n(' ', padding));
        }
        line.truncate(line.trim_end().len());
        line
    };
    let mut lines = vec![line(&mut header.iter().copied())];
    lines.extend(
        rows.iter()
            .map(|row| line(&mut row.iter().map(String::as_str))),
    );
    lines
}

/// A line of at most `width` characters; that something was cut off shows at its end.
pub(crate) fn fitted(line: &str, width: usize) -> Cow<'_, str> {
    match line.char_indices().nth(width) {
        None => line.into(),
        Some(_) => {
            let kept = line.chars().take(width.saturating_sub(1));
            kept.chain(['…']).collect::<String>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fitted, table};

    #[test]
    fn a_line_ends_where_the_terminal_does() {
        for (width, expected) in [(5, "äbcde"), (4, "äbc…"), (1, "…"), (usize::MAX, "äbcde")]
        {
            assert_eq!(fitted("äbcde", width), expected);
        }
    }

    #[test]
    fn columns_line_up_by_characters() {
        let rows = [
            vec!["é".to_owned(), "1".to_owned()],
            vec!["abc".to_owned(), "22".to_owned()],
        ];
        assert_eq!(table(&["A", "N"], &rows), ["A    N", "é    1", "abc  22"]);
        let long = "x".repeat(70_000);
        let lines = table(&["A", "N"], &[vec!["a".to_owned(), long.clone()]]);
        assert_eq!(lines[1], format!("a  {long}"));
    }
}
