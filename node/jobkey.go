package node

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/services/jobs"
)

// JobsAny and JobsMine are the values of Config.Jobs other than a file.
const (
	JobsAny  = "any"
	JobsMine = "mine"
)

// jobKeys returns the key that signs jobs posted at this peer, and the peer's own key, which may
// have signed jobs of an earlier run. They are equal unless a file is configured.
func (n *Node) jobKeys() (key, own job.Key, err error) {
	identity, err := n.meta.identity(nil)
	if err == nil {
		own, err = JobKeyOf(identity)
	}
	if err != nil || n.cfg.JobKey == "" {
		return own, own, err
	}
	key, err = JobKey(n.cfg.JobKey)
	return key, own, err
}

// JobKey reads a job key from a file, in the form of a peer's identity. A missing file is created,
// with a new key readable only by its user.
func JobKey(file string) (job.Key, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = drawJobKey(file)
	}
	if err != nil {
		return job.Key{}, fmt.Errorf("job key: %w", err)
	}
	key, err := p2p.UnmarshalIdentity(raw)
	if err != nil {
		return job.Key{}, control.Usage(fmt.Sprintf("job-key %s: no valid key: %v", file, err))
	}
	return JobKeyOf(key)
}

func drawJobKey(file string) ([]byte, error) {
	key, err := p2p.GenerateIdentity(1, nil)
	if err != nil {
		return nil, err
	}
	raw, err := p2p.MarshalIdentity(key)
	if err != nil {
		return nil, err
	}
	return raw, datadir.Replace(file, raw)
}

// JobKeyOf returns the job key of an identity key.
func JobKeyOf(key crypto.PrivKey) (job.Key, error) {
	if _, ok := key.(*crypto.Ed25519PrivateKey); !ok {
		return job.Key{}, fmt.Errorf("job key: type is %s, must be Ed25519", key.Type())
	}
	raw, err := key.Raw()
	if err != nil {
		return job.Key{}, fmt.Errorf("job key: %w", err)
	}
	return job.NewKey(ed25519.PrivateKey(raw)), nil
}

// whose returns the filter of Config.Jobs. Untrusted peers can invent unsigned jobs, so a peer of
// the public profile accepts none of them.
func (c *Config) whose(mine ...job.Key) (w jobs.Whose, err error) {
	w.Signed = c.Profile == ProfilePublic
	switch c.Jobs {
	case "", JobsAny:
	case JobsMine:
		w.Keys = make(map[peer.ID]bool)
		for _, key := range mine {
			w.Keys[peer.ID(key.ID())] = true
		}
	default:
		text, err := os.ReadFile(c.Jobs)
		if err == nil {
			w.Keys, err = jobs.ReadKeys(text)
		}
		if err != nil {
			return w, control.Usage(fmt.Sprintf("jobs %q: must be %s, %s, or a file of IDs of job keys: %v", c.Jobs, JobsAny, JobsMine, err))
		}
	}
	return w, nil
}
