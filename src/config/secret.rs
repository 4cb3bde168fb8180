//! The values of `[secrets]`, which the host puts into outgoing requests and shows to nobody.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};

use super::SecretSource;
use crate::capability::{Capability, NetRule, Target};

/// Bytes of a secret at least. A shorter one would be found in what is no secret, and taken out of
/// every ledger.
pub const SECRET_BYTES_MIN: usize = 6;
/// Bytes of a secret at most; servers take no larger header fields.
const SECRET_BYTES_MAX: u64 = 8 * 1024;

/// One secret with its value. What it prints, and shows when debugged, is its name.
#[derive(Clone)]
pub struct Secret {
    name: String,
    place: NetRule,
    header: HeaderName,
    prefix: String,
    value: Box<str>,
    field: HeaderValue,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

/// Whether a header field in a record may be one that a secret was put into.
pub(crate) fn is_shown_secret(value: &str) -> bool {
    value.ends_with(']') && value.contains("[secret:")
}

impl Secret {
    /// Reads the value of a secret. A relative file lies in `home`.
    ///
    /// # Errors
    /// It is not there, or no header field can have it.
    pub fn read(home: &Path, name: &str, source: &SecretSource) -> Result<Self, SecretError> {
        let value = read_value(home, source.file.as_ref(), source.env.as_ref())?;
        let place = format!("net:{}#GET", source.url).parse();
        let (Ok(Capability::Net(place)), Ok(header), Ok(mut field)) = (
            place,
            HeaderName::from_bytes(source.header.as_bytes()),
            HeaderValue::try_from(format!("{}{value}", source.prefix)),
        ) else {
            return Err(SecretError::Malformed);
        };
        field.set_sensitive(true);
        Ok(Self {
            name: name.to_owned(),
            place,
            header,
            prefix: source.prefix.clone(),
            value: value.into(),
            field,
        })
    }

    /// The name in `secret:NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value itself, for whoever keeps it out of records.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The header field that it is put into.
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// What is put there.
    pub fn field(&self) -> &HeaderValue {
        &self.field
    }

    /// What a record shows in place of [`Secret::field`].
    pub fn shown(&self) -> String {
        format!("{}[secret:{}]", self.prefix, self.name)
    }

    /// Whether a request is one of those that get it.
    pub fn is_for(&self, target: &Target) -> bool {
        self.place.covers(target)
    }

    /// How narrow the place is that it is for: of two secrets for one field, the narrower counts.
    pub fn narrowness(&self) -> usize {
        self.place.path_prefix.len()
    }
}

/// A value that a header field can have, from a file or from a variable. A relative file lies in `home`.
pub(super) fn read_value(
    home: &Path,
    file: Option<&PathBuf>,
    variable: Option<&String>,
) -> Result<String, SecretError> {
    let value = match (file, variable) {
        (Some(file), _) => read_file(&home.join(file))?,
        (None, Some(variable)) => std::env::var(variable).map_err(|_| SecretError::NotSet {
            variable: variable.clone(),
        })?,
        (None, None) => return Err(SecretError::Malformed),
    };
    let bytes_max = usize::try_from(SECRET_BYTES_MAX).unwrap_or(usize::MAX);
    if !(SECRET_BYTES_MIN..=bytes_max).contains(&value.len()) {
        return Err(SecretError::Length { bytes: value.len() });
    }
    let is_printable = |byte| byte == b' ' || u8::is_ascii_graphic(&byte);
    if !value.bytes().all(is_printable) || value.trim() != value {
        return Err(SecretError::NotPrintable);
    }
    Ok(value)
}

fn read_file(path: &Path) -> Result<String, SecretError> {
    let unreadable = |source| SecretError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = super::open_regular(path).map_err(unreadable)?;
    // Two bytes more than a value has, for a line end.
    file.take(SECRET_BYTES_MAX + 3)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Why a secret has no value. No message holds any of it.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable that should hold it.
    #[error("variable {variable} is not set, or is no text")]
    NotSet {
        /// Its name.
        variable: String,
    },
    /// The file that should hold it.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It is too short to be told from other text, or too long.
    #[error("value has {bytes} bytes: expected {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}")]
    Length {
        /// Its size.
        bytes: usize,
    },
    /// No header field can have it.
    #[error("value cannot stand in a header field: expected printable ASCII in one line")]
    NotPrintable,
    /// The section itself, which `config.toml` would not have been read with.
    #[error("section is malformed: expected file or env, url and header")]
    Malformed,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Secret, SecretError};
    use crate::capability::Target;
    use crate::config::SecretSource;

    fn source(file: &str) -> SecretSource {
        SecretSource {
            file: Some(file.into()),
            env: None,
            url: "https://a/v1".to_owned(),
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
        }
    }

    fn read(home: &Path, content: &[u8]) -> Result<Secret, SecretError> {
        std::fs::write(home.join("key"), content).unwrap();
        Secret::read(home, "KEY", &source("key"))
    }

    #[test]
    fn a_value_is_one_line_and_shown_nowhere() {
        let home = tempfile::tempdir().unwrap();
        for content in ["hunter2hunter2", "hunter2hunter2\n", "hunter2hunter2\r\n"] {
            let secret = read(home.path(), content.as_bytes()).unwrap();
            assert_eq!(secret.value(), "hunter2hunter2");
            assert_eq!(secret.field(), "Bearer hunter2hunter2");
            assert_eq!(secret.shown(), "Bearer [secret:KEY]");
            let debugged = format!("{secret:?} {:?}", secret.field());
            assert!(!debugged.contains("hunter2"), "{debugged}");
        }
        for content in [
            "",
            "\n",
            "short",
            "two\nlines\n",
            "tab\tbed",
            "ümlaut",
            " padded",
        ] {
            let refused = read(home.path(), content.as_bytes()).unwrap_err();
            assert!(
                matches!(
                    refused,
                    SecretError::Length { .. } | SecretError::NotPrintable
                ),
                "{content:?}: {refused}"
            );
        }
        assert!(read(home.path(), &[b'x'; 9000]).is_err());
        assert!(read(home.path(), b"\xff\xfe\xff\xfe\xff\xfe").is_err());
        let absent = Secret::read(home.path(), "KEY", &source("absent")).unwrap_err();
        assert!(absent.to_string().contains("absent"), "{absent}");
    }

    #[test]
    fn a_secret_is_for_every_method_below_its_place() {
        let home = tempfile::tempdir().unwrap();
        let secret = read(home.path(), b"hunter2").unwrap();
        for (method, scheme, host, path, is_for) in [
            ("GET", "https", "a", "/v1", true),
            ("POST", "https", "a", "/v1/x?y", true),
            ("GET", "https", "a", "/v10", false),
            ("GET", "http", "a", "/v1", false),
            ("GET", "https", "a:444", "/v1", false),
            ("GET", "https", "b", "/v1", false),
        ] {
            let target = Target::parse(method, scheme, host, path).unwrap();
            assert_eq!(secret.is_for(&target), is_for, "{target}");
        }
    }
}
