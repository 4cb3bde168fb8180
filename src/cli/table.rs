//! Columns for a person.

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
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut header.iter().copied())];
    lines.extend(
        rows.iter()
            .map(|row| line(&mut row.iter().map(String::as_str))),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_line_up_by_characters() {
        let rows = [
            vec!["é".to_owned(), "1".to_owned()],
            vec!["abc".to_owned(), "22".to_owned()],
        ];
        assert_eq!(table(&["A", "N"], &rows), ["A    N", "é    1", "abc  22"]);
    }
}
