//! The doors: where to listen, opening the sockets, accepting. It decides nothing about who may come in.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use mio::net::{TcpListener, TcpStream};

/// Where a door listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// On 127.0.0.1 and, where there is one, ::1. Port 0 picks a free one.
    Localhost(u16),
    /// At a host and a port.
    At(String, u16),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let wrong = || format!("'{text}' is not HOST:PORT, PORT or 'off'");
        if text == "off" {
            return Ok(Listen::Off);
        }
        if let Ok(port) = text.parse() {
            return Ok(Listen::Localhost(port));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        match host.trim_start_matches('[').trim_end_matches(']') {
            "" => Err(wrong()),
            "localhost" => Ok(Listen::Localhost(port)),
            host => Ok(Listen::At(host.to_owned(), port)),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Off => f.write_str("off"),
            Listen::Localhost(port) => write!(f, "localhost:{port}"),
            Listen::At(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Listen::At(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Listen {
    /// The addresses of a host given by name or number.
    ///
    /// # Errors
    /// When the name is not known.
    fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Listen::Off => Ok(Vec::new()),
            Listen::Localhost(port) => {
                Ok(vec![(Ipv4Addr::LOCALHOST, *port).into(), (Ipv6Addr::LOCALHOST, *port).into()])
            }
            Listen::At(host, port) => Ok((host.as_str(), *port).to_socket_addrs()?.collect()),
        }
    }

    /// Whether only this machine can come in. A name that cannot be resolved is not ours to trust.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Listen::Off | Listen::Localhost(_) => true,
            Listen::At(..) => {
                self.resolve().is_ok_and(|all| all.iter().all(|address| address.ip().to_canonical().is_loopback()))
            }
        }
    }
}

/// A door that is to be opened.
#[derive(Clone, Debug)]
pub struct DoorPlan {
    /// Its name.
    pub name: &'static str,
    /// The place of its tongue in the list of tongues.
    pub tongue: usize,
    /// Where.
    pub listen: Listen,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// Why a door could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("the {door} door cannot listen at {at}: {why}. {hint}")]
pub struct BindError {
    door: &'static str,
    at: String,
    why: io::Error,
    hint: String,
}

/// An open door: one address.
#[derive(Debug)]
pub struct Listener {
    /// The place of its door in the list of plans.
    pub door: usize,
    /// Where it listens.
    pub address: SocketAddr,
    /// The socket.
    pub socket: TcpListener,
}

/// Opens all doors.
///
/// # Errors
/// [`BindError`], naming the door's flag.
pub fn open(plans: &[DoorPlan]) -> Result<Vec<Listener>, BindError> {
    let mut all = Vec::new();
    for (door, plan) in plans.iter().enumerate() {
        let opened = open_door(&plan.listen).map_err(|(at, why)| {
            let flag = plan.name;
            let hint = match why.kind() {
                io::ErrorKind::AddrInUse => format!(
                    "Another program has that port: end it, or give this door another with --{flag} PORT (0: any free \
                     one; off: none)"
                ),
                io::ErrorKind::PermissionDenied => format!("Give it a port above 1023 with --{flag} PORT"),
                _ => format!("Give it an address of this machine with --{flag} HOST:PORT"),
            };
            BindError { door: plan.name, at, why, hint }
        })?;
        all.extend(opened.into_iter().map(|(address, socket)| Listener { door, address, socket }));
    }
    Ok(all)
}

type Opened = Vec<(SocketAddr, TcpListener)>;

fn open_door(listen: &Listen) -> Result<Opened, (String, io::Error)> {
    let addresses = listen.resolve().map_err(|why| (listen.to_string(), why))?;
    let mut opened = Opened::new();
    let mut picked = None;
    for mut address in addresses {
        // "Any free port" must be the same one on every address of the door.
        if let (0, Some(port)) = (address.port(), picked) {
            address.set_port(port);
        }
        match bind(address) {
            Ok((address, socket)) => {
                picked = Some(address.port());
                opened.push((address, socket));
            }
            Err(why) if may_be_missing(listen, address, &why, !opened.is_empty()) => {}
            Err(why) => return Err((address.to_string(), why)),
        }
    }
    Ok(opened)
}

fn bind(address: SocketAddr) -> io::Result<(SocketAddr, TcpListener)> {
    let socket = TcpListener::bind(address)?;
    Ok((socket.local_addr()?, socket))
}

/// Machines without IPv6 have no ::1, and a free port picked on 127.0.0.1 may be taken there: no reason not to start.
fn may_be_missing(listen: &Listen, address: SocketAddr, why: &io::Error, others: bool) -> bool {
    let Listen::Localhost(port) = listen else { return false };
    address.is_ipv6() && others && (*port == 0 || why.kind() != io::ErrorKind::AddrInUse)
}

/// What came of accepting.
#[derive(Debug)]
pub enum Accepted {
    /// Somebody: the socket, their address, ours.
    Peer(TcpStream, SocketAddr, SocketAddr),
    /// Nobody waits.
    Nobody,
    /// They hung up before we answered: look for the next.
    Gone,
    /// No descriptors or memory for more.
    Exhausted(io::Error),
}

/// Takes one waiting connection.
pub fn accept(listener: &TcpListener) -> Accepted {
    let (stream, remote) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Accepted::Nobody,
        Err(error) if is_exhausted(&error) => return Accepted::Exhausted(error),
        Err(_) => return Accepted::Gone,
    };
    let Ok(local) = stream.local_addr() else { return Accepted::Gone };
    prepare(&stream);
    Accepted::Peer(stream, canonical(remote), canonical(local))
}

fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Answers are small and wanted at once; peers that vanish without a word are noticed within three minutes.
fn prepare(stream: &TcpStream) {
    use rustix::net::sockopt;
    use std::time::Duration;
    let _ = stream.set_nodelay(true); // works without, only slower; the same holds for the rest
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(120));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
}

/// ::ffff:127.0.0.1 is 127.0.0.1: what clients are told and what counts as loopback must not depend on the door.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => (ip, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port_or_port_or_off() {
        let cases = [
            ("off", Some(Listen::Off)),
            ("0", Some(Listen::Localhost(0))),
            ("9092", Some(Listen::Localhost(9092))),
            ("localhost:9092", Some(Listen::Localhost(9092))),
            ("0.0.0.0:1", Some(Listen::At("0.0.0.0".into(), 1))),
            ("[::]:1", Some(Listen::At("::".into(), 1))),
            ("70000", None),
            (":9092", None),
            ("on", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn only_loopback_addresses_count_as_loopback() {
        for (text, loopback) in [("1", true), ("127.0.0.2:1", true), ("[::1]:1", true), ("0.0.0.0:1", false)] {
            assert_eq!(text.parse::<Listen>().unwrap().is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn a_taken_port_is_an_error_that_names_the_flag() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = Listen::Localhost(taken.local_addr().unwrap().port());
        let error = open(&[DoorPlan { name: "toy", tongue: 0, listen, tls: false }]).unwrap_err().to_string();
        assert!(error.contains("--toy PORT") && error.contains("127.0.0.1"), "{error}");
    }

    #[test]
    fn one_free_port_serves_both_addresses_of_localhost() {
        let all = open(&[DoorPlan { name: "toy", tongue: 0, listen: Listen::Localhost(0), tls: false }]).unwrap();
        assert!(all.iter().all(|listener| listener.address.port() == all[0].address.port()));
        assert!(all[0].address.port() != 0);
    }
}
