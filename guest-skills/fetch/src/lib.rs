//! Reads what is at an address: the smallest skill that makes a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillrun_sdk::http::Request;
use skillrun_sdk::{SkillError, skill};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(extend("format" = "uri"))]
    url: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Output {
    status: u16,
    text: String,
}

#[skill]
fn fetch(input: Input) -> Result<Output, SkillError> {
    let response = Request::get(&input.url).send()?;
    Ok(Output {
        status: response.status,
        text: response.text(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillrun_sdk::http::{Error, ErrorCode, Response};
    use skillrun_sdk::mock::Mock;

    use super::Fetch;

    #[test]
    fn it_gives_what_is_there() {
        let mock = Mock::new().http(|_request| {
            Ok(Response {
                status: 200,
                body: b"hello".to_vec(),
                ..Response::default()
            })
        });
        let record = mock.run_skill::<Fetch>(&json!({ "url": "https://example.com/a" }));
        assert_eq!(record.result, Ok(json!({ "status": 200, "text": "hello" })));
        assert_eq!(record.http_requests()[0].url, "https://example.com/a");
    }

    #[test]
    fn a_refused_request_ends_it_as_denied() {
        let mock = Mock::new().http(|_request| Err(Error::Failed(ErrorCode::HttpRequestDenied)));
        let record = mock.run_skill::<Fetch>(&json!({ "url": "https://example.com/" }));
        assert_eq!(record.error_code(), Some("denied"));
    }
}
