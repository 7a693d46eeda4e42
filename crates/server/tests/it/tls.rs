//! TLS in front of a toy tongue: what a client sees, what a bad one cannot do, and new certificates without a restart.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::rig::Running;
use broker::OUTPUT_BYTES_MAX;
use console::counters::Counters;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::clock::wait_until;
use server::tls::{ClientAuth, Keeper, TlsError, TlsSettings};

const LONG: Duration = Duration::from_secs(20);

/// An authority and a folder for files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    /// What the server counts.
    counters: Arc<Counters>,
}

impl Authority {
    fn new() -> Authority {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("fourfold-tls-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, format!("authority {count}"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder, counters: Arc::default() }
    }

    /// A certificate of this name and its key, as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        self.issue_until(name, 2090)
    }

    fn issue_until(&self, name: &str, year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.serial_number = Some(serial_of(name));
        let issued = params.signed_by(&key, &self.issuer).unwrap();
        (issued.pem(), key.serialize_pem())
    }

    /// Writes a list of certificates taken back, by their names.
    fn revoke(&self, names: &[&str]) {
        let revoked = |name: &&str| RevokedCertParams {
            serial_number: serial_of(name),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: names.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        std::fs::write(self.folder.join("crl.pem"), list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
    }

    fn write(&self, (cert, key): &(String, String)) {
        for (name, text) in [("server.pem", cert), ("server.key", key)] {
            std::fs::write(self.folder.join(name), text).unwrap();
        }
    }

    fn settings(&self, client_auth: ClientAuth) -> TlsSettings {
        let file = |name| Some(self.folder.join(name));
        let client_ca = file("ca.pem").filter(|_| client_auth != ClientAuth::None);
        TlsSettings { cert: file("server.pem"), key: file("server.key"), client_ca, client_auth, ..Default::default() }
    }

    /// A server with a certificate of ours.
    fn serve(&self, client_auth: ClientAuth) -> (Running, Arc<Keeper>) {
        self.write(&self.issue("server"));
        let keeper = Keeper::open(self.settings(client_auth), Arc::clone(&self.counters)).unwrap();
        (Running::with(1 << 30, Some(Arc::clone(&keeper))), keeper)
    }

    /// A client that trusts us, with this certificate if any.
    fn client(&self, shows: Option<&(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        Arc::new(match shows {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

fn serial_of(name: &str) -> SerialNumber {
    SerialNumber::from_slice(name.as_bytes())
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn dial(server: &Running, config: &Arc<ClientConfig>) -> Stream {
    let tcp = TcpStream::connect(server.address).unwrap();
    tcp.set_read_timeout(Some(LONG)).unwrap();
    tcp.set_nodelay(true).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap(), tcp)
}

/// Sends a line and answers what comes back.
fn ask(stream: &mut Stream, line: &str) -> io::Result<String> {
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

/// The name in the certificate that the server showed.
fn shown(stream: &Stream) -> String {
    let chain = stream.conn.peer_certificates().unwrap();
    server::tls::certificate(&chain[0]).unwrap().common_names.join(",")
}

#[test]
fn requests_are_answered_through_tls() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let mut stream = dial(&server, &authority.client(None));
    assert_eq!(ask(&mut stream, "echo hello").unwrap(), "hello");
    assert_eq!(ask(&mut stream, "create a").unwrap(), "created a");
    assert_eq!(shown(&stream), "server");
}

#[test]
fn frames_larger_than_any_buffer_arrive_whole_both_ways() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let long = "x".repeat(5 << 20);
    for size in [1, 16 << 10, (16 << 10) + 1, 300_000] {
        let mut stream = dial(&server, &authority.client(None));
        assert!(ask(&mut stream, &format!("echo {}", &long[..size])).unwrap() == long[..size], "{size}");
    }
    let mut stream = dial(&server, &authority.client(None));
    assert!(ask(&mut stream, &format!("echo {long}")).unwrap() == long);
}

#[test]
fn a_goodbye_is_said_through_tls_too() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let mut stream = dial(&server, &authority.client(None));
    stream.write_all(b"echo last\nbye\n").unwrap();
    let mut rest = String::new();
    // Without close_notify this would be an error: the client could not know that it has everything.
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("last\n"), "{rest}");
}

#[test]
fn a_peer_that_has_said_its_goodbye_still_gets_its_answers() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let mut stream = dial(&server, &authority.client(None));
    stream.write_all(b"create a\necho b\n").unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "b\ncreated a\n");
    assert!(wait_until(LONG, || server.closed.load(Ordering::Relaxed) == 1));
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_buffer_and_hurts_nobody() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let mut deaf = dial(&server, &authority.client(None));
    deaf.write_all(b"flood\n").unwrap();
    assert!(wait_until(LONG, || server.queued_max.load(Ordering::Relaxed) > 0));
    let mut other = dial(&server, &authority.client(None));
    for number in 0..200 {
        assert_eq!(ask(&mut other, &format!("echo {number}")).unwrap(), number.to_string());
    }
    assert!(server.queued_max.load(Ordering::Relaxed) <= 2 * OUTPUT_BYTES_MAX);
}

#[test]
fn who_does_not_speak_tls_is_let_go_and_the_next_is_served() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let config = authority.client(None);
    for garbage in [b"AMQP\0\0\x09\x01".as_slice(), b"GET / HTTP/1.1\r\n\r\n", &[22, 3, 1, 0, 4, 9, 9, 9, 9], &[0; 64]]
    {
        let mut tcp = TcpStream::connect(server.address).unwrap();
        tcp.set_read_timeout(Some(LONG)).unwrap();
        tcp.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer); // an end or a reset, but no silence
        assert!(answer.len() <= 7, "at most an alert: {answer:?}");
        assert_eq!(ask(&mut dial(&server, &config), "echo on").unwrap(), "on");
    }
    let failed = || server.counters.read().next().unwrap().handshakes_failed;
    assert!(wait_until(LONG, || failed() == 4), "{}", failed());
}

