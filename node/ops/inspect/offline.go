package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
)

// Offline reads the results in the data directory of a peer that does not run. It locks the
// directory, so that no peer starts there meanwhile, and is read-only.
type Offline struct {
	store *storage.Store
	files archiveFiles
	self  string
}

var _ control.Results = (*Offline)(nil)

// OpenOffline opens a data directory, whose database has the peer's key under identity. It fails
// with control.KindNoPeer if there is none, and with storage.ErrLocked if a peer runs.
func OpenOffline(dir, identity string) (*Offline, error) {
	db := filepath.Join(dir, "db")
	store, err := storage.Open(db, storage.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &control.Error{Kind: control.KindNoPeer, Text: fmt.Sprintf("no peer is running, and no data of one in %s: set --data-dir", dir)}
	}
	if err != nil {
		return nil, err
	}
	o := &Offline{store: store, files: archiveFiles{dir: filepath.Join(dir, "archive")}}
	raw, ok, err := store.Keyspace(storage.KeyspaceMeta).Get([]byte(identity))
	if err == nil && !ok {
		err = fmt.Errorf("%s contains no peer identity", dir)
	}
	if err == nil {
		o.self, err = member.NameOf(raw)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return o, nil
}

// Close unlocks the directory.
func (o *Offline) Close() error { return o.store.Close() }

// Archives implements control.Results. The whole ring is not available.
func (o *Offline) Archives(ctx context.Context, whole bool) (*control.Archives, error) {
	if whole {
		return nil, &control.Error{Kind: control.KindNoPeer, Text: "no peer is running: data of other members requires a running peer"}
	}
	files, err := filesOf(ctx, o.ask)
	if err != nil {
		return nil, err
	}
	return &control.Archives{Peers: []control.ArchivePeer{{Peer: o.self, Role: RoleRing, Files: files}}, Missing: []control.Missing{}}, nil
}

func (o *Offline) ask(ctx context.Context, req []byte) ([]byte, error) {
	return o.files.handle(ctx, "", req)
}

// mine rejects requests about other peers.
func (o *Offline) mine(of string) error {
	if of != "" && of != o.self {
		return control.Usage(fmt.Sprintf("peer %s: only data of %s is available", of, o.self))
	}
	return nil
}

// ReadArchive implements control.Results.
func (o *Offline) ReadArchive(ctx context.Context, of, name string, offset int64, w io.Writer) error {
	if err := o.mine(of); err != nil {
		return err
	}
	return copyFile(ctx, o.ask, name, offset, w)
}

// URLs implements control.Results.
func (o *Offline) URLs(_ context.Context, of, after string) (*control.URLPage, error) {
	page := &control.URLPage{URLs: []control.URLLine{}}
	next, err := o.finals(of, after, urlLines(o.store.Keyspace(storage.KeyspaceHosts), page))
	page.After = next
	return page, err
}

func (o *Offline) finals(of, after string, fn func(id job.ID, f *owner.Final)) (string, error) {
	if err := o.mine(of); err != nil {
		return "", err
	}
	cursor, err := parseCursor(after)
	if err != nil {
		return "", control.Usage(fmt.Sprintf("urls: %v", err))
	}
	next, err := ondisk.URLsIn(o.store.Keyspace(storage.KeyspaceHosts), cursor, pageSize, fn)
	return fmt.Sprintf("%x", []byte(next)), err
}
