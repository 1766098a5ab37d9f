package node

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/limits"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/warc"
)

// EssentialsFile is a file in the data directory with a copy of the records that make the rest of a
// corrupt database recoverable: the peer's identity and its jobs. Only package repair reads it.
const EssentialsFile = "essentials"

// Names of records about the peer that the repair of a database needs.
const (
	MetaIdentity    = metaIdentity
	MetaRing        = metaMemory
	MetaRemembered  = metaRemembered
	MetaIncarnation = metaIncarnation
	MetaRecovering  = metaRecovering
)

// essentialNames are the names of the copied records, besides the jobs: the identity, and what a
// peer with a new database needs to find its ring again.
var essentialNames = []string{metaIdentity, metaIncarnation, metaMemory, metaRemembered, metaEntries, metaAdmission, limits.MetaLimits}

// maxEssentials is the maximum size of the file, in bytes: a job's spec may have a mebibyte of
// seeds.
const maxEssentials = 1 << 30

// essentials is the content of the file. Sum is the checksum of Records as encoded: values by name,
// in hex, as jobs are binary.
type essentials struct {
	Format  uint64          `json:"format"` // storage.Format
	Sum     string          `json:"sum"`
	Records json.RawMessage `json:"records"`
}

// essentialsKeeper keeps the copy of a peer's essentials up to date. A peer that cannot write it
// runs anyway.
type essentialsKeeper struct {
	kept    kv.Store      // the peer's own records
	dir     string        // directory of the copy
	changed chan struct{} // holds a token while the copy is outdated
	log     *slog.Logger
}

func newEssentialsKeeper(kept kv.Store, dir string, log *slog.Logger) *essentialsKeeper {
	return &essentialsKeeper{kept: kept, dir: dir, changed: make(chan struct{}, 1), log: log}
}

// schedule schedules a write of the copy. It does not block.
func (k *essentialsKeeper) schedule() { loop.Wake(k.changed) }

// run writes the copy after each change, until ctx ends.
func (k *essentialsKeeper) run(ctx context.Context) error {
	for {
		select {
		case <-k.changed:
			k.save()
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *essentialsKeeper) save() {
	err := replaceEssentials(k.dir, func(record func(name string, value []byte)) error {
		return k.kept.Scan(nil, nil, func(key, value []byte) bool {
			if name := string(key); strings.HasPrefix(name, jobs.KeyPrefix) || slices.Contains(essentialNames, name) {
				record(name, value)
			}
			return true
		})
	})
	if err != nil {
		k.log.Warn("write copy of identity and jobs failed", "err", err)
	}
}

// WriteEssentials replaces the copy atomically: records about the peer by name.
func WriteEssentials(dir string, kept map[string][]byte) error {
	return replaceEssentials(dir, func(record func(name string, value []byte)) error {
		for name, value := range kept {
			record(name, value)
		}
		return nil
	})
}

func replaceEssentials(dir string, each func(record func(name string, value []byte)) error) error {
	if err := datadir.ReplaceBy(filepath.Join(dir, EssentialsFile), func(to io.Writer) error { return encodeEssentials(to, each) }); err != nil {
		return fmt.Errorf("copy of identity and jobs: %w", err)
	}
	return nil
}

// encodeEssentials writes record by record: the jobs of a ring may take more memory than all else.
func encodeEssentials(to io.Writer, each func(record func(name string, value []byte)) error) error {
	w, sum := bufio.NewWriter(to), sha256.New() // w keeps its first error until Flush
	_, _ = fmt.Fprintf(w, `{"format":%d,"records":`, storage.Format)
	records, next := io.MultiWriter(w, sum), "{"
	err := each(func(name string, value []byte) {
		_, _ = fmt.Fprintf(records, `%s"%x":"%s"`, next, name, base64.StdEncoding.EncodeToString(value))
		next = ","
	})
	_, _ = fmt.Fprint(records, strings.TrimPrefix(next, ","), "}")
	_, _ = fmt.Fprintf(w, `,"sum":"sha256:%x"}`, sum.Sum(nil))
	return errors.Join(err, w.Flush())
}

// ReadEssentials reads the copy: records about the peer by name.
func ReadEssentials(dir string) (map[string][]byte, error) {
	f, err := os.Open(filepath.Join(dir, EssentialsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxEssentials))
	if err != nil {
		return nil, err
	}
	var e essentials
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("read copy: %w", err)
	}
	if err := storage.CheckFormat(e.Format); err != nil {
		return nil, err
	}
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(e.Records)); sum != e.Sum {
		return nil, fmt.Errorf("checksum mismatch: %s, expected %s", sum, e.Sum)
	}
	coded, kept := make(map[string][]byte), make(map[string][]byte)
	if err := json.Unmarshal(e.Records, &coded); err != nil {
		return nil, fmt.Errorf("decode copy: %w", err)
	}
	for name, value := range coded {
		raw, err := hex.DecodeString(name)
		if err != nil {
			return nil, fmt.Errorf("decode copy: %w", err)
		}
		kept[string(raw)] = value
	}
	return kept, nil
}

// CheckEssentials returns an error if the copy of a peer is invalid.
func CheckEssentials(dir string, self peer.ID) error {
	kept, err := ReadEssentials(dir)
	if err != nil {
		return err
	}
	if name, err := member.NameOf(kept[metaIdentity]); err != nil || name != self.String() {
		return fmt.Errorf("belongs to another peer (%s)", name)
	}
	return nil
}

// checkDatabaseLost refuses a data directory whose database is gone: a run would begin as another
// peer, crawl everything again and replace the only copy of identity and jobs.
func checkDatabaseLost(dir string) error {
	if entries, err := os.ReadDir(filepath.Join(dir, "db")); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var left []string
	if _, err := os.Stat(filepath.Join(dir, EssentialsFile)); err == nil {
		left = append(left, "a copy of identity and jobs")
	}
	if archived, _ := warc.Files(crawling.ArchiveDir(dir), true); len(archived) > 0 {
		left = append(left, fmt.Sprintf("an archive (files: %d)", len(archived)))
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w: database missing in %s, which has %s; start a new peer with another --data-dir", storage.ErrDamaged, dir, strings.Join(left, " and "))
}

// Damaged reports whether an error means that database or archive are corrupt.
func Damaged(err error) bool {
	return errors.Is(err, storage.ErrDamaged) || errors.Is(err, warc.ErrDamaged)
}
