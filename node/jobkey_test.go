package node

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/p2p"
)

// TestJobKeyIsAPeersKey: the ID of a job key is that of the peer whose identity it is.
func TestJobKeyIsAPeersKey(t *testing.T) {
	identity, err := p2p.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jobKeyOf(identity)
	id, ierr := peer.IDFromPrivateKey(identity)
	if err != nil || ierr != nil || peer.ID(key.ID()) != id {
		t.Errorf("%s, %v; want %s, %v", peer.ID(key.ID()), err, id, ierr)
	}
}