#[test]
fn records_that_are_not_the_peers_own_end_only_that_connection() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let config = authority.client(None);
    // Sealed by nobody, of no known kind, longer than any record.
    for record in
        [[23, 3, 3, 0, 5, 1, 2, 3, 4, 5], [99, 3, 3, 0, 5, 1, 2, 3, 4, 5], [23, 3, 3, 255, 255, 1, 2, 3, 4, 5]]
    {
        let mut stream = dial(&server, &config);
        assert_eq!(ask(&mut stream, "echo in").unwrap(), "in");
        stream.sock.write_all(&record).unwrap();
        assert!(stream.read_to_end(&mut Vec::new()).is_err(), "an alert or an end, no clean goodbye");
        assert_eq!(ask(&mut dial(&server, &config), "echo on").unwrap(), "on");
    }
}

#[test]
fn tls_at_a_door_without_is_answered_with_an_alert() {
    let server = Running::start();
    let authority = Authority::new();
    let mut stream = dial(&server, &authority.client(None));
    let error = ask(&mut stream, "echo x").unwrap_err();
    assert!(error.to_string().contains("UnexpectedMessage"), "{error}");
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let authority = Authority::new();
    let (server, _) = authority.serve(ClientAuth::None);
    let started = Instant::now();
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut begun = TcpStream::connect(server.address).unwrap();
    begun.write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    // Records without end that belong to one message of a handshake.
    let mut flood = TcpStream::connect(server.address).unwrap();
    let record = [[22, 3, 1, 0x10, 0].as_slice(), &[1, 0, 0xff, 0xff], &[0; 0x1000 - 4]].concat();
    let more = [[22, 3, 1, 0x10, 0].as_slice(), &[0; 0x1000]].concat();
    let _ = flood.write_all(&[record, more.repeat(40)].concat()); // it may be closed meanwhile
    for stream in [&mut silent, &mut begun, &mut flood] {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(started.elapsed() < LONG, "it was never closed");
    }
    assert!(wait_until(LONG, || server.counters.read().next().unwrap().open == 0));
}

#[test]
fn a_client_certificate_is_asked_for_and_checked() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, _) = authority.serve(ClientAuth::Required);
    let ours = authority.issue("alice");
    assert_eq!(ask(&mut dial(&server, &authority.client(Some(&ours))), "echo in").unwrap(), "in");
    let (foreign, ended) = (stranger.issue("alice"), authority.issue_until("alice", 2021));
    for shows in [None, Some(&foreign), Some(&ended)] {
        assert!(ask(&mut dial(&server, &authority.client(shows)), "echo in").is_err());
    }
    let (server, _) = authority.serve(ClientAuth::Optional);
    assert_eq!(ask(&mut dial(&server, &authority.client(None)), "echo in").unwrap(), "in");
    assert_eq!(ask(&mut dial(&server, &authority.client(Some(&ours))), "echo in").unwrap(), "in");
    assert!(ask(&mut dial(&server, &authority.client(Some(&foreign))), "echo in").is_err());
}

