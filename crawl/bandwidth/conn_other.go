//go:build !unix

package bandwidth

import (
	"errors"
	"net"
	"os"
	"time"
)

// peek is not supported on this system.
func peek(net.Conn, []byte) (n int, ok bool, err error) { return 0, false, nil }

// glance is how long a connection is read where the system cannot report whether data is available.
const glance = time.Millisecond

// stirred reports whether a connection has data to read, an end or an error. It may consume a byte,
// so a connection that has stirred must be discarded.
func stirred(c net.Conn) bool {
	t, ok := c.(*net.TCPConn)
	if !ok || t.SetReadDeadline(time.Now().Add(glance)) != nil {
		return false
	}
	var b [1]byte
	_, err := t.Read(b[:])
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
