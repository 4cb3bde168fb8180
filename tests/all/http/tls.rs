//! Requests over TLS, with an authority of the operator's own.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::server::{Server, ok};
use super::{failed, fetched, granted, probe, result};

/// A file beside this one: an authority, and a key with a certificate of it for `localhost` and for
/// 127.0.0.1.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/all/http/tls")
        .join(name)
}

pub(crate) fn server() -> Server {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let layer = move |stream: TcpStream| {
        StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream)
    };
    Server::over("127.0.0.1:0", layer, |_, wire| {
        wire.write_all(&ok("in private"))
    })
}

#[test]
fn an_authority_of_the_operators_own_is_trusted_and_no_other() {
    let server = server();
    let port = server.address.port();
    let localhost = format!("https://localhost:{port}/");
    let address = format!("https://127.0.0.1:{port}/");
    let grants = [&localhost, &address].map(|url| format!("net:{url}#GET"));
    let grants: Vec<&str> = grants.iter().map(String::as_str).collect();
    let http = "[http]\naddresses_allowed = [\"127.0.0.0/8\"]\n";
    let ca_file = format!("{http}ca_file = {:?}", file("ca.pem"));
    let home = granted(&grants, &ca_file);
    for url in [&localhost, &address] {
        assert_eq!(fetched(&home, url).0["text"], "in private");
    }
    let home = granted(&grants, http);
    let (message, run_id) = failed(&home, &json!({ "verb": "http", "url": address }));
    assert!(
        message.contains("TlsCertificateError") || message.contains("TlsProtocolError"),
        "{message}"
    );
    let reason = result(&home, &run_id)["error"].clone();
    assert!(reason.as_str().unwrap().starts_with("TLS-"), "{reason}");
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_server_without_tls_is_none_with_it() {
    let server = Server::answering(ok(""));
    let url = format!("https://{}/", server.address);
    let ca_file = format!("[http]\nca_file = {:?}", file("ca.pem"));
    let home = granted(&[&format!("net:{url}#GET")], &ca_file);
    let (message, run_id) = failed(
        &home,
        &json!({ "verb": "http", "url": url, "connect_ms": 2000 }),
    );
    assert!(
        message.contains("TlsProtocolError") || message.contains("ConnectionTimeout"),
        "{message}"
    );
    assert!(result(&home, &run_id)["error"].is_string());
}

#[test]
fn a_file_without_certificates_is_refused() {
    for (file, says) in [
        (file("server-key.pem"), "expected certificates in PEM form"),
        (file("absent.pem"), "cannot read"),
    ] {
        let home = granted(&[], &format!("[http]\nca_file = {file:?}"));
        let (document, exit) = probe(&home, &json!({ "verb": "noop" }));
        assert_eq!(exit, 2, "{document}");
        let error = document["error"].as_str().unwrap();
        assert!(error.contains(says) && error.contains(".pem"), "{error}");
    }
}
