package inspect

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestOffline: the results of a peer that does not run are read, and its directory is held
// meanwhile.
func TestOffline(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenOffline(dir, "identity"); control.KindOf(err) != control.KindNoPeer {
		t.Errorf("an empty directory: %v", err)
	}
	db := filepath.Join(dir, "db")
	store, err := storage.Open(db, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := member.GenerateIdentity(1, func([]peer.ID) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := member.MarshalIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	wait, err := store.Keyspace(storage.KeyspaceMeta).Update(func(b kv.Batch) {
		b.Set([]byte("identity"), raw)
	})
	if err == nil {
		err = wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	self, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOffline(dir, "identity"); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("while a peer has it: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	writeArchive(t, filepath.Join(dir, "archive"), 2, true)
	o, err := OpenOffline(dir, "identity")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	found, err := o.Archives(t.Context(), false)
	if err != nil || len(found.Peers) != 1 || found.Peers[0].Peer != self.String() || len(found.Peers[0].Files) != 1 {
		t.Fatalf("archives %+v, %v", found, err)
	}
	f := found.Peers[0].Files[0]
	var b bytes.Buffer
	if err := o.ReadArchive(t.Context(), self.String(), f.Name, 0, &b); err != nil || int64(b.Len()) != f.Bytes {
		t.Errorf("%d bytes of %d, %v", b.Len(), f.Bytes, err)
	}
	if page, err := o.URLs(t.Context(), "", ""); err != nil || len(page.URLs) != 0 || page.After != "" {
		t.Errorf("URLs %+v, %v", page, err)
	}
	if _, err := o.Archives(t.Context(), true); control.KindOf(err) != control.KindNoPeer {
		t.Errorf("of the ring: %v", err)
	}
	for name, err := range map[string]error{
		"another peer": func() error { _, err := o.URLs(t.Context(), "12D3Koo", ""); return err }(),
		"no cursor":    func() error { _, err := o.URLs(t.Context(), "", "xyz"); return err }(),
	} {
		if control.KindOf(err) != control.KindUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := storage.Open(db, storage.Options{}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a peer could start meanwhile: %v", err)
	}
}
