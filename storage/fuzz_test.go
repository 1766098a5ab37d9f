package storage

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// logChunk writes a whole record as it stands in log 7.
func logChunk(payload string) []byte {
	b := make([]byte, 4, chunkHead+len(payload))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(payload))) //nolint:gosec // short
	b = append(b, firstOfKind+chunkFull)
	b = append(binary.LittleEndian.AppendUint32(b, 7), payload...)
	binary.LittleEndian.PutUint32(b, maskedSum(b[6:]))
	return b
}

// FuzzLog: whatever a log holds, reading it ends, and what it gives is no more than the file has.
func FuzzLog(f *testing.F) {
	one, two := logChunk("the first batch"), logChunk("the second")
	end := binary.LittleEndian.AppendUint32(make([]byte, 7), 8)
	f.Add([]byte{})
	f.Add(bytes.Join([][]byte{one, two, end}, nil))
	f.Add(bytes.Join([][]byte{one, []byte("damage"), two}, nil))
	f.Add(bytes.Join([][]byte{one, two[:len(two)-3]}, nil))
	f.Add(bytes.Join([][]byte{one, make([]byte, logBlock-len(one)), two}, nil))
	path := filepath.Join(f.TempDir(), "000007.log")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		given, faults := 0, 0
		l := logFile{path: path, last: true, fault: func(Fault) { faults++ }, batch: func(repr []byte) error {
			given += len(repr)
			return nil
		}}
		if err := l.read(); err != nil {
			t.Fatal(err)
		}
		if given > len(raw) || faults > len(raw)+1 {
			t.Errorf("%d bytes and %d faults of %d", given, faults, len(raw))
		}
	})
}

// FuzzFindBlocks: blocks that are found by their sums follow each other, and their sums are right.
func FuzzFindBlocks(f *testing.F) {
	var raw []byte
	for _, text := range []string{"a block", "another one"} {
		b := append([]byte(text), 0)
		raw = binary.LittleEndian.AppendUint32(append(raw, b...), maskedSum(b))
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		at := uint64(0)
		for _, h := range findBlocks(raw) {
			end := h.Offset + h.Length + 1
			if h.Offset != at || end+4 > uint64(len(raw)) || maskedSum(raw[h.Offset:end]) != binary.LittleEndian.Uint32(raw[end:]) {
				t.Fatalf("a block of %d bytes at %d of %d, the last ended at %d", h.Length, h.Offset, len(raw), at)
			}
			at = h.Offset + h.Length + block.TrailerLen
		}
	})
}
