package node

import (
	"fmt"
	"os"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/node/control"
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
		own, err = jobs.KeyOf(identity)
	}
	if err != nil || n.cfg.JobKey == "" {
		return own, own, err
	}
	key, err = jobs.ReadKey(n.cfg.JobKey)
	return key, own, err
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
