package node

import (
	"context"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

// TestSessionFindsTheNextOwner: a worker that is no neighbour of the owner hears of its successor, or of one that joined beside it, in no other way.
func TestSessionFindsTheNextOwner(t *testing.T) {
	const host = "a.example"
	ids := newPeers(t, 3)
	self, old, next := ids[0], ids[1], ids[2]
	message := &wire.Session{Held: []*wire.HostLease{{Host: host, Epoch: &wire.Epoch{Counter: 1, Peer: []byte(old)}}}}
	for _, row := range []struct {
		name     string
		believed peer.ID
		reply    *wire.SessionReply // nil: the owner cannot be reached
		want     peer.ID
		lookups  int
	}{
		{name: "it serves the host", believed: old, reply: &wire.SessionReply{}, want: old},
		{name: "the host has moved", believed: old, reply: &wire.SessionReply{Moved: []string{host}}, want: next, lookups: 1},
		{name: "the host has moved, and it is known where to", believed: next, reply: &wire.SessionReply{Moved: []string{host}}, want: next},
		{name: "the owner is gone", believed: old, want: next, lookups: 1},
		{name: "the owner is gone, and nobody else known", want: next, lookups: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			view := &fakeRing{self: self, believed: ownedBy(row.believed), real: ownedBy(next)}
			net := newFakeNet()
			if row.reply != nil {
				raw, err := proto.Marshal(row.reply)
				if err != nil {
					t.Fatal(err)
				}
				net.at(old, answers(string(raw), nil))
			}
			s := sessions{self: self, router: &router{ring: view, net: net}, local: func(context.Context, peer.ID, *wire.Session) (*wire.SessionReply, error) {
				t.Error("this peer was asked")
				return nil, nil
			}}
			reply, err := s.Session(t.Context(), string(old), message)
			if (err == nil) != (row.reply != nil) || err == nil && !proto.Equal(reply, row.reply) {
				t.Errorf("answer %v, %v", reply, err)
			}
			if got := s.OwnerOf(host); got != string(row.want) || view.lookups != row.lookups {
				t.Errorf("the owner is %q after %d lookups, want %q after %d", got, view.lookups, row.want, row.lookups)
			}
		})
	}
}
