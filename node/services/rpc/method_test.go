package rpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

var errMany = errors.New("more declined than offered")

// offers is a method as services have them: it has a tag, its answer has bounds of its own and
// others that depend on the question.
var offers = rpc.Method[*wire.Offer, *wire.OfferReply]{
	Service: "x", Tag: 'O', Within: time.Second,
	Check: func(q *wire.Offer, a *wire.OfferReply) error {
		if len(a.GetDeclined()) > len(q.GetHosts()) {
			return errMany
		}
		return nil
	},
}

func marshal(t *testing.T, tag string, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.MarshalOptions{}.MarshalAppend([]byte(tag), m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestMethod: a question goes out, is handled and answered, to one peer and to the owner of a key.
func TestMethod(t *testing.T) {
	net := rpctest.NewNet()
	serve := offers.Handle(rpc.Anyone(""), func(_ context.Context, from peer.ID, m *wire.Offer) (*wire.OfferReply, error) {
		if from != "asker" {
			return nil, rpc.Busy("who are you?")
		}
		return &wire.OfferReply{Declined: []uint32{uint32(len(m.GetHosts()))}}, nil
	})
	from := peer.ID("asker")
	net.At("a", func(ctx context.Context, service string, req []byte) ([]byte, error) {
		if service != "x" {
			t.Errorf("service %q", service)
		}
		return serve.Handle(ctx, from, req)
	})
	r := &rpc.Router{Ring: &rpctest.Ring{Believed: rpctest.OwnedBy("a"), Real: rpctest.OwnedBy("a")}, Net: net}
	req := &wire.Offer{Hosts: []string{"a.example", "b.example"}}
	for name, call := range map[string]func() (*wire.OfferReply, error){
		"Call":      func() (*wire.OfferReply, error) { return offers.Call(t.Context(), net, "a", req) },
		"CallOwner": func() (*wire.OfferReply, error) { return offers.CallOwner(t.Context(), r, ring.Key{}, req) },
	} {
		if a, err := call(); err != nil || len(a.GetDeclined()) != 1 || a.GetDeclined()[0] != 2 {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
	from = "stranger"
	if _, err := offers.Call(t.Context(), net, "a", req); calls.CodeOf(err) != calls.CodeBusy {
		t.Errorf("an error of the handler: %v", err)
	}
}

// TestHandleRefuses: what breaks its bounds reaches no handler.
func TestHandleRefuses(t *testing.T) {
	serve := offers.Handle(rpc.Anyone(""), func(context.Context, peer.ID, *wire.Offer) (*wire.OfferReply, error) {
		t.Error("it was handled")
		return nil, nil
	})
	for name, raw := range map[string][]byte{
		"nothing":       nil,
		"another tag":   marshal(t, "X", &wire.Offer{}),
		"no message":    []byte("O\xff"),
		"out of bounds": marshal(t, "O", &wire.Offer{Hosts: []string{""}}),
	} {
		if _, err := serve.Handle(t.Context(), "p", raw); !rpc.Refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCallChecks: an answer that is none, or breaks its bounds, comes as an error.
func TestCallChecks(t *testing.T) {
	net := rpctest.NewNet()
	many := &wire.OfferReply{Declined: make([]uint32, wire.MaxHosts+1)}
	for name, answer := range map[string]string{
		"no message":          "\xff",
		"out of bounds":       string(marshal(t, "", many)),
		"more than asked for": string(marshal(t, "", &wire.OfferReply{Declined: []uint32{0, 1}})),
	} {
		net.At("a", rpctest.Answers(answer, nil))
		if _, err := offers.Call(t.Context(), net, "a", &wire.Offer{Hosts: []string{"a.example"}}); err == nil || calls.CodeOf(err) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWithin: a call is given up when the time of its method is over.
func TestWithin(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		net := rpctest.NewNet()
		net.At("a", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		begin := time.Now()
		_, err := offers.Call(t.Context(), net, "a", &wire.Offer{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != offers.Within {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
