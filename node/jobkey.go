package node

import (
	"crypto/ed25519"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/apoidea/apoidea/crawl/job"
)

// jobKey is the key that signs what is posted at this peer: its own identity.
func (n *Node) jobKey() (job.Key, error) {
	key, err := n.meta.identity(nil)
	if err != nil {
		return job.Key{}, err
	}
	return jobKeyOf(key)
}

// jobKeyOf has a key as identities are kept sign jobs.
func jobKeyOf(key crypto.PrivKey) (job.Key, error) {
	if _, ok := key.(*crypto.Ed25519PrivateKey); !ok {
		return job.Key{}, fmt.Errorf("job key: it is of type %s, and must be Ed25519", key.Type())
	}
	raw, err := key.Raw()
	if err != nil {
		return job.Key{}, fmt.Errorf("job key: %w", err)
	}
	return job.NewKey(ed25519.PrivateKey(raw)), nil
}
