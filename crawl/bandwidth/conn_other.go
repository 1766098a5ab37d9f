//go:build !unix

package bandwidth

import "net"

// readable cannot tell on this system.
func readable(net.Conn) (bool, error) { return false, nil }
