//! How much a text of JSON would take to hold, before it is parsed.

/// How many values a text of JSON has at most: each has a comma, a bracket or a brace before it.
pub(crate) fn json_values(line: &[u8]) -> usize {
    let mut count = 0_usize;
    let mut bytes = line.iter();
    let mut is_text = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => {
                bytes.next();
            }
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::json_values;

    #[test]
    fn what_stands_in_a_text_is_no_value() {
        assert_eq!(json_values(br#"{"a,[{\",":[1,2,{"b":"\\"}]}"#), 5);
        assert_eq!(json_values(br#""\""#), 0);
    }
}
