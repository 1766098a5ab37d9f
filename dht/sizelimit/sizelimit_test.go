package sizelimit_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/apoidea/apoidea/dht/sizelimit"
	"github.com/apoidea/apoidea/dht/wire"
)

// peers is a message with so many peers of so many addresses.
func peers(n, addrs int) *wire.Memory {
	m := &wire.Memory{Version: 1}
	for range n {
		p := &wire.Peer{Id: make([]byte, 38)}
		for range addrs {
			p.Addrs = append(p.Addrs, make([]byte, 8))
		}
		m.Peers = append(m.Peers, p)
	}
	return m
}

func raw(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCount: what is too much is refused by its name and number, and what is not comes as it was
// sent.
func TestCount(t *testing.T) {
	deep := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), raw(t, peers(0, 0)))
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, 6000))
	sender := raw(t, &wire.Message{Version: 1, Body: &wire.Message_EntryRequest{EntryRequest: &wire.EntryRequest{}}})
	for _, row := range []struct {
		name string
		raw  []byte
		m    proto.Message
		want string
	}{
		{"full", raw(t, peers(wire.MaxPeers, wire.MaxAddrs)), &wire.Memory{}, ""},
		{"too many peers", raw(t, peers(wire.MaxPeers+1, 0)), &wire.Memory{}, "Memory.peers: 65 "},
		{"too many addresses", raw(t, peers(1, wire.MaxAddrs+1)), &wire.Memory{}, "Peer.addrs: 17 "},
		{"nothing", nil, &wire.Memory{}, ""},
		{"cut", raw(t, peers(1, 1))[:9], &wire.Memory{}, "malformed"},
		{"a field of a later version", protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1), &wire.Memory{}, ""},
		{"bytes instead of a number", protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil), &wire.Memory{}, ""},
		{"much of later versions", unknown, &emptypb.Empty{}, "Empty: 6004 bytes"},
		{"twice the same", append(sender, sender...), &wire.Message{}, "Message.entry_request: 2 "},
		{"nested without end", deep, &descriptorpb.DescriptorProto{}, "too deep"},
		{"a map", nil, &structpb.Struct{}, "cannot be counted"},
	} {
		err := sizelimit.Unmarshal(row.raw, row.m)
		if row.want != "" {
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %v, want %q", row.name, err, row.want)
			}
			continue
		}
		want := row.m.ProtoReflect().New().Interface()
		if err := errors.Join(err, proto.Unmarshal(row.raw, want)); err != nil || !proto.Equal(row.m, want) {
			t.Errorf("%s: %v, %v", row.name, row.m, err)
		}
	}
}

// TestCountGivesNoMemory: a count allocates nothing, whatever it finds in the message.
func TestCountGivesNoMemory(t *testing.T) {
	b, m := raw(t, peers(wire.MaxPeers, wire.MaxAddrs)), new(wire.Memory)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := sizelimit.Count(b, m); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
