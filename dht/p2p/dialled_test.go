package p2p

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apoidea/apoidea/dht/member"
)

// counted counts what is written through a connection.
type counted struct {
	net.Conn
	written *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// TestDialledConnectionsAreReplaced: what Dialled returns is what handshakes and calls go over, and
// its failure is that of the dial.
func TestDialledConnectionsAreReplaced(t *testing.T) {
	var written atomic.Int64
	refused := errors.New("not today")
	tests := map[string]struct {
		dialled func(ctx context.Context, c net.Conn) (net.Conn, error)
		want    error
	}{
		"replaced": {func(_ context.Context, c net.Conn) (net.Conn, error) { return counted{c, &written}, nil }, nil},
		"refused": {func(_ context.Context, c net.Conn) (net.Conn, error) {
			_ = c.Close()
			return nil, refused
		}, refused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			far := newNet(t, "test", transports[0].listen, func(n *Net) { n.Handle("echo", echo) })
			key, err := member.GenerateIdentity(1, nil)
			if err != nil {
				t.Fatal(err)
			}
			near, err := New(Config{Network: "test", Identity: key, Dialled: tt.dialled}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			introduce(near, far)
			got, err := near.Call(t.Context(), far.self, "echo", []byte("hello"))
			switch {
			case tt.want != nil && (err == nil || !strings.Contains(err.Error(), tt.want.Error())):
				t.Errorf("%q, %v; want %v", got, err, tt.want)
			case tt.want == nil && (err != nil || string(got) != "hello" || written.Load() == 0):
				t.Errorf("%q, %v, %d bytes through the replaced connection", got, err, written.Load())
			}
		})
	}
}
