package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/node/control"
)

const (
	// maxNames limits the cached names, namedAtOnce those requested for one response.
	maxNames, namedAtOnce = 4096, 64
	// nameTime is the timeout for missing names, nameLife the lifetime of a cached name or of its
	// absence.
	nameTime, nameLife = time.Second, time.Minute
)

// namedPeer is the name of a peer in its last report.
type namedPeer struct {
	name control.Name
	at   time.Time
}

func (v *View) noteName(id string, name control.Name) { v.names.Add(id, namedPeer{name, time.Now()}) }

// PeerName returns the cached name of a peer.
func (v *View) PeerName(id string) control.Name {
	n, _ := v.names.Get(id)
	return n.name
}

// called returns the names of those peers that have one. It requests expired names, for at most
// nameTime.
func (v *View) called(ctx context.Context, ids ...string) map[string]control.Name {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	ids = ids[:min(len(ids), namedAtOnce)]
	v.noteName(v.deps.Self.String(), v.deps.About.Name)
	ctx, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	var group errgroup.Group
	for _, text := range ids {
		if n, ok := v.names.Get(text); ok && time.Since(n.at) <= nameLife {
			continue
		}
		group.Go(func() error {
			id, err := peer.Decode(text)
			if err == nil {
				_, err = v.reportOf(ctx, id, v.deps.About.Patience)
			}
			if err != nil {
				v.noteName(text, v.PeerName(text))
			}
			return nil
		})
	}
	_ = group.Wait() // without a response the cached name stays
	found := make(map[string]control.Name)
	for _, id := range ids {
		if name := v.PeerName(id); name != "" {
			found[id] = name
		}
	}
	return found
}

// named sets the names in a list of peers.
func (v *View) named(ctx context.Context, lines []control.PeerLine) []control.PeerLine {
	var ids []string
	for i := range lines {
		ids = append(ids, lines[i].Peer)
	}
	found := v.called(ctx, ids...)
	for i := range lines {
		lines[i].Name = found[lines[i].Peer]
	}
	return lines
}

// mentioned returns the peers that occur in h.
func mentioned(h *control.Host) []string {
	ids := []string{h.Owner, h.Worker, h.PlacedAt}
	for _, m := range h.Placement {
		ids = append(ids, m.Peer)
	}
	if h.Coordinate != nil {
		for _, e := range h.Coordinate.Estimators {
			ids = append(ids, e.Peer)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}
