package node

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// TestEssentials: the copy has identity, jobs and limits and nothing else, and is written again
// when something changed.
func TestEssentials(t *testing.T) {
	m, dir := meta{storagetest.New(t).Keyspace(storage.KeyspaceMeta)}, t.TempDir()
	put := func(name string) {
		t.Helper()
		if err := m.put(name, []byte("value of "+name)); err != nil {
			t.Fatal(err)
		}
	}
	k := newEssentialsKeeper(m.space, dir, quietLog)
	put(metaIdentity)
	put(metaListen)
	k.save()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	ended := make(chan error)
	go func() { ended <- k.run(ctx) }()
	put(jobs.KeyPrefix + "1")
	k.schedule()
	k.schedule() // does not block
	for {
		kept, err := ReadEssentials(dir)
		if err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(maps.Keys(kept)); len(names) == 2 && string(kept[names[1]]) == "value of "+names[1] && names[0] == metaIdentity {
			break
		} else if err := loop.Sleep(ctx, time.Millisecond); err != nil {
			t.Fatalf("the copy has %q: %v", names, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
