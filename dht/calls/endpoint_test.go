package calls

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// pipe is a stream in memory.
type pipe struct{ net.Conn }

func (p pipe) Reset() error { return p.Close() }

// pipes are a network of one peer: pipes to those whom it was introduced to.
type pipes struct {
	self    peer.ID
	peers   map[peer.ID]*Endpoint
	refusal *Error // of every stream, once opened
	known   peer.ID
	origin  string // of all others
}

var errNobody = errors.New("nobody of that name")

func (p *pipes) Open(_ context.Context, to peer.ID, service string, mayDial bool) (Stream, error) {
	far := p.peers[to]
	if far == nil || !mayDial {
		return nil, Unreachable(to, errNobody)
	}
	a, b := net.Pipe()
	if p.refusal != nil {
		return pipe{a}, b.Close()
	}
	go far.Serve(service, p.self, pipe{b}) //nolint:contextcheck // the far side has a life of its own
	return pipe{a}, nil
}

func (p *pipes) Known(id peer.ID) bool { return id == p.known }

func (p *pipes) Origin(peer.ID) string { return p.origin }

func (p *pipes) Refusal(peer.ID, string, error) *Error { return p.refusal }

func newEndpoint(t *testing.T, self peer.ID) (*Endpoint, *pipes) {
	t.Helper()
	p := &pipes{self: self, peers: map[peer.ID]*Endpoint{}}
	e := New(self, p, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		e.Close()
		e.Wait()
	})
	return e, p
}

// pair is a client and a server that serves a service.
func pair(t *testing.T, service string, h Handler) (client, server *Endpoint) {
	t.Helper()
	server, _ = newEndpoint(t, "server")
	server.Handle(service, h)
	client, p := newEndpoint(t, "client")
	p.peers[server.self] = server
	return client, server
}

func echo(_ context.Context, _ peer.ID, req []byte) ([]byte, error) { return req, nil }

