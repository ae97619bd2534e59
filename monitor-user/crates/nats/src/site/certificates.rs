//! Certificates of the servers, and of the authority that signs them.
//!
//! In: the hosts of the servers. Out: `ca/ca.crt` with its key, and for each server a key with a
//! certificate for its host; or, if the authority is another one, a request that it has to sign.
//! A certificate that is removed is made again, for the key that is there.

use super::address::ServerAddress;
use super::error::SiteError;
use super::folder::{PUBLIC, SECRET, SiteFolder};
use super::plan::Site;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// The certificate of the authority.
pub const CA: &str = "ca/ca.crt";
/// Its key.
const CA_KEY: &str = "ca/ca.key";
/// How long the authority is valid: ten years.
const CA_DAYS: i64 = 3652;
/// How long a certificate of a server is valid: two years.
const SERVER_DAYS: i64 = 730;
/// Clocks of other hosts may be behind by this.
const CLOCK_DAYS: i64 = 1;

/// Writes the keys and certificates that do not exist, and lists requests that wait for a
/// signature.
pub fn write_all(
    site: &Site,
    ca: Option<&Path>,
    folder: &mut SiteFolder,
) -> Result<Vec<PathBuf>, SiteError> {
    let authority = match site.has_own_ca {
        true => None,
        false => Some(Authority::open(site, folder)?),
    };
    if let Some(ca) = ca {
        write_own_ca(ca, folder)?;
    }
    let mut to_sign = Vec::new();
    for (server, name) in site.all_servers() {
        let place = Path::new("servers").join(name);
        let key = key_pair(folder, &place.join("server.key"))?;
        let mut params = server_params(site, server)?;
        let certificate = place.join("server.crt");
        match &authority {
            _ if folder.has(&certificate) => {}
            Some(authority) => {
                set_validity(&mut params, SERVER_DAYS);
                params.use_authority_key_identifier_extension = true;
                let signed = params.signed_by(&key, &authority.issuer);
                let signed = signed.map_err(failed("certificate of a server"))?;
                folder.write_new(&certificate, PUBLIC, &signed.pem())?;
            }
            None => {
                let request = params.serialize_request(&key).map_err(failed("request"))?;
                let text = request.pem().map_err(failed("request"))?;
                let file = place.join("server.csr");
                folder.write_new(&file, PUBLIC, &text)?;
                to_sign.push(file);
            }
        }
    }
    Ok(to_sign)
}

/// Copies the certificate of another authority into the folder.
fn write_own_ca(given: &Path, folder: &mut SiteFolder) -> Result<(), SiteError> {
    let text = std::fs::read_to_string(given).map_err(|source| SiteError::File {
        act: "read",
        path: given.to_owned(),
        source,
    })?;
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        let why = "expected certificates in PEM form".to_owned();
        return Err(SiteError::Content { path: given.to_owned(), why });
    }
    folder.write_new(Path::new(CA), PUBLIC, &text)
}

/// What signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority of the folder, or a new one.
    fn open(site: &Site, folder: &mut SiteFolder) -> Result<Self, SiteError> {
        let (certificate, key_file) = (Path::new(CA), Path::new(CA_KEY));
        let is_known = folder.has(certificate);
        if is_known && !folder.has(key_file) {
            let why = "the key of the authority is not here: certificates cannot be signed";
            return Err(SiteError::Content { path: folder.path(key_file), why: why.to_owned() });
        }
        let key = key_pair(folder, key_file)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&format!("cluster {} authority", site.name));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        if !is_known {
            set_validity(&mut params, CA_DAYS);
            let signed =
                params.self_signed(&key).map_err(failed("certificate of the authority"))?;
            folder.write_new(certificate, PUBLIC, &signed.pem())?;
        }
        Ok(Self { issuer: Issuer::new(params, key) })
    }
}

/// The common name of the certificate of a server, by which that of a rack is known.
pub fn common_name(site: &Site, server: &ServerAddress) -> String {
    format!("{} of cluster {}", server.host, site.name)
}

fn server_params(site: &Site, server: &ServerAddress) -> Result<CertificateParams, SiteError> {
    let params = CertificateParams::new(vec![server.host.clone()]);
    let mut params = params.map_err(failed("certificate of a server"))?;
    params.distinguished_name = named(&common_name(site, server));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A server is a client of the others.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::days(CLOCK_DAYS);
    params.not_after = now + Duration::days(days);
}

/// The key of a file, or a new one.
fn key_pair(folder: &mut SiteFolder, file: &Path) -> Result<KeyPair, SiteError> {
    if let Some(text) = folder.read(file)? {
        let path = folder.path(file);
        let malformed = |why: rcgen::Error| SiteError::Content { path, why: why.to_string() };
        return KeyPair::from_pem(&text).map_err(malformed);
    }
    let key = KeyPair::generate().map_err(failed("key"))?;
    folder.write_new(file, SECRET, &key.serialize_pem())?;
    Ok(key)
}

fn failed(what: &'static str) -> impl FnOnce(rcgen::Error) -> SiteError {
    move |why| SiteError::Key(what, why.to_string())
}
