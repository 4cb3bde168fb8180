//! The one spelling of a request's path.

use super::TargetError;

/// The path with every escape taken back that was not needed, and every other spelled in one way.
pub(super) fn normalised_path(given: &str) -> Result<String, TargetError> {
    if given.is_empty() {
        return Ok("/".to_owned());
    }
    let mut path = String::with_capacity(given.len());
    let mut rest = given.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            push_plain(&mut path, *byte)?;
            continue;
        }
        let (Some(byte), after) = escaped(after) else {
            return Err(TargetError::Path("two hexadecimal digits after a %"));
        };
        rest = after;
        push_escaped(&mut path, byte)?;
    }
    check_escapes(&path)?;
    check_parts(&path)?;
    Ok(path)
}

/// The byte that the two digits at the start of `bytes` stand for, and what follows them.
fn escaped(bytes: &[u8]) -> (Option<u8>, &[u8]) {
    let digit = |byte: &u8| {
        let digit = char::from(*byte).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    match bytes {
        [high, low, after @ ..] => {
            let byte = digit(high).zip(digit(low)).map(|(h, l)| h * 16 + l);
            (byte, after)
        }
        _ => (None, bytes),
    }
}

fn push_plain(path: &mut String, byte: u8) -> Result<(), TargetError> {
    match byte {
        // Some servers take it for a `/`.
        b'\\' => Err(TargetError::Path("no backslash")),
        _ if !byte.is_ascii_graphic() => Err(TargetError::Path("printable ASCII")),
        _ if is_path_byte(byte) => {
            path.push(char::from(byte));
            Ok(())
        }
        _ => {
            push_percent(path, byte);
            Ok(())
        }
    }
}

fn push_escaped(path: &mut String, byte: u8) -> Result<(), TargetError> {
    let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    match byte {
        b'/' | b'\\' => return Err(TargetError::Path("no escaped / or backslash")),
        _ if byte.is_ascii_control() => {
            return Err(TargetError::Path("no escaped control character"));
        }
        _ if is_unreserved => path.push(char::from(byte)),
        _ => push_percent(path, byte),
    }
    Ok(())
}

fn push_percent(path: &mut String, byte: u8) {
    path.push_str(&format!("%{byte:02X}"));
}

/// Whether a byte stands in a path as it is (RFC 3986).
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

/// Refuses an escaped `%` that another escape begins with, since some servers undo escapes twice. It is
/// looked for in what will be sent: an escape that is taken back can become a digit of another.
fn check_escapes(path: &str) -> Result<(), TargetError> {
    let escape = "%25";
    let mut found = path.match_indices(escape);
    let begins_another = |(index, _): (usize, &str)| {
        let after = path.as_bytes().get(index + escape.len()..);
        after.is_some_and(|after| escaped(after).0.is_some())
    };
    if found.any(begins_another) {
        return Err(TargetError::Path("no escape of an escape"));
    }
    Ok(())
}

/// Refuses parts that lead elsewhere. What follows a `;` in a part is an annotation to some servers, so
/// that `..;x` is `..` to them.
fn check_parts(path: &str) -> Result<(), TargetError> {
    let below_root = path
        .strip_prefix('/')
        .ok_or(TargetError::Path("a / at its beginning"))?;
    let mut parts = below_root.split('/').peekable();
    while let Some(part) = parts.next() {
        let name = part.split(';').next().unwrap_or(part);
        let name = name.split("%3B").next().unwrap_or(name);
        if matches!(name, "." | "..") {
            return Err(TargetError::Path("no . or .. part"));
        }
        if name.is_empty() && (parts.peek().is_some() || !part.is_empty()) {
            return Err(TargetError::Path("no empty part"));
        }
    }
    Ok(())
}
