//go:build unix

package bandwidth

import (
	"errors"
	"net"
	"syscall"
)

// peek waits until a connection has data to read, an end or an error, and returns the number of
// available bytes up to len(p), without consuming them; ok is false if not supported. A deadline
// ends the wait. The contents of p are undefined.
func peek(c net.Conn, p []byte) (n int, ok bool, err error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0, false, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	err = raw.Read(func(fd uintptr) bool {
		for {
			var err error
			n, _, err = syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			return !errors.Is(err, syscall.EAGAIN)
		}
	})
	return max(n, 0), true, err
}

// stirred reports whether a connection has data to read, an end or an error, without waiting or
// consuming any; false if unknown.
func stirred(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	silent := false
	err = raw.Control(func(fd uintptr) {
		for {
			_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if !errors.Is(err, syscall.EINTR) {
				silent = errors.Is(err, syscall.EAGAIN)
				return
			}
		}
	})
	return err != nil || !silent
}

func setReadBuffer(fd uintptr, bytes int) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes)
}
