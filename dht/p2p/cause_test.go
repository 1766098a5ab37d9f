package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/apoidea/apoidea/dht/calls"
)

// TestCausesInWords: what libp2p says is told in words of people, on one line, and programs still
// find what it was.
func TestCausesInWords(t *testing.T) {
	id := stranger(t)
	dial := func(causes ...error) error {
		d := &swarm.DialError{Peer: id, Cause: swarm.ErrAllDialsFailed}
		for _, cause := range causes {
			d.DialErrors = append(d.DialErrors, swarm.TransportError{Cause: cause})
		}
		return fmt.Errorf("failed to dial: %w", d)
	}
	for name, row := range map[string]struct {
		err  error
		want []string
	}{
		"refused":         {dial(syscall.ECONNREFUSED), []string{"connection refused"}},
		"refused twice":   {dial(syscall.ECONNREFUSED, syscall.ECONNREFUSED), []string{"connection refused"}},
		"two ways":        {dial(syscall.ECONNREFUSED, syscall.ENETUNREACH), []string{"connection refused", "no route"}},
		"just tried":      {resting{dial(syscall.ECONNREFUSED)}, []string{"backoff", "connection refused"}},
		"too late":        {dial(context.DeadlineExceeded), []string{"no answer"}},
		"no peer":         {dial(errors.New("failed to negotiate security protocol: EOF")), []string{"no compatible peer", "peers --addrs"}},
		"hangs up":        {errHungUpEarly, []string{"closed by the peer"}},
		"gated":           {dial(swarm.ErrGaterDisallowedConnection), []string{"--profile public"}},
		"no address":      {swarm.ErrNoAddresses, []string{"address"}},
		"full":            {network.ErrResourceLimitExceeded, []string{"connection limit"}},
		"stream reset":    {&network.StreamError{Remote: true}, []string{"connection lost"}},
		"connection gone": {&network.ConnError{TransportError: errors.New("sent go away")}, []string{"connection lost"}},
		"something else":  {errors.New("a\n  b"), []string{"a b"}},
	} {
		called := fmt.Errorf("call echo of %s: %w", id, calls.Unreachable(id, row.err))
		err := calls.Unreachable(id, causedBy{called})
		cause := calls.Cause(err)
		if !errors.Is(cause, row.err) || !strings.Contains(err.Error(), id.String()) || strings.Contains(cause.Error(), id.String()) {
			t.Errorf("%s: %v, its cause is %v", name, err, cause)
		}
		for _, want := range row.want {
			if strings.Count(cause.Error(), want) != 1 {
				t.Errorf("%s: %v, want %q once", name, cause, want)
			}
		}
	}
}

// TestPortsInWords: why a port cannot be had is said with what helps, though libp2p leaves text
// only.
func TestPortsInWords(t *testing.T) {
	for no, want := range map[syscall.Errno][2]string{
		syscall.EADDRINUSE:    {"in use", "--listen"},
		syscall.EADDRNOTAVAIL: {"no such address", "--listen"},
		syscall.EACCES:        {"not permitted", "1024"},
	} {
		for _, err := range []error{no, fmt.Errorf("failed to listen on any addresses: [%s]", no.Error())} {
			if cause, cure := ListenCause(err), ListenCure(err); !strings.Contains(cause, want[0]) || !strings.Contains(cure, want[1]) {
				t.Errorf("%v: %s: %s", err, cause, cure)
			}
		}
	}
}

// TestDialCauses: what dials come to, against real sockets, is said in words of people.
func TestDialCauses(t *testing.T) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { web.Close() })
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_ = c.Close()
		}
	}()
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	other := newNet(t, "test", "", nil)
	const id = "/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	_, webPort, _ := net.SplitHostPort(web.Addr().String())
	_, mutePort, _ := net.SplitHostPort(mute.LocalAddr().String())
	at := other.Addrs()[0]
	for addr, want := range map[string]string{
		"/ip4/127.0.0.1/tcp/1" + id:                        "connection refused",
		"/ip4/127.0.0.1/tcp/" + webPort + id:               "no compatible peer",
		"/ip4/127.0.0.1/udp/" + mutePort + "/quic-v1" + id: "no answer",
		at[:strings.LastIndex(at, "/p2p/")] + id:           "another peer answers there, " + at[strings.LastIndex(at, "/")+1:],
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			n := newNet(t, "test", "", nil) // each knows one address of the peer
			text := n.Bootstrap(t.Context(), Sources{Bootstrap: []string{addr}}).Error()
			if !strings.Contains(text, addr+": "+want) {
				t.Errorf("%s", text)
			}
		})
	}
}
