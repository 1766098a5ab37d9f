package records

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/replica"
)

// replaced is a peer that starts with a new database and its former identity.
func replaced(recovering bool) func(*Replication) {
	return func(r *Replication) {
		r.source = replica.NewSource(replica.Config{Incarnation: 2, Message: 1024, Span: 256})
		r.recovering.Store(recovering)
	}
}

// TestRecovery: a peer whose database was replaced, which returns before or after its neighbors
// notice, gets all its records from its replicas, also if requests fail. Without the rule its
// replicas follow it, and lose them.
func TestRecovery(t *testing.T) {
	for _, row := range []struct {
		name             string
		noticed, failing bool
		without          bool // of the rule
	}{
		{name: "before anyone notices"},
		{name: "after its death", noticed: true},
		{name: "requests fail", failing: true},
		{name: "without the rule", without: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			ids := []peer.ID{"a", "b", "c"}
			inKeepers(t, 20, ids, func(t *testing.T, w *keepers) {
				before := w.urls(t)
				lost, most := peer.ID(""), 0
				for _, id := range ids {
					if n := len(w.peers[id].positions(t, storage.KeyspaceHosts)); n > most {
						lost, most = id, n
					}
				}
				w.kill(lost)
				if row.noticed {
					w.set(slices.DeleteFunc(slices.Clone(ids), func(id peer.ID) bool { return id == lost })...)
					w.rest()
				}
				n := 0
				if row.failing {
					w.net.set(func() {
						w.net.coming = func(_ context.Context, m crossing) error {
							if m.service != ServicePull {
								return nil
							}
							if n++; n < 20 && n%3 == 0 {
								return errors.New("lost")
							}
							return nil
						}
					})
				}
				w.start(t, lost, replaced(!row.without))
				w.set(ids...)
				for range 6 {
					w.rest()
				}
				after := w.urls(t)
				if row.without {
					if after >= before {
						t.Errorf("%d URLs, %d before: nothing was lost", after, before)
					}
					return
				}
				w.check(t)
				if after != before || w.peers[lost].ship.recovering.Load() {
					t.Errorf("%d URLs accepted, %d before", after, before)
				}
			})
		})
	}
}

// TestRecoveryAlone: a peer without neighbors has nothing to wait for.
func TestRecoveryAlone(t *testing.T) {
	inKeepers(t, 2, []peer.ID{"a"}, func(t *testing.T, w *keepers) {
		w.kill("a")
		p := w.start(t, "a", replaced(true))
		w.poke()
		w.rest()
		if p.ship.recovering.Load() || !p.keeping.Quiet() {
			t.Error("still recovering")
		}
	})
}
