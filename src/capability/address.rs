//! Which addresses a name of the public internet has no business to point at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a granted name may not lead to this address, in a word or two; `None` when it is an ordinary
/// address of the internet.
///
/// An IPv6 address that stands for an IPv4 address, by whatever mechanism, is what that one is.
pub fn address_class(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    Some(match (a, b, c, d) {
        (0, ..) => "unspecified",
        (127, ..) => "loopback",
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => "private",
        (169, 254, 169, 254) => "metadata",
        (169, 254, ..) => "link-local",
        // Two clouds answer questions about a machine at addresses outside the link-local range.
        (100, 100, 100, 200) | (168, 63, 129, 16) => "metadata",
        (100, 64..=127, ..) => "shared",
        (192, 0, 0, _) | (192, 88, 99, _) => "reserved",
        (192, 0, 2, _) | (198, 51, 100, _) | (203, 0, 113, _) => "documentation",
        (198, 18..=19, ..) => "benchmarking",
        (224..=239, ..) => "multicast",
        (255, 255, 255, 255) => "broadcast",
        (240..=255, ..) => "reserved",
        _ => return None,
    })
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    match (a, b, c, d, e, f) {
        // The address of a machine's own metadata service, which is a private one.
        (0xfd00, 0x0ec2, 0, 0, 0, 0) if (g, h) == (0, 0x0254) => return Some("metadata"),
        (0, 0, 0, 0, 0, 0) if (g, h) == (0, 0) => return Some("unspecified"),
        (0, 0, 0, 0, 0, 0) if (g, h) == (0, 1) => return Some("loopback"),
        // IPv4-mapped, and NAT64 by the prefix that everyone knows.
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => return v4(embedded(g, h)),
        // IPv4-compatible, which nothing uses any more.
        (0, 0, 0, 0, 0, 0) => return v4(embedded(g, h)).or(Some("reserved")),
        // 6to4
        (0x2002, ..) => return v4(embedded(b, c)),
        // Teredo: the client stands there inverted.
        (0x2001, 0, ..) => return v4(embedded(!g, !h)).or_else(|| v4(embedded(c, d))),
        // ISATAP
        (_, _, _, _, 0 | 0x0200, 0x5efe) if v4(embedded(g, h)).is_some() => {
            return v4(embedded(g, h));
        }
        _ => {}
    }
    Some(match (a, b) {
        (0xfe80..=0xfebf, _) => "link-local",
        (0xfec0..=0xfeff, _) | (0xfc00..=0xfdff, _) | (0x64, 0xff9b) => "private",
        (0xff00..=0xffff, _) => "multicast",
        (0x2001, 0x0db8) | (0x3fff, 0..=0x0fff) => "documentation",
        (0x2001, 0..=0x01ff) => "reserved",
        (0x2000..=0x3fff, _) => return None,
        _ => "reserved",
    })
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::address_class;

    #[test]
    fn each_range_has_its_class() {
        for (address, class) in [
            ("1.1.1.1", None),
            ("172.15.0.1", None),
            ("172.32.0.1", None),
            ("100.63.255.255", None),
            ("100.128.0.1", None),
            ("2606:4700::1111", None),
            ("64:ff9b::101:101", None),
            ("2002:101:101::", None),
            ("::ffff:1.1.1.1", None),
            ("0.0.0.0", Some("unspecified")),
            ("0.1.2.3", Some("unspecified")),
            ("127.255.255.254", Some("loopback")),
            ("10.0.0.1", Some("private")),
            ("172.16.0.1", Some("private")),
            ("172.31.255.255", Some("private")),
            ("192.168.1.1", Some("private")),
            ("169.254.1.1", Some("link-local")),
            ("169.254.169.254", Some("metadata")),
            ("100.100.100.200", Some("metadata")),
            ("168.63.129.16", Some("metadata")),
            ("100.64.0.1", Some("shared")),
            ("192.0.2.1", Some("documentation")),
            ("198.51.100.1", Some("documentation")),
            ("203.0.113.1", Some("documentation")),
            ("198.19.0.1", Some("benchmarking")),
            ("224.0.0.1", Some("multicast")),
            ("240.0.0.1", Some("reserved")),
            ("255.255.255.255", Some("broadcast")),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("::127.0.0.1", Some("loopback")),
            ("::1.1.1.1", Some("reserved")),
            ("fe80::1", Some("link-local")),
            ("fec0::1", Some("private")),
            ("fd12::1", Some("private")),
            ("fd00:ec2::254", Some("metadata")),
            ("ff02::1", Some("multicast")),
            ("2001:db8::1", Some("documentation")),
            ("3fff::1", Some("documentation")),
            ("2001:10::1", Some("reserved")),
            ("100::1", Some("reserved")),
            ("64:ff9b:1::1", Some("private")),
            ("2001:0:7f00:1:0:0:f5ff:fffe", Some("private")),
            ("2001:0:7f00:1:0:0:fefe:fefe", Some("loopback")),
            ("2606::5efe:10.0.0.1", Some("private")),
        ] {
            assert_eq!(address_class(address.parse().unwrap()), class, "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_ipv4_address_in_another_form_is_no_better(bits: u32) {
            let address = Ipv4Addr::from(bits);
            let [high, low] = [bits >> 16, bits & 0xffff];
            let class = address_class(IpAddr::V4(address));
            let inverted = (!high & 0xffff, !low & 0xffff);
            for form in [
                format!("::ffff:{address}"),
                format!("64:ff9b::{address}"),
                format!("2002:{high:x}:{low:x}::"),
                format!("2001:0:101:101:0:0:{:x}:{:x}", inverted.0, inverted.1),
            ] {
                prop_assert_eq!(address_class(form.parse().unwrap()), class, "{}", form);
            }
            let compatible = format!("::{address}").parse().unwrap();
            prop_assert!(address_class(compatible).is_some());
        }
    }
}
