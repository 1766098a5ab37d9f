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
		err   error
		words string
	}{
		"refused":         {dial(syscall.ECONNREFUSED), "connection refused: nothing listens there"},
		"refused twice":   {dial(syscall.ECONNREFUSED, syscall.ECONNREFUSED), "connection refused: nothing listens there"},
		"two ways":        {dial(syscall.ECONNREFUSED, syscall.ENETUNREACH), "connection refused: nothing listens there, no way leads there from this machine"},
		"just tried":      {resting{dial(syscall.ECONNREFUSED)}, "tried a moment ago: connection refused: nothing listens there"},
		"too late":        {dial(context.DeadlineExceeded), "no answer: nothing runs there, or a firewall or router lets nothing through"},
		"no peer":         {dial(errors.New("failed to negotiate security protocol: EOF")), "what answers there is no peer, one of another release, or one with too much to do: try again, or compare the address with what apoidea peers --addrs prints there"},
		"hangs up":        {errHungUpEarly, "it ended the connection: it stops or has too much to do; try again"},
		"gated":           {dial(swarm.ErrGaterDisallowedConnection), "an address of this machine or a private network, which --profile public does not dial"},
		"no address":      {swarm.ErrNoAddresses, "no address of it is known"},
		"full":            {network.ErrResourceLimitExceeded, "this peer has as many connections as it may: try again"},
		"stream reset":    {&network.StreamError{Remote: true}, "the connection to it broke: it ended, or the way to it was cut; try again"},
		"connection gone": {&network.ConnError{TransportError: errors.New("sent go away")}, "the connection to it broke: it ended, or the way to it was cut; try again"},
		"something else":  {errors.New("a\n  b"), "a b"},
	} {
		called := fmt.Errorf("call echo of %s: %w", id, calls.Unreachable(id, row.err))
		err := calls.Unreachable(id, said{called})
		if want := fmt.Sprintf("peer %s unreachable: %s", id, row.words); err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if cause := calls.Cause(err); cause.Error() != row.words || !errors.Is(cause, row.err) {
			t.Errorf("%s: the cause is %v, want %s", name, cause, row.words)
		}
	}
}

// TestPortsInWords: why a port cannot be had is said with what helps, though libp2p leaves text
// only.
func TestPortsInWords(t *testing.T) {
	for no, want := range map[syscall.Errno][2]string{
		syscall.EADDRINUSE:    {"the port is taken", "end what has the port"},
		syscall.EADDRNOTAVAIL: {"this machine has no such address", "name an address that this machine has"},
		syscall.EACCES:        {"not permitted", "name a port from 1024 on"},
	} {
		for _, err := range []error{no, fmt.Errorf("failed to listen on any addresses: [%s]", no.Error())} {
			if cause, cure := ListenCause(err), ListenCure(err); !strings.HasPrefix(cause, want[0]) || !strings.HasPrefix(cure, want[1]) {
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
		"/ip4/127.0.0.1/tcp/1" + id:                        "connection refused: nothing listens there",
		"/ip4/127.0.0.1/tcp/" + webPort + id:               "what answers there is no peer",
		"/ip4/127.0.0.1/udp/" + mutePort + "/quic-v1" + id: "no answer: nothing runs there, or a firewall",
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