// waiting is a handler that says when it runs, and returns when its caller no longer waits.
func waiting(entered chan<- struct{}) Handler {
	return func(ctx context.Context, _ peer.ID, _ []byte) ([]byte, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// TestCalls: what is asked at once over one stream is answered, each by its own answer, and
// counted.
func TestCalls(t *testing.T) {
	client, server := pair(t, "echo", echo)
	var callers sync.WaitGroup
	for i := range uint64(500) {
		callers.Go(func() {
			req := binary.BigEndian.AppendUint64(make([]byte, i*i%5000), i)
			if answer, err := client.Call(t.Context(), server.self, "echo", req); err != nil || !slices.Equal(answer, req) {
				t.Errorf("call %d: %d bytes, %v", i, len(answer), err)
			}
		})
	}
	callers.Wait()
	if s := server.Stats().Services["echo"]; s.CallsIn != 500 || s.BytesIn == 0 || s.BytesOut == 0 {
		t.Errorf("server counted %+v", s)
	}
	if s := client.Stats(); s.Services["echo"].CallsOut != 500 || s.Services["echo"].Failed != 0 || s.Streams != 1 {
		t.Errorf("client counted %+v, want one stream for all calls", s)
	}
	if server.Handle("echo", nil); server.Handle("echo", nil) {
		t.Error("a service that ended is served")
	}
	if _, err := client.Call(t.Context(), server.self, "echo", nil); CodeOf(err) != CodeRefused {
		t.Errorf("service that is not served: %v", err)
	}
	if _, err := client.Call(t.Context(), server.self, "echo", make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := client.Call(t.Context(), "nobody", "echo", nil); !errors.Is(err, ErrUnreachable) || !errors.Is(err, errNobody) {
		t.Errorf("call of nobody: %v", err)
	}
}

// TestNetworkRefuses: callers hear from the network what the peer means by breaking a stream.
func TestNetworkRefuses(t *testing.T) {
	client, server := pair(t, "echo", echo)
	client.network.(*pipes).refusal = &Error{Code: CodeVersion}
	if _, err := client.Call(t.Context(), server.self, "echo", nil); CodeOf(err) != CodeVersion {
		t.Errorf("got %v", err)
	}
}

// TestCloseEndsCalls: whoever closes, a call under way and its handler end.
func TestCloseEndsCalls(t *testing.T) {
	for _, row := range []struct {
		name   string
		closes func(client, server *Endpoint) *Endpoint
		want   error
	}{
		{"the client", func(client, _ *Endpoint) *Endpoint { return client }, ErrClosed},
		{"the server", func(_, server *Endpoint) *Endpoint { return server }, ErrUnreachable},
	} {
		t.Run(row.name, func(t *testing.T) {
			entered, ended := make(chan struct{}, 1), make(chan error)
			client, server := pair(t, "wait", waiting(entered))
			go func() {
				_, err := client.Call(context.Background(), server.self, "wait", nil)
				ended <- err
			}()
			<-entered
			closed := row.closes(client, server)
			closed.Close()
			if err := <-ended; !errors.Is(err, row.want) {
				t.Errorf("call under way: %v", err)
			}
			closed.Wait()
			if s := closed.Stats().Streams; s != 0 {
				t.Errorf("%d streams after the end", s)
			}
			if _, err := client.Call(t.Context(), server.self, "wait", nil); !errors.Is(err, row.want) {
				t.Errorf("call after: %v", err)
			}
		})
	}
}

func TestSelfCall(t *testing.T) {
	n, _ := newEndpoint(t, "self")
	n.Handle("echo", echo)
	n.Handle("fail", func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, errors.New("no") })
	if answer, err := n.Call(t.Context(), n.self, "echo", []byte("me")); err != nil || string(answer) != "me" {
		t.Errorf("got %q, %v", answer, err)
	}
	if _, err := n.Call(t.Context(), n.self, "fail", nil); CodeOf(err) != CodeInternal {
		t.Errorf("error as from afar: %v", err)
	}
	if _, err := n.Call(t.Context(), n.self, "nothing", nil); CodeOf(err) != CodeRefused {
		t.Errorf("not served: %v", err)
	}
}

func TestBoundsMakeCallersWait(t *testing.T) {
	t.Run("a neighbour", func(t *testing.T) { testCallersWait(t, true, maxHandlers) })
	t.Run("a stranger", func(t *testing.T) { testCallersWait(t, false, handlersOfStrangers) })
}

func testCallersWait(t *testing.T, known bool, handlers int32) {
	release := make(chan struct{})
	var running, most atomic.Int32
	client, server := pair(t, "slow", func(_ context.Context, _ peer.ID, req []byte) ([]byte, error) {
		now := running.Add(1)
		for {
			seen := most.Load()
			if now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		<-release
		running.Add(-1)
		return req, nil
	})
	if known {
		server.network.(*pipes).known = client.self
	}
	const callers = 2*window + 50
	var answered atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := client.Call(t.Context(), server.self, "slow", make([]byte, 32<<10)); err != nil {
				t.Error(err)
				return
			}
			answered.Add(1)
		})
	}
	for running.Load() < handlers {
		time.Sleep(time.Millisecond) // until the handlers are all taken
	}
	if out := client.Stats().Services["slow"].BytesOut; out > (window+1)*(33<<10) {
		t.Errorf("%d bytes sent, more than the window allows", out)
	}
	close(release)
	all.Wait()
	if answered.Load() != callers || most.Load() > handlers {
		t.Errorf("%d of %d answered, %d handlers at once", answered.Load(), callers, most.Load())
	}
}

func TestLargeRequestsBeyondMemoryAreBusy(t *testing.T) {
	for _, row := range []struct {
		name, origin, by string
		size             int
	}{
		{"all", "", "others", maxLargeOfStrangers},
		{"this peer", "", "client", maxLargeOfStrangers / 2},
		{"peers of its network", "192.0.2.0/24", "192.0.2.0/24", maxLargeOfStrangers / 2},
	} {
		client, server := pair(t, "echo", echo)
		server.network.(*pipes).origin = row.origin
		server.in.large.mu.Lock()
		server.in.large.all, server.in.large.of = row.size, map[string]int{row.by: row.size}
		server.in.large.mu.Unlock()
		if _, err := client.Call(t.Context(), server.self, "echo", make([]byte, largeRequest)); CodeOf(err) != CodeBusy {
			t.Errorf("%s: got %v, want busy", row.name, err)
		}
		if _, err := client.Call(t.Context(), server.self, "echo", []byte("small")); err != nil {
			t.Errorf("%s: a small one after it: %v", row.name, err)
		}
		server.in.large.add(caller{name: row.by}, -row.size)
		if _, err := client.Call(t.Context(), server.self, "echo", make([]byte, largeRequest)); err != nil {
			t.Errorf("%s: with room again: %v", row.name, err)
		}
		for held, until := true, time.Now().Add(10*time.Second); held; time.Sleep(time.Millisecond) { // its answer leaves before it is released
			server.in.large.mu.Lock()
			held = server.in.large.all != 0 || len(server.in.large.of) != 0
			server.in.large.mu.Unlock()
			if held && time.Now().After(until) {
				t.Fatalf("%s: bytes are still counted", row.name)
			}
		}
	}
}

