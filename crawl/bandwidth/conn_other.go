//go:build !unix

package bandwidth

import (
	"errors"
	"net"
	"os"
	"time"
)

// peek cannot tell on this system.
func peek(net.Conn, []byte) (n int, ok bool, err error) { return 0, false, nil }

// glance is how long a connection is listened to where the system cannot be asked whether something
// has come.
const glance = time.Millisecond

// stirred says that a connection has something to read, an end or an error. It may take a byte, so
// a connection that has stirred is of no more use.
func stirred(c net.Conn) bool {
	t, ok := c.(*net.TCPConn)
	if !ok || t.SetReadDeadline(time.Now().Add(glance)) != nil {
		return false
	}
	var b [1]byte
	_, err := t.Read(b[:])
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
