package member

import (
	"reflect"
	"testing"

	"github.com/apoidea/apoidea/dht/ring"
)

// TestPeerIsReadBack: a message says all of a peer, and of one that it does not name nothing.
func TestPeerIsReadBack(t *testing.T) {
	a, b := New("a", [][]byte{{1}, {2}}), New("b", nil)
	a.Incarnation, b.Role = 7, RoleWorker
	peers := []Peer{a, b}
	if got := List(Wire(peers)); !reflect.DeepEqual(got, peers) {
		t.Errorf("%+v, want %+v", got, peers)
	}
	if got := Of(nil); !reflect.DeepEqual(got, Peer{}) {
		t.Errorf("nobody is %+v", got)
	}
}

// TestPositionFollowsTheName: it is the same however the peer was made.
func TestPositionFollowsTheName(t *testing.T) {
	want := ring.PeerKey([]byte("a"))
	for _, p := range []Peer{New("a", nil), {ID: "a"}, Peer{ID: "a"}.Placed()} {
		if p.Key() != want {
			t.Errorf("%+v stands at %s, want %s", p, p.Key(), want)
		}
	}
	if RoleMember.String() != "member" || RoleWorker.String() != "worker" {
		t.Error("a role has another name")
	}
}
