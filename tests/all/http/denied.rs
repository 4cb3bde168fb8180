//! What the policy does not allow: refused to the guest, on record with the rule, and never sent.

use serde_json::json;

use super::server::{Server, ok};
use super::{failed, fetched, granted, payloads, probe, run_id};

/// Case C13: everything that is not what was granted, however it is spelled.
#[test]
fn c13_what_is_not_granted_is_denied_with_the_rule_named() {
    let server = Server::answering(ok("hello"));
    let home = granted(&[&server.net("/v1#GET")], "");
    let port = server.address.port();
    let (output, _) = fetched(&home, &server.url("/v1/%78?q=1"));
    assert_eq!(output["text"], "hello");
    let attempts = [
        (server.url("/v1/../x"), "path: expected no . or .. part"),
        (server.url("/v1/%2e%2e/x"), "path: expected no . or .. part"),
        (server.url("/v1/%2E./x"), "path: expected no . or .. part"),
        (server.url("/v1%2f..%2fx"), "path: expected no escaped /"),
        (
            server.url("/v1/%252e%252e/x"),
            "path: expected no escape of an escape",
        ),
        (server.url("/v1//x"), "path: expected no empty part"),
        (server.url("/v10"), "path: not within net:http://127.0.0.1"),
        (server.url("/"), "path: not within"),
        ("http://127.0.0.1/v1".to_owned(), "port: not within"),
        (
            format!("http://127.0.0.1:{}/v1", port ^ 1),
            "port: not within",
        ),
        (format!("https://127.0.0.1:{port}/v1"), "scheme: not within"),
        (
            format!("ftp://127.0.0.1:{port}/v1"),
            "scheme: expected http or https",
        ),
        (format!("http://127.0.0.2:{port}/v1"), "host: not within"),
        (
            format!("http://[::ffff:127.0.0.1]:{port}/v1"),
            "host: not within",
        ),
        (format!("http://localhost:{port}/v1"), "host: not within"),
        (
            format!("http://a@127.0.0.1:{port}/v1"),
            "host: expected no user",
        ),
    ];
    let urls: Vec<&String> = attempts.iter().map(|(url, _)| url).collect();
    let (document, exit) = probe(&home, &json!({ "verb": "http_each", "urls": urls }));
    assert_eq!(exit, 0, "{document}");
    let denied = payloads(&home, &run_id(&document), "denied");
    assert_eq!(denied.len(), attempts.len());
    for (index, (url, rule)) in attempts.iter().enumerate() {
        let event = &denied[index];
        let error = document["output"][index]["error"].as_str().unwrap();
        assert!(error.contains("HttpRequestDenied"), "{url}: {error}");
        assert!(
            event["rule"].as_str().unwrap().starts_with(rule),
            "{url}: {event}"
        );
        assert!(
            event["wanted"].as_str().unwrap().starts_with("GET "),
            "{event}"
        );
        // What cannot be read in one way is allowed by no capability, and none is named.
        let capability = event["capability"].as_str().unwrap();
        let is_readable = rule.contains("not within");
        assert_eq!(capability.starts_with("net:"), is_readable, "{event}");
        assert!(capability.starts_with("net"), "{event}");
    }
    assert_eq!(payloads(&home, &run_id(&document), "http_call").len(), 0);
    let seen: Vec<String> = server.seen().into_iter().map(|seen| seen.line).collect();
    assert_eq!(seen, ["GET /v1/x?q=1 HTTP/1.1"]);
}

/// Case C13: a spelling of a granted address is that address, and what is sent is what was checked.
#[test]
fn c13_an_odd_spelling_is_sent_in_the_plain_one() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#GET")], "");
    let port = server.address.port();
    fetched(&home, &format!("http://0x7f.1:{port}/%7ea"));
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /~a HTTP/1.1");
    assert_eq!(seen[0].header("host"), Some(&*server.address.to_string()));
}

/// Case C13: the host follows no redirect; a guest that does makes a request of its own.
#[test]
fn c13_a_redirect_is_a_new_request_and_checked_anew() {
    let metadata = "http://169.254.169.254/latest/meta-data/";
    let server = Server::answering(format!(
        "HTTP/1.1 302 Found\r\nLocation: {metadata}\r\nContent-Length: 0\r\n\r\n"
    ));
    let home = granted(&[&server.net("/#GET")], "");
    let urls = [server.url("/go"), metadata.to_owned()];
    let (document, _) = probe(&home, &json!({ "verb": "http_each", "urls": urls }));
    let output = &document["output"];
    assert_eq!(output[0]["status"], 302, "{output}");
    assert!(
        output[0]["headers"].to_string().contains(metadata),
        "{output}"
    );
    assert!(
        output[1]["error"]
            .as_str()
            .unwrap()
            .contains("HttpRequestDenied")
    );
    let denied = payloads(&home, &run_id(&document), "denied");
    assert_eq!(denied.len(), 1);
    assert_eq!(
        denied[0]["capability"],
        "net:http://169.254.169.254/latest/meta-data/#GET"
    );
    assert!(denied[0]["rule"].as_str().unwrap().starts_with("host: "));
    assert_eq!(server.seen().len(), 1);
}

