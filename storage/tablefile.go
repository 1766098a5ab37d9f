package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// prefixBundle is how many keys of a block share a prefix; the library's own value, which a block
// does not tell.
const prefixBundle = 16

// maxBlock bounds a block of a table, in bytes as it is stored: a value of some mebibytes has one
// of its own.
const maxBlock = 64 << 20

// tableFile is one table of the database.
type tableFile struct {
	path   string
	file   objstorage.Readable
	reader *sstable.Reader // nil if what leads to the blocks is damaged
	err    error           // why
}

func openTable(path string) (*tableFile, error) {
	f, err := vfs.Default.Open(path)
	if err != nil {
		return nil, fmt.Errorf("check storage: %w", err)
	}
	file, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, fmt.Errorf("check storage: %w", errors.Join(err, f.Close()))
	}
	t := &tableFile{path: path, file: file}
	t.err = caught(func() (err error) {
		t.reader, err = sstable.NewReader(context.Background(), file, sstable.ReaderOptions{})
		return err
	})
	if t.err != nil {
		t.reader = nil
	}
	return t, nil
}

func (t *tableFile) close() error { return t.file.Close() }

// caught turns a panic of the library, its answer to some damage, into an error.
func caught(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return fn()
}

// checkTable tells what is wrong with a table; with data it checks the sums of all blocks, else
// only those that lead to them.
func checkTable(path string, data bool, tell func(Fault)) error {
	t, err := openTable(path)
	if err != nil {
		return err
	}
	err = t.err
	if err == nil {
		err = caught(func() error {
			if data {
				return t.reader.ValidateBlockChecksums()
			}
			_, err := t.reader.Layout()
			return err
		})
	}
	if err != nil {
		tell(Fault{File: filepath.Base(path), Text: strings.TrimPrefix(plain(err), "file 000000: "), Lost: true})
	}
	return t.close()
}

// entry is a change of a key as it is stored.
type entry struct {
	key, value []byte
	seq        uint64
	kind       pebble.InternalKeyKind
}

// span is a deletion of all keys from lo up to hi.
type span struct {
	lo, hi []byte
	seq    uint64
}

// read calls each for every entry of the blocks that can be read, lent for the call, and tells how
// many cannot.
func (t *tableFile) read(each func(*entry) error, deleted func(span) error, tell func(Fault)) error {
	blocks, found := t.blocks()
	if !found {
		raw, err := os.ReadFile(t.path)
		if err != nil {
			return fmt.Errorf("salvage storage: %w", err)
		}
		blocks = findBlocks(raw)
	}
	bad, lost := 0, uint64(0)
	for _, h := range blocks {
		derr, err := t.block(h, each)
		if err != nil {
			return err
		}
		if derr != nil && found {
			bad, lost = bad+1, lost+h.Length
		}
	}
	if bad > 0 {
		t.tell(tell, "%d of %d record blocks unreadable, %d bytes", bad, len(blocks), lost)
	}
	if !found {
		t.tell(tell, "index corrupt (%s); %d blocks found without it", plain(t.err), len(blocks))
		return nil
	}
	return t.spans(deleted, tell)
}

func (t *tableFile) tell(tell func(Fault), format string, args ...any) {
	tell(Fault{File: filepath.Base(t.path), Text: fmt.Sprintf(format, args...), Lost: true})
}

// blocks are those with records, as the table's index has them.
func (t *tableFile) blocks() (list []block.Handle, ok bool) {
	if t.reader == nil {
		return nil, false
	}
	t.err = caught(func() error {
		layout, err := t.reader.Layout()
		if err != nil {
			return err
		}
		for i := range layout.Data {
			list = append(list, layout.Data[i].Handle)
		}
		return nil
	})
	return list, t.err == nil
}

// spans reads the deletions of ranges.
func (t *tableFile) spans(deleted func(span) error, tell func(Fault)) error {
	var failed error
	err := caught(func() error {
		it, err := t.reader.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
		if err != nil || it == nil {
			return err
		}
		defer it.Close()
		s, err := it.First()
		for ; s != nil && err == nil; s, err = it.Next() {
			for i := range s.Keys {
				if failed = deleted(span{lo: bytes.Clone(s.Start), hi: bytes.Clone(s.End), seq: uint64(s.Keys[i].SeqNum())}); failed != nil {
					return nil
				}
			}
		}
		return err
	})
	if err != nil {
		t.tell(tell, "range deletions unreadable (%s): removed records may reappear", plain(err))
	}
	return failed
}

// findBlocks finds the blocks of a table from its beginning on by their sums: each ends where the
// sum of all before is.
func findBlocks(raw []byte) (list []block.Handle) {
	begin, sum := 0, uint32(0)
	for at := 0; at+block.TrailerLen <= len(raw) && at-begin < maxBlock; at++ {
		sum = crc32.Update(sum, castagnoli, raw[at:at+1])
		if at > begin && binary.LittleEndian.Uint32(raw[at+1:]) == masked(sum) {
			list = append(list, block.Handle{Offset: uint64(begin), Length: uint64(at - begin)}) //nolint:gosec // places
			at += block.TrailerLen - 1
			begin, sum = at+1, 0
		}
	}
	return list
}

// block calls each for the entries of a block. Others than those of records, which are among those
// that are found by their sums, have other columns; reading them panics. Damage is what is wrong
// with the block, failed is the error of each.
func (t *tableFile) block(h block.Handle, each func(*entry) error) (damage, failed error) {
	schema := colblk.DefaultKeySchema(pebble.DefaultComparer, prefixBundle)
	damage = caught(func() error {
		var r block.Reader
		r.Init(t.file, block.ReaderOptions{LoggerAndTracer: silent{}}, block.ChecksumTypeCRC32c)
		begin := func(md *block.Metadata, data []byte) error {
			return colblk.InitDataBlockMetadata(&schema, md, data)
		}
		buf, err := r.Read(context.Background(), block.NoReadEnv, nil, h, blockkind.SSTableData, begin)
		if err != nil {
			return err
		}
		var it colblk.DataBlockIter
		it.InitOnce(&schema, pebble.DefaultComparer, nil)
		if err := it.InitHandle(pebble.DefaultComparer, buf, block.NoTransforms); err != nil {
			return err
		}
		defer func() { _ = it.Close() }()
		for kv := it.First(); kv != nil && failed == nil; kv = it.Next() {
			value, _, err := kv.V.Value(nil)
			if err != nil {
				continue // an older version that is kept elsewhere
			}
			failed = each(&entry{key: kv.K.UserKey, value: value, seq: uint64(kv.K.SeqNum()), kind: kv.K.Kind()})
		}
		return it.Error()
	})
	return damage, failed
}
