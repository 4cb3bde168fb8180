//! Text of somebody else's, made safe for a terminal.

/// Characters of a value on one line.
const VALUE_CHARS_MAX: usize = 240;
/// Columns that a character takes at most.
const COLUMNS_PER_CHAR_MAX: usize = 2;

/// A value on one line, cut after 240 characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == VALUE_CHARS_MAX {
            shown.push('…');
            break;
        }
        push(&mut shown, character);
    }
    shown
}

/// A message that goes after a label such as `error: `. It is whole, and its lines after the first are
/// indented, so that none of them looks like a line of ours.
pub(crate) fn message(label: &str, text: &str) -> String {
    let mut message = label.to_owned();
    for (index, line) in text.trim_end().lines().enumerate() {
        if index > 0 {
            message.push('\n');
            message.extend(label.chars().map(|_| ' '));
        }
        line.chars()
            .for_each(|character| push(&mut message, character));
    }
    message
}

/// Text of any number of lines, which keeps its line breaks and tabs.
pub(crate) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            _ => push(&mut shown, character),
        }
    }
    shown
}

/// Lines of at most `width` columns. What continues one is indented by `indent` columns, so that nothing
/// of a stranger's begins where a line of ours does, however it was padded.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let width = width.max(indent.saturating_add(COLUMNS_PER_CHAR_MAX));
    let mut wrapped = String::with_capacity(text.len());
    let mut column = 0;
    for character in text.chars() {
        // More than most take: a line that ends early is as safe as one that is full.
        let columns = if character.is_ascii() {
            1
        } else {
            COLUMNS_PER_CHAR_MAX
        };
        if character == '\n' {
            column = 0;
        } else if column + columns > width {
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            column = indent + columns;
        } else {
            column += columns;
        }
        wrapped.push(character);
    }
    wrapped
}

/// JSON text, the same value in a spelling that is safe: what has to be spelled out can only stand
/// inside of a JSON string.
pub(crate) fn json(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            json.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            json.push(character);
        }
    }
    json
}

/// Whether it is a control character, or one that hides or changes the direction of writing.
fn is_unsafe(character: char) -> bool {
    let hidden = matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    character.is_control() || hidden
}

fn push(shown: &mut String, character: char) {
    if is_unsafe(character) {
        shown.extend(character.escape_unicode());
    } else {
        shown.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::{json, message, shown, text, wrapped};

    #[test]
    fn nothing_of_a_guest_reaches_the_terminal_as_a_command() {
        let hostile = "a\u{1b}[2J\nhint: b\u{202e}";
        assert_eq!(shown(hostile), "a\\u{1b}[2J\\u{a}hint: b\\u{202e}");
        assert_eq!(
            message("error: ", hostile),
            "error: a\\u{1b}[2J\n       hint: b\\u{202e}"
        );
    }

    #[test]
    fn text_keeps_its_lines_and_nothing_else_that_moves() {
        let hostile = "a\tb\nc\r\u{1b}[2J\u{202e}é";
        assert_eq!(text(hostile), "a\tb\nc\\u{d}\\u{1b}[2J\\u{202e}é");
    }

    #[test]
    fn json_stays_the_same_value() {
        let text = "{\"a\":\"\u{9b}2J\u{202e}é\"}";
        let safe = json(text);
        assert_eq!(safe, "{\"a\":\"\\u009b2J\\u202eé\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&safe), value(text));
    }

    #[test]
    fn a_value_is_cut_and_a_message_is_not() {
        let long = "x".repeat(500);
        assert_eq!(shown(&long).chars().count(), 241);
        assert_eq!(message("", &long), long);
    }

    #[test]
    fn what_continues_a_line_never_begins_where_a_line_of_ours_does() {
        assert_eq!(wrapped("abcdef", 6, 2), "abcdef");
        assert_eq!(wrapped("abcdefgh\nij", 6, 2), "abcdef\n  gh\nij");
        assert_eq!(wrapped("abcdefghijk", 4, 2), "abcd\n  ef\n  gh\n  ij\n  k");
        assert_eq!(wrapped("éééé", 6, 2), "ééé\n  é");
        assert_eq!(wrapped("abc", 0, 1), "abc");
        assert_eq!(wrapped("abcdef", usize::MAX, 2), "abcdef");
    }
}
