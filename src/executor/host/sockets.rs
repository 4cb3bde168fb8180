//! The parts of `wasi:sockets` that give a guest something: there is nothing to be had. A request goes
//! out through the host, which sees where it goes.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{self, ResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{
    self, ErrorCode, IpAddress, IpAddressFamily, Network,
};
use wasmtime_wasi::p2::bindings::sockets::{tcp_create_socket, udp_create_socket};
use wasmtime_wasi::p2::{DynPollable, SocketError, SocketResult, TcpSocket, UdpSocket};
use wasmtime_wasi::sockets::WasiSocketsView as _;

use crate::executor::run_host::Denial;
use crate::executor::state::HostState;

/// The kind of capability that reaches other machines. None of them gives a socket.
const CAPABILITY: &str = "net";
const RULE: &str = "no skill is given sockets or the look-up of names";

impl HostState {
    fn refuse_socket(&self, wanted: &str) -> SocketError {
        self.record.denied(Denial {
            capability: CAPABILITY,
            rule: RULE,
            wanted,
            call_id: None,
        });
        ErrorCode::AccessDenied.into()
    }
}

impl network::Host for HostState {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        network::Host::convert_error_code(&mut self.sockets(), error)
    }

    fn network_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        network::Host::network_error_code(&mut self.sockets(), error)
    }
}

impl network::HostNetwork for HostState {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        network::HostNetwork::drop(&mut self.sockets(), network)
    }
}

impl tcp_create_socket::Host for HostState {
    fn create_tcp_socket(&mut self, family: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        Err(self.refuse_socket(match family {
            IpAddressFamily::Ipv4 => "TCP socket for IPv4",
            IpAddressFamily::Ipv6 => "TCP socket for IPv6",
        }))
    }
}

impl udp_create_socket::Host for HostState {
    async fn create_udp_socket(
        &mut self,
        family: IpAddressFamily,
    ) -> SocketResult<Resource<UdpSocket>> {
        Err(self.refuse_socket(match family {
            IpAddressFamily::Ipv4 => "UDP socket for IPv4",
            IpAddressFamily::Ipv6 => "UDP socket for IPv6",
        }))
    }
}

impl ip_name_lookup::Host for HostState {
    fn resolve_addresses(
        &mut self,
        _network: Resource<Network>,
        name: String,
    ) -> SocketResult<Resource<ResolveAddressStream>> {
        Err(self.refuse_socket(&format!("address of {name}")))
    }
}

impl ip_name_lookup::HostResolveAddressStream for HostState {
    fn resolve_next_address(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> SocketResult<Option<IpAddress>> {
        ip_name_lookup::HostResolveAddressStream::resolve_next_address(&mut self.sockets(), stream)
    }

    fn subscribe(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        ip_name_lookup::HostResolveAddressStream::subscribe(&mut self.sockets(), stream)
    }

    fn drop(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<()> {
        ip_name_lookup::HostResolveAddressStream::drop(&mut self.sockets(), stream)
    }
}
