package jobs

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
)

// ReadKey reads a job key from a file, in the form of a peer's identity. A missing file is created,
// with a new key readable only by its user.
func ReadKey(file string) (job.Key, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = drawKey(file)
	}
	if err != nil {
		return job.Key{}, fmt.Errorf("job key: %w", err)
	}
	key, err := member.UnmarshalIdentity(raw)
	if err != nil {
		return job.Key{}, control.Usage(fmt.Sprintf("job-key %s: no valid key: %v", file, err))
	}
	return KeyOf(key)
}

func drawKey(file string) ([]byte, error) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		return nil, err
	}
	raw, err := member.MarshalIdentity(key)
	if err != nil {
		return nil, err
	}
	return raw, datadir.Replace(file, raw)
}

// KeyOf returns the job key of an identity key.
func KeyOf(key crypto.PrivKey) (job.Key, error) {
	if _, ok := key.(*crypto.Ed25519PrivateKey); !ok {
		return job.Key{}, fmt.Errorf("job key: type is %s, must be Ed25519", key.Type())
	}
	raw, err := key.Raw()
	if err != nil {
		return job.Key{}, fmt.Errorf("job key: %w", err)
	}
	return job.NewKey(ed25519.PrivateKey(raw)), nil
}
