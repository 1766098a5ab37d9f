package p2p

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
)

// overBoth runs a test over TCP and over QUIC with a server that serves what
// prepare registers.
func overBoth(t *testing.T, prepare func(*Net), test func(t *testing.T, client, server *Net)) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			server := newNet(t, "test", transport.listen, prepare)
			client := newNet(t, "test", transport.listen, nil)
			introduce(client, server)
			test(t, client, server)
		})
	}
}

func TestCallsAreAnswered(t *testing.T) {
	overBoth(t, func(n *Net) { n.Handle("echo", echo) }, func(t *testing.T, client, server *Net) {
		var callers sync.WaitGroup
		for caller := range 40 {
			callers.Go(func() {
				for i := range 25 {
					req := binary.BigEndian.AppendUint64(nil, uint64(caller*1000+i))
					req = append(req, bytes.Repeat([]byte{byte(i)}, i*i*20)...)
					answer, err := client.Call(t.Context(), server.Self(), "echo", req)
					if err != nil || !bytes.Equal(answer, req) {
						t.Errorf("call %d of caller %d: %d bytes, %v", i, caller, len(answer), err)
						return
					}
				}
			})
		}
		callers.Wait()
		stats := server.Stats().Services["echo"]
		if stats.CallsIn != 1000 || stats.BytesIn == 0 || stats.BytesOut == 0 {
			t.Errorf("server counted %+v", stats)
		}
		if s := client.Stats(); s.Services["echo"].CallsOut != 1000 || s.Services["echo"].Failed != 0 || s.Streams != 1 {
			t.Errorf("client counted %+v, want one stream for all calls", s)
		}
	})
}

func TestLargestPayload(t *testing.T) {
	overBoth(t, func(n *Net) { n.Handle("echo", echo) }, func(t *testing.T, client, server *Net) {
		req := bytes.Repeat([]byte("apoidea!"), calls.MaxPayload/8)
		answer, err := client.Call(t.Context(), server.Self(), "echo", req)
		if err != nil || !bytes.Equal(answer, req) {
			t.Fatalf("%d bytes came back of %d: %v", len(answer), len(req), err)
		}
		if _, err := client.Call(t.Context(), server.Self(), "echo", make([]byte, calls.MaxPayload+1)); !errors.Is(err, calls.ErrTooLarge) {
			t.Fatalf("one byte more: %v, want calls.ErrTooLarge", err)
		}
	})
}

func TestHandlerErrors(t *testing.T) {
	fail := func(_ context.Context, _ peer.ID, req []byte) ([]byte, error) {
		switch string(req) {
		case "moved":
			return nil, &calls.Error{Code: calls.CodeMoved, Detail: []byte("hints"), Message: "not my arc"}
		case "plain":
			return nil, errors.New("disk full")
		case "large":
			return make([]byte, calls.MaxPayload+1), nil
		default:
			return nil, &calls.Error{Code: calls.CodeBusy, Message: strings.Repeat("x", 2*calls.MaxErrorMessage)}
		}
	}
	rows := []struct {
		name, req string
		code      calls.Code
		detail    string
		message   string
	}{
		{"moved carries hints", "moved", calls.CodeMoved, "hints", "not my arc"},
		{"another error is internal", "plain", calls.CodeInternal, "", "disk full"},
		{"answer too large", "large", calls.CodeInternal, "", "answer of 4194274 bytes is too large"},
		{"message is cut", "long", calls.CodeBusy, "", strings.Repeat("x", calls.MaxErrorMessage)},
	}
	overBoth(t, func(n *Net) { n.Handle("fail", fail) }, func(t *testing.T, client, server *Net) {
		for _, row := range rows {
			_, err := client.Call(t.Context(), server.Self(), "fail", []byte(row.req))
			e, ok := errors.AsType[*calls.Error](err)
			if !ok || e.Code != row.code || string(e.Detail) != row.detail || e.Message != row.message {
				t.Errorf("%s: got %v", row.name, err)
			}
		}
		_, err := client.Call(t.Context(), server.Self(), "nothing", nil)
		if calls.CodeOf(err) != calls.CodeRefused {
			t.Errorf("service not served: %v", err)
		}
	})
}

func TestCancelledCallLeavesTheStreamUsable(t *testing.T) {
	prepare := func(n *Net) {
		n.Handle("wait", func(ctx context.Context, _ peer.ID, req []byte) ([]byte, error) {
			if string(req) == "wait" {
				<-ctx.Done()
			}
			return req, nil
		})
	}
	overBoth(t, prepare, func(t *testing.T, client, server *Net) {
		if _, err := client.Call(t.Context(), server.Self(), "wait", []byte("go")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := client.Call(ctx, server.Self(), "wait", []byte("wait"))
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled call: %v", err)
		}
		if answer, err := client.Call(t.Context(), server.Self(), "wait", []byte("go")); err != nil || string(answer) != "go" {
			t.Errorf("next call: %q, %v", answer, err)
		}
	})
}

