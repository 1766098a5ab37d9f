package wire

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/ring"
)

func key(text string) []byte {
	k := ring.PeerKey([]byte(text))
	return k[:]
}

func named(id string) *Peer {
	return &Peer{Id: []byte(id), Addrs: [][]byte{[]byte("\x04\x7f\x00\x00\x01\x06\x10\x00")}, Incarnation: 3}
}

func neighbours() *Neighbours {
	return &Neighbours{
		Self: named("a"), State: State_STATE_SERVING, Predecessors: []*Peer{named("b"), named("c")}, Successors: []*Peer{named("c")},
		ServedStart: key("b"), FenceMs: 8000,
	}
}

// samples has one sound message of each kind.
func samples() map[string]*Message {
	hint := &Hint{Owner: named("a"), Start: key("b"), End: key("a")}
	return map[string]*Message{
		"refusal":            New(&Message_Refusal{&Refusal{Reason: Reason_REASON_BUSY, Text: "later"}}),
		"stabilize request":  New(&Message_StabilizeRequest{&StabilizeRequest{Sender: neighbours()}}),
		"stabilize response": New(&Message_StabilizeResponse{&StabilizeResponse{Sender: neighbours()}}),
		"next hop request":   New(&Message_NextHopRequest{&NextHopRequest{Key: key("k")}}),
		"next hop response":  New(&Message_NextHopResponse{&NextHopResponse{Final: true, Hint: hint, Closer: []*Peer{named("d")}}}),
		"ping request":       New(&Message_PingRequest{&PingRequest{Target: []byte("t")}}),
		"ping response":      New(&Message_PingResponse{&PingResponse{Reachable: true}}),
		"entry request":      New(&Message_EntryRequest{&EntryRequest{}}),
		"entry response":     New(&Message_EntryResponse{&EntryResponse{Self: named("a"), Peers: []*Peer{named("d")}}}),
		"attach request":     New(&Message_AttachRequest{&AttachRequest{Sender: &Peer{Id: []byte("w"), Role: Role_ROLE_WORKER}, Leave: true}}),
		"attach response":    New(&Message_AttachResponse{&AttachResponse{Accepted: true, Peers: []*Peer{named("d")}}}),
	}
}

func TestEachMessageIsReadBack(t *testing.T) {
	for name, m := range samples() {
		data, err := Encode(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := Decode(data); err != nil || !proto.Equal(got, m) {
			t.Errorf("%s: read back as %v, %v", name, got, err)
		}
	}
}

func TestWhatBreaksARuleIsRefused(t *testing.T) {
	stabilize := func(change func(*Neighbours)) *Message {
		n := neighbours()
		change(n)
		return New(&Message_StabilizeRequest{&StabilizeRequest{Sender: n}})
	}
	many := make([]*Peer, MaxPeers+1)
	for i := range many {
		many[i] = named("p")
	}
	hop := func(h *Hint) *Message { return New(&Message_NextHopResponse{&NextHopResponse{Hint: h}}) }
	for _, row := range []struct {
		name string
		m    *Message
		is   error // nil: any error
	}{
		{"no body", &Message{Version: Version}, nil},
		{"no version", &Message{Body: samples()["ping request"].Body}, ErrVersion},
		{"next version", &Message{Version: Version + 1, Body: samples()["ping request"].Body}, ErrVersion},
		{"no sender", New(&Message_StabilizeRequest{&StabilizeRequest{}}), nil},
		{"no ID", stabilize(func(n *Neighbours) { n.Self.Id = nil }), nil},
		{"long ID", stabilize(func(n *Neighbours) { n.Self.Id = make([]byte, MaxIDBytes+1) }), ErrTooLarge},
		{"long address", stabilize(func(n *Neighbours) { n.Self.Addrs[0] = make([]byte, MaxAddrBytes+1) }), ErrTooLarge},
		{"many addresses", stabilize(func(n *Neighbours) { n.Self.Addrs = make([][]byte, MaxAddrs+1) }), ErrTooLarge},
		{"many predecessors", stabilize(func(n *Neighbours) { n.Predecessors = many }), ErrTooLarge},
		{"many successors", stabilize(func(n *Neighbours) { n.Successors = many }), ErrTooLarge},
		{"short key", stabilize(func(n *Neighbours) { n.ServedStart = n.ServedStart[1:] }), nil},
		{"long fence", stabilize(func(n *Neighbours) { n.FenceMs = MaxFenceMillis + 1 }), ErrTooLarge},
		{"no key", New(&Message_NextHopRequest{&NextHopRequest{}}), nil},
		{"hint of another", hop(&Hint{Owner: named("a"), Start: key("b"), End: key("c")}), nil},
		{"hint of nobody", hop(&Hint{Start: key("b"), End: key("c")}), nil},
		{"long text", New(&Message_Refusal{&Refusal{Text: string(make([]byte, MaxTextBytes+1))}}), ErrTooLarge},
		{"long target", New(&Message_PingRequest{&PingRequest{Target: make([]byte, MaxIDBytes+1)}}), ErrTooLarge},
		{"nobody attaches", New(&Message_AttachRequest{&AttachRequest{}}), nil},
		{"many to attach to", New(&Message_AttachResponse{&AttachResponse{Peers: many}}), ErrTooLarge},
		{"many entries", New(&Message_EntryResponse{&EntryResponse{Self: named("a"), Peers: many}}), ErrTooLarge},
	} {
		data, err := proto.Marshal(row.m)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if _, err := Decode(data); err == nil || row.is != nil && !errors.Is(err, row.is) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	if _, err := Decode(make([]byte, MaxMessageBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message over the bound: %v", err)
	}
}

// FuzzDecode: whatever is read can be written and read again as the same.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		data, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(bytes.Repeat(data, 3))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		again, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > MaxMessageBytes {
			return // a longer form of the same
		}
		if back, err := Decode(again); err != nil || !proto.Equal(back, m) {
			t.Fatalf("read back as %v, %v", back, err)
		}
	})
}
