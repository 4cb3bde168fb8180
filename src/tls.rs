//! How servers that somebody names are told from others, for every client in this crate.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Trusts the authorities of the system, and those certificates in DER form beside them. It reads files.
/// The provider of cryptography is this configuration's own, and none of the process is set or asked for.
///
/// # Errors
/// A certificate is none, or the system has none.
pub(crate) fn trusting(extra: &[Vec<u8>]) -> Result<ClientConfig, rustls::Error> {
    let extra = extra.iter().cloned().map(CertificateDer::from);
    let verifier = Verifier::new_with_extra_roots(extra, provider())?;
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// Trusts nobody, for a client that wants to have a configuration and asks for no certificate.
///
/// # Errors
/// The provider of cryptography has no protocol version in common with TLS.
pub(crate) fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
