//! Calls of `wasi:sockets`.

use serde_json::{Value, json};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::{ErrorCode, IpAddressFamily};
use wasip2::sockets::tcp_create_socket::create_tcp_socket;
use wasip2::sockets::udp_create_socket::create_udp_socket;

/// What each way to the network answers.
pub(crate) fn sockets(name: &str) -> Value {
    let said = |refused: Option<ErrorCode>| refused.map_or("ok", |code| code.name()).to_owned();
    json!({
        "tcp4": said(create_tcp_socket(IpAddressFamily::Ipv4).err()),
        "tcp6": said(create_tcp_socket(IpAddressFamily::Ipv6).err()),
        "udp4": said(create_udp_socket(IpAddressFamily::Ipv4).err()),
        "udp6": said(create_udp_socket(IpAddressFamily::Ipv6).err()),
        "name": said(resolve_addresses(&instance_network(), name).err()),
        "connect": std::net::TcpStream::connect("127.0.0.1:9").is_ok(),
        "bind": std::net::UdpSocket::bind("127.0.0.1:0").is_ok(),
        "resolve": std::net::ToSocketAddrs::to_socket_addrs(&(name, 80)).is_ok(),
    })
}