func TestHandlerEndsWithItsCaller(t *testing.T) {
	ended := make(chan error, 1)
	prepare := func(n *Net) {
		n.Handle("wait", func(ctx context.Context, _ peer.ID, req []byte) ([]byte, error) {
			if len(req) > 0 {
				return req, nil
			}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
	}
	overBoth(t, prepare, func(t *testing.T, client, server *Net) {
		if _, err := client.Call(t.Context(), server.Self(), "wait", []byte("go")); err != nil { // to connect takes a slow machine more than the call has
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := client.Call(ctx, server.Self(), "wait", nil); err == nil {
			t.Fatal("answered")
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the handler's context said %v", err)
		}
		go func() { _, _ = client.Call(t.Context(), server.Self(), "wait", nil) }()
		for server.Stats().Services["wait"].CallsIn < 3 {
			time.Sleep(time.Millisecond) // until the handler runs
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("after the caller left, the handler's context said %v", err)
		}
	})
}

// Slow: waits for a connection to break.
func TestPeerGoneFailsCallsAtOnce(t *testing.T) {
	var running sync.WaitGroup
	prepare := func(n *Net) {
		n.Handle("wait", func(ctx context.Context, _ peer.ID, _ []byte) ([]byte, error) {
			running.Done()
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}
	overBoth(t, prepare, func(t *testing.T, client, server *Net) {
		gone := make(chan peer.ID, 1)
		client.OnDisconnect(func(p peer.ID) { gone <- p })
		ended := make(chan error)
		running.Add(3)
		for range 3 {
			go func() {
				_, err := client.Call(t.Context(), server.Self(), "wait", nil)
				ended <- err
			}()
		}
		running.Wait()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-ended; !errors.Is(err, calls.ErrUnreachable) {
				t.Errorf("got %v, want calls.ErrUnreachable", err)
			}
		}
		if p := <-gone; p != server.Self() {
			t.Errorf("told that %s is gone", p)
		}
		if _, err := client.Call(t.Context(), server.Self(), "wait", nil); !errors.Is(err, calls.ErrUnreachable) {
			t.Errorf("call to a dead peer: %v", err)
		}
		if _, err := client.Call(t.Context(), server.Self(), "wait", nil); !errors.Is(err, calls.ErrUnreachable) ||
			!strings.Contains(err.Error(), "backoff") {
			t.Errorf("second call: %v, want to be told that it was not dialled again", err)
		}
	})
}

func TestStreamResetFailsPendingAndReopens(t *testing.T) {
	var asked atomic.Int32
	entered := make(chan struct{}, 1)
	prepare := func(n *Net) {
		asked.Store(0)
		n.Handle("once", func(ctx context.Context, _ peer.ID, req []byte) ([]byte, error) {
			if asked.Add(1) == 1 {
				entered <- struct{}{}
				<-ctx.Done()
			}
			return req, nil
		})
	}
	overBoth(t, prepare, func(t *testing.T, client, server *Net) {
		ended := make(chan error)
		go func() {
			_, err := client.Call(t.Context(), server.Self(), "once", nil)
			ended <- err
		}()
		<-entered
		for _, c := range server.host.Network().ConnsToPeer(client.Self()) {
			for _, s := range c.GetStreams() {
				_ = s.Reset()
			}
		}
		if err := <-ended; !errors.Is(err, calls.ErrUnreachable) {
			t.Errorf("call on the reset stream: %v", err)
		}
		if answer, err := client.Call(t.Context(), server.Self(), "once", []byte("again")); err != nil || string(answer) != "again" {
			t.Errorf("next call: %q, %v", answer, err)
		}
	})
}

func TestStrangersAreRefusedClearly(t *testing.T) {
	other := newNet(t, "other", "", func(n *Net) { n.Handle("echo", echo) })
	newer := newNet(t, "test", "", func(n *Net) {
		n.host.SetStreamHandler("/apoidea/test/echo/99.0.0", nil)
	})
	client := newNet(t, "test", "", nil)
	introduce(client, other)
	introduce(client, newer)
	rows := []struct {
		name string
		to   *Net
		says string
	}{
		{"another network", other, `"other"`},
		{"another major version", newer, "99.0.0"},
	}
	for _, row := range rows {
		_, err := client.Call(t.Context(), row.to.Self(), "echo", nil)
		if calls.CodeOf(err) != calls.CodeVersion || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestMembersOfAnotherVersionAreNoEntry: a member that speaks another version is told of as such,
// although it answers for kad-dht, whose version is its own.
func TestMembersOfAnotherVersionAreNoEntry(t *testing.T) {
	newer := newNet(t, "test", "", func(n *Net) {
		n.host.SetStreamHandler("/apoidea/test/ring/99.0.0", nil)
		n.host.SetStreamHandler(n.services.kadProtocol(), nil)
	})
	same := newNet(t, "test", "", func(n *Net) {
		if _, err := NewKad(n); err != nil {
			t.Fatal(err)
		}
		n.Handle(ringService, echo)
	})
	client := newNet(t, "test", "", nil)
	report := client.Bootstrap(t.Context(), Sources{Bootstrap: []string{newer.Addrs()[0], same.Addrs()[0]}})
	if len(report.Entries) != 1 || report.Entries[0] != same.Self() {
		t.Errorf("entries %v", report.Entries)
	}
	if err := report.OtherVersion(); calls.CodeOf(err) != calls.CodeVersion || !strings.Contains(err.Error(), "99.0.0") {
		t.Errorf("another version: %v", err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	entered := make(chan struct{})
	server := newNet(t, "test", "", func(n *Net) {
		n.Handle("wait", func(ctx context.Context, _ peer.ID, _ []byte) ([]byte, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	})
	client := newNet(t, "test", "", nil)
	introduce(client, server)
	ended := make(chan error)
	go func() {
		_, err := client.Call(context.Background(), server.Self(), "wait", nil)
		ended <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, calls.ErrClosed) {
		t.Errorf("call under way: %v", err)
	}
	if _, err := client.Call(t.Context(), server.Self(), "wait", nil); !errors.Is(err, calls.ErrClosed) {
		t.Errorf("call after: %v", err)
	}
}
