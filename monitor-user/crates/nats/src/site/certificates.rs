//! Certificates of the servers and the nodes, and of the authority that signs them.
//!
//! In: the hosts of the servers, the names of nodes that serve files. Out: `ca/ca.crt` with its
//! key, and for each a key with a certificate; or, if the authority is another one, a request that
//! it has to sign.
//! A certificate that is removed is made again, for the key that is there.

use super::address::ServerAddress;
use super::error::SiteError;
use super::folder::{PUBLIC, SECRET, SiteFolder};
use super::plan::Site;
use super::users::{SiteUsers, node_folder};
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
/// How the names of the key and the certificate of a node begin.
pub const NODE: &str = "node";
/// How long the authority is valid: ten years.
const CA_DAYS: i64 = 3652;
/// How long a certificate of a server or a node is valid: two years.
const SIGNED_DAYS: i64 = 730;
/// Clocks of other hosts may be behind by this.
const CLOCK_DAYS: i64 = 1;

/// The keys and certificates of a site.
pub struct Certificates {
    /// Absent if another authority signs.
    authority: Option<Authority>,
    to_sign: Vec<PathBuf>,
}

impl Certificates {
    /// With the authority of the folder, or another one, whose certificate this is.
    pub fn open(
        site: &Site,
        ca: Option<&Path>,
        folder: &mut SiteFolder,
    ) -> Result<Self, SiteError> {
        let authority = match site.has_own_ca {
            true => None,
            false => Some(Authority::open(site, folder)?),
        };
        if let Some(ca) = ca {
            write_own_ca(ca, folder)?;
        }
        Ok(Self { authority, to_sign: Vec::new() })
    }

    /// Writes those of the servers that do not exist.
    pub fn write_servers(&mut self, site: &Site, folder: &mut SiteFolder) -> Result<(), SiteError> {
        for (server, name) in site.all_servers() {
            let params = params_of(vec![server.host.clone()], &common_name(site, server))?;
            self.write((&Path::new("servers").join(name), "server"), params, folder)?;
        }
        Ok(())
    }

    /// Writes those of the nodes that do not exist, where nodes serve files.
    pub fn write_nodes(
        &mut self,
        site: &Site,
        users: &SiteUsers,
        folder: &mut SiteFolder,
    ) -> Result<(), SiteError> {
        let Some(files) = site.files else { return Ok(()) };
        for user in &users.nodes {
            let mut names = vec![user.name.clone()];
            if !files.ip().is_unspecified() {
                // Other nodes reach it by this address.
                names.push(files.ip().to_string());
            }
            let params = params_of(names, &format!("{} of cluster {}", user.name, site.name))?;
            self.write((&node_folder(&user.name), NODE), params, folder)?;
        }
        Ok(())
    }

    /// Requests that wait for a signature.
    pub fn into_to_sign(self) -> Vec<PathBuf> {
        self.to_sign
    }

    /// Writes key and certificate, or a request for one, unless they exist.
    fn write(
        &mut self,
        (place, name): (&Path, &str),
        mut params: CertificateParams,
        folder: &mut SiteFolder,
    ) -> Result<(), SiteError> {
        let key = key_pair(folder, &place.join(format!("{name}.key")))?;
        let certificate = place.join(format!("{name}.crt"));
        match &self.authority {
            _ if folder.has(&certificate) => {}
            Some(authority) => {
                set_validity(&mut params, SIGNED_DAYS);
                params.use_authority_key_identifier_extension = true;
                let signed = params.signed_by(&key, &authority.issuer);
                let signed = signed.map_err(failed("certificate"))?;
                folder.write_new(&certificate, PUBLIC, &signed.pem())?;
            }
            None => {
                let request = params.serialize_request(&key).map_err(failed("request"))?;
                let text = request.pem().map_err(failed("request"))?;
                let file = place.join(format!("{name}.csr"));
                folder.write_new(&file, PUBLIC, &text)?;
                self.to_sign.push(file);
            }
        }
        Ok(())
    }
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

fn params_of(names: Vec<String>, common_name: &str) -> Result<CertificateParams, SiteError> {
    let mut params = CertificateParams::new(names).map_err(failed("certificate"))?;
    params.distinguished_name = named(common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Each is a client of the others.
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