func TestMalformedFrameEndsTheStream(t *testing.T) {
	rows := []struct {
		name  string
		bytes []byte
	}{
		{"length over the bound", binary.AppendUvarint(nil, maxFrame+1)},
		{"answer where a request belongs", appendAnswer(nil, 1, []byte("x"))},
		{"unknown kind", []byte{2, 9, 1}},
		{"no body", []byte{0}},
	}
	client, server := pair(t, "echo", echo)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s, b := net.Pipe()
			go server.Serve("echo", client.self, pipe{b})
			if _, err := s.Write(row.bytes); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Read(make([]byte, 1)); err == nil {
				t.Errorf("read %d bytes, want the stream reset", n)
			}
		})
	}
	if _, err := client.Call(t.Context(), server.self, "echo", nil); err != nil {
		t.Errorf("the peer is still there: %v", err)
	}
}

func TestIdleStreamsClose(t *testing.T) {
	client, server := pair(t, "echo", echo)
	call := func() {
		t.Helper()
		if _, err := client.Call(t.Context(), server.self, "echo", nil); err != nil {
			t.Fatal(err)
		}
	}
	call()
	for range idleOut {
		client.Sweep()
	}
	if s := client.Stats().Streams; s != 1 {
		t.Fatalf("%d streams before it was idle for long", s)
	}
	client.Sweep()
	if s := client.Stats().Streams; s != 0 {
		t.Fatalf("%d streams left open", s)
	}
	call()
	if s := client.Stats().Streams; s != 1 {
		t.Fatalf("%d streams after the next call", s)
	}
}

func TestCallWithoutDeadlineGetsOne(t *testing.T) {
	var left time.Duration
	client, server := pair(t, "deadline", func(ctx context.Context, _ peer.ID, _ []byte) ([]byte, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return nil, nil
	})
	_, err := client.Call(context.Background(), server.self, "deadline", nil)
	if err != nil || left <= 0 || left > callTimeout {
		t.Errorf("%v left, %v", left, err)
	}
}

func TestOutStreamsAreForgotten(t *testing.T) {
	n, _ := newEndpoint(t, "self")
	id := peer.ID("stranger")
	o, svc := n.out, n.service("echo")
	if _, err := o.stream(WithoutDial(t.Context()), id, svc); !errors.Is(err, ErrUnreachable) || o.count() != 0 {
		t.Errorf("a stream that did not open: %v, %d kept", err, o.count())
	}
	key := streamKey{id, svc}
	older, newer := &outSlot{ready: make(chan struct{})}, &outSlot{ready: make(chan struct{})}
	o.open[key] = newer
	if o.forget(&outStream{key: key, slot: older}); o.open[key] != newer {
		t.Error("the end of a stream takes the next one along")
	}
	if len(o.all()) != 0 {
		t.Error("one that is being opened counts as open")
	}
	if o.forget(&outStream{key: key, slot: newer}); o.count() != 0 {
		t.Error("a stream that ended is kept")
	}
	o.close()
	if _, err := o.stream(t.Context(), id, svc); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// resettable is a stream that only counts its resets.
type resettable struct {
	Stream
	resets int
}

func (s *resettable) Reset() error {
	s.resets++
	return nil
}

func TestInStreamsGiveWay(t *testing.T) {
	n, _ := newEndpoint(t, "self")
	key := streamKey{"stranger", n.service("echo")}
	var streams []*inStream
	for range maxStreamsIn + 1 {
		st := &inStream{in: n.in, key: key, s: &resettable{}}
		if !n.in.remember(st) {
			t.Fatal("a stream is not taken")
		}
		defer n.wg.Done()
		streams = append(streams, st)
	}
	if len(n.in.all()) != maxStreamsIn || streams[0].s.(*resettable).resets != 1 || streams[1].s.(*resettable).resets != 0 {
		t.Errorf("%d streams of one peer", len(n.in.all()))
	}
	n.in.close()
	if streams[1].s.(*resettable).resets != 1 || n.in.remember(streams[0]) {
		t.Error("a stream outlives the end")
	}
	for _, st := range streams {
		n.in.forget(st)
	}
	if len(n.in.open) != 0 {
		t.Error("a stream that ended is kept")
	}
}
