//! From bytes of a client to a message, or to what it is told of bytes that are none.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::call::json_values;

/// Values in one message. Protects the host's memory, where a value of two bytes takes a hundred.
const VALUES_MAX: usize = 500_000;

/// Bytes that are no message.
#[derive(Debug)]
pub(super) struct Refused {
    /// Of the request that they seem to be.
    id: Option<RequestId>,
    error: ErrorData,
}

impl Refused {
    /// Refuses bytes that nobody looked at.
    pub(super) fn unread(message: String) -> Self {
        Self {
            id: None,
            error: ErrorData::invalid_request(message, None),
        }
    }

    /// What the client is answered.
    pub(super) fn answer(self) -> TxJsonRpcMessage<RoleServer> {
        TxJsonRpcMessage::<RoleServer>::error(self.error, self.id)
    }
}

/// What a request has that is to be answered, whatever else is wrong with it. An answer of the client has an id too,
/// which is one of ours.
#[derive(Deserialize)]
struct Addressed {
    id: RequestId,
    #[serde(rename = "method")]
    _method: IgnoredAny,
}

/// The message that some bytes are.
///
/// # Errors
/// They are none.
pub(super) fn parse(bytes: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Refused> {
    if json_values(bytes) > VALUES_MAX {
        return Err(Refused::unread(format!(
            "the message has too many values: expected at most {VALUES_MAX}"
        )));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        match serde_json::from_slice::<IgnoredAny>(bytes) {
            Err(error) => {
                let message = format!("the message is no JSON: {error}");
                let error = ErrorData::new(ErrorCode::PARSE_ERROR, message, None);
                Refused { id: None, error }
            }
            Ok(_) => {
                let message = format!("the message is none of MCP: {error}");
                let addressed = serde_json::from_slice::<Addressed>(bytes).ok();
                Refused {
                    id: addressed.map(|addressed| addressed.id),
                    error: ErrorData::invalid_request(message, None),
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{VALUES_MAX, parse};

    fn refused(message: &str) -> Value {
        let refused = parse(message.as_bytes()).unwrap_err();
        serde_json::to_value(refused.answer()).unwrap()
    }

    #[test]
    fn what_is_no_message_is_told_from_what_is_no_json() {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert!(parse(request.as_bytes()).is_ok());
        for message in ["{", "nonsense", "{\"jsonrpc\":\"2.0\",}", "\u{1}", ""] {
            assert_eq!(refused(message)["error"]["code"], -32700, "{message}");
        }
        let nested = refused(&"[".repeat(10_000));
        assert_eq!(nested["error"]["code"], -32700);
        for message in ["[]", "1", "{}", r#"{"jsonrpc":"2.0","id":1}"#] {
            assert_eq!(refused(message)["error"]["code"], -32600, "{message}");
        }
        let many = format!("[0{}]", ",0".repeat(VALUES_MAX + 1));
        assert_eq!(refused(&many)["error"]["code"], -32600);
    }

    #[test]
    fn a_request_that_is_none_is_answered_under_its_id() {
        for (message, id) in [
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, json!(7)),
            (r#"{"id":"a","method":"ping"}"#, json!("a")),
            (r#"{"jsonrpc":"1.0","id":{},"method":"ping"}"#, Value::Null),
            (r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, Value::Null),
            (r#"{"jsonrpc":"1.0","method":"ping"}"#, Value::Null),
        ] {
            assert_eq!(refused(message)["id"], id, "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _any = parse(&bytes);
        }
    }
}
