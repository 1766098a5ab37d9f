package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/apoidea/apoidea/scripts/harness"
)

// attackHandshakes begins handshakes over QUIC at the port of the peer, and hears nothing of the
// answers but whether it is to show its address.
var attackHandshakes = attack{
	name: "handshakes", does: "300 handshakes over QUIC are begun, and left",
	make: func(ctx context.Context, t *target) error {
		to, err := net.ResolveUDPAddr("udp", t.quic)
		if err != nil {
			return err
		}
		socket, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		from := &quic.Transport{Conn: halfDeaf{socket}}
		var group sync.WaitGroup
		for range 300 {
			group.Go(func() {
				for ctx.Err() == nil {
					_, _ = from.Dial(ctx, to, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"libp2p"}}, &quic.Config{HandshakeIdleTimeout: 10 * time.Second})
					_ = harness.Sleep(ctx, 100*time.Millisecond)
				}
			})
		}
		group.Wait()
		return errors.Join(from.Close(), socket.Close())
	},
}

// halfDeaf hears nothing but packets that ask it to show its address (RFC 9000, 17.2.5).
type halfDeaf struct{ net.PacketConn }

func (d halfDeaf) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := d.PacketConn.ReadFrom(p)
		if err != nil || n > 0 && p[0]&0xf0 == 0xf0 {
			return n, from, err
		}
	}
}
