//go:build unix

package bandwidth

import (
	"errors"
	"net"
	"syscall"
)

// readable waits until a connection has something to read, an end or an error, without taking it; false if it cannot tell. A deadline ends the wait.
func readable(c net.Conn) (bool, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false, err
	}
	var one [1]byte
	err = raw.Read(func(fd uintptr) bool {
		for {
			_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			return !errors.Is(err, syscall.EAGAIN)
		}
	})
	return true, err
}

func setReadBuffer(fd uintptr, bytes int) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes)
}
