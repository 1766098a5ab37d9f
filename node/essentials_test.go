package node

import (
	"bytes"
	"context"
	"fmt"
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

// longestWrite notes the size of the longest write.
type longestWrite int

func (l *longestWrite) Write(p []byte) (int, error) {
	*l = max(*l, longestWrite(len(p)))
	return len(p), nil
}

// TestEssentialsAreWrittenByRecord: a write has one job at most, so that many jobs, as a member may
// post, take little memory.
func TestEssentialsAreWrittenByRecord(t *testing.T) {
	const count, size = 64, 16 << 10
	records := make(map[string][]byte)
	for i := range count {
		records[fmt.Sprintf("%s%02d", jobs.KeyPrefix, i)] = bytes.Repeat([]byte{byte(i)}, size)
	}
	var longest longestWrite
	if err := encodeEssentials(&longest, func(record func(name string, value []byte)) error {
		for name, value := range records {
			record(name, value)
		}
		return nil
	}); err != nil || longest > 2*size {
		t.Errorf("%v; a write of %d bytes, want at most %d", err, longest, 2*size)
	}
	dir := t.TempDir()
	if err := WriteEssentials(dir, records); err != nil {
		t.Fatal(err)
	}
	if kept, err := ReadEssentials(dir); err != nil || !maps.EqualFunc(kept, records, bytes.Equal) {
		t.Errorf("the copy has %d jobs, want %d: %v", len(kept), count, err)
	}
}
