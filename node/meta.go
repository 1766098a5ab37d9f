package node

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// AddrFile is a file in the data directory with the addresses of the running peer, one per line,
// for use as entry points.
const AddrFile = "addrs"

// Names in storage.KeyspaceMeta, besides those of the limits.
const (
	metaIdentity    = "identity"
	metaMemory      = "ring-memory"
	metaRemembered  = "remembered-peers"
	metaEntries     = "entries" // entry peers and DNS seeds of the last run that had any
	metaListen      = "listen-addrs"
	metaDashboard   = "dashboard-addr"
	metaIncarnation = "incarnation"
	metaAdmission   = "admission" // charter, certificates and revocations
	// metaRecovering is set while the database of a repair lacks the records that replicas have.
	metaRecovering = "recovering"
)

// meta stores a peer's own state between runs.
type meta struct {
	space *storage.Keyspace
}

// identity returns the peer's key and generates one at the first start: of eight, the one whose
// position halves the largest arc best, by choose (design, section 3, Balance of arcs).
func (m meta) identity(choose func(candidates []peer.ID) int) (crypto.PrivKey, error) {
	raw, ok, err := m.space.Get([]byte(metaIdentity))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if ok {
		return member.UnmarshalIdentity(raw)
	}
	key, err := member.GenerateIdentity(ring.PositionChoices, choose)
	if err != nil {
		return nil, err
	}
	if raw, err = member.MarshalIdentity(key); err != nil {
		return nil, err
	}
	return key, m.put(metaIdentity, raw)
}

// put stores a value and waits until it is on disk.
func (m meta) put(name string, value []byte) error {
	wait, err := m.space.Update(func(b kv.Batch) {
		b.Set([]byte(name), value)
	})
	if err == nil {
		err = wait()
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// GetJSON reads the value of a name into v, and leaves v unchanged if there is none.
func (m meta) GetJSON(name string, v any) error {
	raw, ok, err := m.space.Get([]byte(name))
	if err != nil || !ok {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("stored %s: %w", name, err)
	}
	return nil
}

// PutJSON stores a value and waits until it is on disk.
func (m meta) PutJSON(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return m.put(name, raw)
}

// NoteJSON stores a value without waiting for the disk: a crash of the process loses nothing, one
// of the machine the last seconds.
func (m meta) NoteJSON(name string, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		err = m.space.UpdateNoSync(func(b kv.Batch) {
			b.Set([]byte(name), raw)
		})
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// nextIncarnation counts the starts of this peer.
func (m meta) nextIncarnation() (uint64, error) {
	var n uint64
	if err := m.GetJSON(metaIncarnation, &n); err != nil {
		return 0, err
	}
	n++
	return n, m.PutJSON(metaIncarnation, n)
}

// recovered records that a replaced database is complete.
func (m meta) recovered() error {
	wait, err := m.space.Update(func(b kv.Batch) { b.Delete([]byte(metaRecovering)) })
	if err == nil {
		err = wait()
	}
	return err
}

// listened returns the listen addresses of the last run.
func (m meta) listened() (addrs []string, err error) {
	return addrs, m.GetJSON(metaListen, &addrs)
}

// memory returns the ring state of the last run, nil at the first start.
func (m meta) memory() (*dht.Memory, error) {
	raw, ok, err := m.space.Get([]byte(metaMemory))
	if err != nil || !ok {
		return nil, err
	}
	return dht.ParseMemory(raw)
}

// writeAddrs replaces the address file atomically.
func writeAddrs(dir string, addrs []string) error {
	var text []byte
	for _, a := range addrs {
		text = append(text, a+"\n"...)
	}
	if err := datadir.Replace(filepath.Join(dir, AddrFile), text); err != nil {
		return fmt.Errorf("address file: %w", err)
	}
	return nil
}