#[test]
fn a_revoked_client_certificate_is_refused_and_a_new_list_is_taken() {
    let authority = Authority::new();
    authority.write(&authority.issue("server"));
    authority.revoke(&["mallory"]);
    let settings =
        TlsSettings { client_crl: Some(authority.folder.join("crl.pem")), ..authority.settings(ClientAuth::Required) };
    let keeper = Keeper::open(settings, Arc::clone(&authority.counters)).unwrap();
    let server = Running::with(1 << 30, Some(Arc::clone(&keeper)));
    let [alice, mallory] = ["alice", "mallory"].map(|name| authority.client(Some(&authority.issue(name))));
    let enters = |config: &Arc<ClientConfig>| ask(&mut dial(&server, config), "echo in").is_ok();
    assert!(enters(&alice) && !enters(&mallory));
    let mut before = dial(&server, &alice);
    assert_eq!(ask(&mut before, "echo in").unwrap(), "in");
    authority.revoke(&["mallory", "alice"]);
    keeper.look();
    assert!(!enters(&alice), "checked by the new list");
    assert_eq!(ask(&mut before, "echo on").unwrap(), "on", "who is in stays in");
    // A list that cannot be used changes nothing.
    std::fs::write(authority.folder.join("crl.pem"), "nothing").unwrap();
    keeper.look();
    assert!(!enters(&alice) && !enters(&mallory));
    authority.revoke(&[]);
    keeper.look();
    assert!(enters(&alice) && enters(&mallory));
}

#[test]
fn new_files_are_taken_for_new_connections_and_bad_ones_are_not() {
    let authority = Authority::new();
    let (server, keeper) = authority.serve(ClientAuth::None);
    let config = authority.client(None);
    let mut old = dial(&server, &config);
    assert_eq!(ask(&mut old, "echo 1").unwrap(), "1");
    authority.write(&authority.issue("renewed"));
    keeper.look();
    let mut new = dial(&server, &config);
    assert_eq!((ask(&mut new, "echo 2").unwrap().as_str(), shown(&new).as_str()), ("2", "renewed"));
    assert_eq!((ask(&mut old, "echo 3").unwrap().as_str(), shown(&old).as_str()), ("3", "server"));
    // The key of another certificate, a broken file, none at all.
    let (cert, _) = authority.issue("bad");
    for text in [Some(cert.as_str()), Some("nothing"), None] {
        match text {
            Some(text) => std::fs::write(authority.folder.join("server.pem"), text).unwrap(),
            None => std::fs::remove_file(authority.folder.join("server.pem")).unwrap(),
        }
        keeper.look();
        let mut new = dial(&server, &config);
        assert_eq!((ask(&mut new, "echo 4").unwrap().as_str(), shown(&new).as_str()), ("4", "renewed"));
    }
    let [ends, taken, refused] = authority.counters.read_certificate();
    assert_eq!((taken, refused), (1, 3));
    assert!(ends > 3_000_000_000, "2090: {ends}");
}

#[test]
fn what_cannot_be_used_is_refused_by_the_name_of_its_option() {
    let authority = Authority::new();
    authority.write(&authority.issue("server"));
    let good = authority.settings(ClientAuth::None);
    let (other, text) = (authority.folder.join("other.key"), authority.folder.join("text"));
    std::fs::write(&other, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    std::fs::write(&text, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n")
        .unwrap();
    let refused = |change: &dyn Fn(&mut TlsSettings)| -> TlsError {
        let mut settings = good.clone();
        change(&mut settings);
        Keeper::open(settings, Arc::default()).err().unwrap()
    };
    let cases: [(TlsError, &str); 8] = [
        (refused(&|s| s.cert = None), "--tls-cert"),
        (refused(&|s| s.key = None), "--tls-key"),
        (refused(&|s| s.key = Some("/nowhere".into())), "tls.key = /nowhere"),
        (refused(&|s| s.key = Some(other.clone())), "it is not the key of the certificate"),
        (refused(&|s| s.key = Some(text.clone())), "is encrypted"),
        (refused(&|s| s.cert = Some(text.clone())), "there is no certificate in it"),
        (refused(&|s| s.client_auth = ClientAuth::Required), "--tls-client-ca"),
        (refused(&|s| s.client_ca = Some(text.clone())), "no effect"),
    ];
    for (error, expected) in cases {
        assert!(error.to_string().contains(expected), "{error}");
    }
}
