package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/ops/limits"
	"github.com/apoidea/apoidea/storage"
)

// Kept is the state of the last run in the data directory of a stopped peer.
type Kept struct {
	Remembered []string // the peers that it will contact
	// DiskReserve is the disk reserve that limits set changed, in bytes; 0 if it did not.
	DiskReserve uint64
}

// ReadKept reads a data directory without changing it. A directory without a database is an empty
// Kept; the error is storage.ErrLocked, see InUse, while another process uses it.
func ReadKept(dir string) (k Kept, err error) {
	dir = filepath.Join(dir, "db")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	store, err := storage.Open(dir, storage.Options{ReadOnly: true})
	if err != nil {
		return k, err
	}
	m := meta{store.Keyspace(storage.KeyspaceMeta)}
	k.DiskReserve, err = limits.KeptReserve(m)
	return k, errors.Join(err, m.GetJSON(metaRemembered, &k.Remembered), store.Close())
}

// InUse reports whether an error of ReadKept means that another process uses the directory.
func InUse(err error) bool { return errors.Is(err, storage.ErrLocked) }

// OpenOffline opens the results in a data directory, see view.OpenOffline. A missing database is
// reported as corruption.
func OpenOffline(dir string) (*inspect.Offline, error) {
	if err := checkDatabaseLost(dir); err != nil {
		return nil, err
	}
	return inspect.OpenOffline(dir, metaIdentity)
}

// Space returns the free bytes on the disk of a data directory, which need not exist yet, and the
// reserve at which the peer stops.
func (c *Config) Space() (free, reserve uint64, err error) {
	free, err = storage.Free(existing(c.DataDir))
	return free, max(c.DiskReserve, leastSpace), err
}

// ResolverAddr returns DNSServer with its port; empty for the system's.
func (c *Config) ResolverAddr() string { return withPort(c.DNSServer) }

// connections returns the maximum number of connections to peers, above which the least useful are
// closed.
func (c *Config) connections() int {
	if c.Profile == ProfilePublic {
		return publicHighWater
	}
	return labHighWater
}

// Descriptors returns the number of open files and connections of a busy peer.
func (c *Config) Descriptors() int {
	const own = 64 // archive, index, API, pages, listeners
	return own + storage.DefaultOpenFiles + c.connections() + c.Fetchers
}

// Entry is an entry point of a configuration, and the result of contacting it.
type Entry struct {
	// Source is "--bootstrap", "--dns-seed DOMAIN" or "remembered peer"; for a seed without peers it
	// is "--dns-seed" and Address is its domain.
	Source, Address string
	// Err is nil if a peer of this network answered.
	Err error
	// Clock is how far its clock is ahead of ours, nil if unknown.
	Clock *time.Duration
}

// Scout contacts all entry points of a configuration and the remembered peers, under a temporary
// identity, without listening.
func Scout(ctx context.Context, cfg *Config, remembered []string, log *slog.Logger) ([]Entry, error) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		return nil, fmt.Errorf("scout: %w", err)
	}
	room := &ringServices{cfg: cfg, log: log}
	c := room.netConfig(key)
	c.Reachability, c.Traversal = p2p.ReachPrivate, false // no peer should find it
	net, err := p2p.New(c, log)
	if err != nil {
		return nil, fmt.Errorf("scout: %w", err)
	}
	defer func() { _ = net.Close() }()
	report := net.Probe(ctx, p2p.Sources{Bootstrap: cfg.Bootstrap, DNSSeeds: cfg.DNSSeed, DNSServer: cfg.DNSServer, Remembered: remembered})
	entries := make([]Entry, len(report.Attempts))
	for i, a := range report.Attempts {
		entries[i] = Entry{Source: a.Source, Address: a.Address, Err: a.Err}
		if a.Err == nil {
			entries[i].Clock = inspect.AskClock(ctx, net, a.Peer)
		}
	}
	return entries, ctx.Err()
}