/// Case C13: a granted name that resolves to loopback, which the operator can allow.
#[test]
fn c13_a_name_that_resolves_to_loopback_is_denied_unless_allowed() {
    let server = Server::answering(ok("here"));
    let port = server.address.port();
    let capability = format!("net:http://localhost:{port}/v1#GET");
    let url = format!("http://localhost:{port}/v1");
    let home = granted(&[&capability], "");
    let (document, exit) = probe(&home, &json!({ "verb": "http", "url": url }));
    assert_eq!(
        (exit, &document["code"]),
        (3, &json!("denied")),
        "{document}"
    );
    assert!(
        document["error"]
            .as_str()
            .unwrap()
            .contains("DestinationIpProhibited")
    );
    let denied = payloads(&home, &run_id(&document), "denied");
    let rule = denied[0]["rule"].as_str().unwrap();
    assert!(
        rule.starts_with("address: localhost resolves to "),
        "{rule}"
    );
    assert!(rule.contains("which is loopback"), "{rule}");
    assert_eq!(denied[0]["capability"], capability);
    assert_eq!(denied[0]["wanted"], format!("GET {url}"));
    assert_eq!(server.seen().len(), 0);

    let allowed = "[http]\naddresses_allowed = [\"127.0.0.0/8\"]";
    let home = granted(&[&capability], allowed);
    assert_eq!(fetched(&home, &url).0["text"], "here");
    assert_eq!(
        server.seen()[0].header("host"),
        Some(&*format!("localhost:{port}"))
    );
}

/// Case C14: a skill with one granted host neither reaches nor looks up another.
#[test]
fn c14_another_name_is_neither_reached_nor_looked_up() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#GET")], "");
    let other = json!({ "verb": "http", "url": "http://other.example/" });
    let (document, exit) = probe(&home, &other);
    assert_eq!(
        (exit, &document["code"]),
        (3, &json!("denied")),
        "{document}"
    );
    let denied = payloads(&home, &run_id(&document), "denied");
    assert_eq!(denied[0]["capability"], "net:http://other.example/#GET");
    assert!(denied[0]["rule"].as_str().unwrap().starts_with("host: "));
    for name in ["localhost", "other.example"] {
        let (document, exit) = probe(&home, &json!({ "verb": "look_up", "name": name }));
        assert_eq!(exit, 0);
        assert!(document["output"]["error"].is_string(), "{document}");
    }
}

#[test]
fn methods_are_compared_too_and_some_are_never_sent() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#GET,POST")], "");
    for (method, rule) in [
        ("PUT", "method: not within"),
        ("CONNECT", "method: expected GET"),
        ("TRACE", "method: expected GET"),
        ("PROPFIND", "method: expected GET"),
        ("get", "method: expected GET"),
    ] {
        let verb = json!({ "verb": "http", "url": server.url("/"), "method": method });
        let (document, exit) = probe(&home, &verb);
        assert_eq!(exit, 3, "{method}: {document}");
        let denied = payloads(&home, &run_id(&document), "denied");
        assert!(
            denied[0]["rule"].as_str().unwrap().starts_with(rule),
            "{denied:?}"
        );
    }
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn a_grant_that_was_not_asked_for_is_told_from_none() {
    let server = Server::answering(ok(""));
    let home = granted(&["approval"], "");
    let verb = json!({ "verb": "http", "url": server.url("/") });
    let (document, _) = probe(&home, &verb);
    let denied = payloads(&home, &run_id(&document), "denied");
    assert_eq!(denied[0]["rule"], "not granted");
    let grant = json!([server.net("/#GET")]);
    home.configure(&format!("[skills.probe]\ngrant = {grant}"));
    let (document, _) = probe(&home, &verb);
    let denied = payloads(&home, &run_id(&document), "denied");
    assert_eq!(
        denied[0]["rule"],
        "granted, and not requested in skill.toml"
    );
}

/// Fields that say where a request goes, or how long it is, are the host's.
#[test]
fn a_guest_sets_no_field_of_the_host() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#GET")], "");
    for name in [
        "Host",
        "Connection",
        "Transfer-Encoding",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Expect",
    ] {
        let headers = [(name, "x")];
        let verb = json!({ "verb": "http", "url": server.url("/"), "headers": headers });
        let (error, _) = failed(&home, &verb);
        assert!(error.contains("not for guests"), "{name}: {error}");
    }
    let verb =
        json!({ "verb": "http", "url": server.url("/"), "headers": [["Content-Length", "5"]] });
    assert!(failed(&home, &verb).0.contains("HttpRequestBodySize"));
    assert_eq!(server.seen().len(), 0);
}
