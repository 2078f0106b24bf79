package sparing

import "net/netip"

// Origin is the part of an address, such as 192.0.2.1:1234, that all connections of one machine have in common: the IP
// address, and of IPv6 the /64. Unix sockets have the zero Prefix.
func Origin(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	origin, _ := ip.Prefix(bits)
	return origin
}
