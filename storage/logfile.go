package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// The form of a log of recent writes: blocks of 32 KiB with chunks that do not cross them; a record
// is one chunk or several. Each chunk has a sum, a length, its part in the record and the number of
// the log, so that one that follows damage is found again: the library's reader ends at damage, and
// could begin again only with the next block, behind dozens of records.
const (
	logBlock    = 32 << 10
	chunkHead   = 11 // sum (4), length (2), kind (1), number of the log (4)
	syncedHead  = chunkHead + 8
	chunkKinds  = 12
	firstOfKind = 5 // of recyclable chunks: full, first, middle, last; four more of those that tell how far the log was synced
)

const (
	chunkFull = iota
	chunkFirst
	chunkMiddle
	chunkLast
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedSum is the sum as chunks and blocks hold it.
func maskedSum(p []byte) uint32 { return masked(crc32.Checksum(p, castagnoli)) }

func masked(sum uint32) uint32 { return sum>>15 | sum<<17 + 0xa282ead8 }

// logFile reads the batches of a log, those behind damage too.
type logFile struct {
	path  string
	last  bool // the one that was written to last
	fault func(Fault)
	batch func(repr []byte) error

	raw     []byte
	number  uint32
	unclean bool // it has no end: the process was killed, or what it held behind is gone
}

// chunk returns the part and payload of the chunk at a place, and where the next one may begin;
// false if there is none.
func (l *logFile) chunk(at int) (part int, payload []byte, next int, ok bool) {
	room := logBlock - at%logBlock
	if room < chunkHead || at+chunkHead > len(l.raw) {
		return 0, nil, 0, false
	}
	head := l.raw[at:]
	kind, size := int(head[6]), chunkHead
	if kind < firstOfKind || kind > chunkKinds || binary.LittleEndian.Uint32(head[7:]) != l.number {
		return 0, nil, 0, false
	}
	if kind >= firstOfKind+4 {
		size = syncedHead
	}
	end := size + int(binary.LittleEndian.Uint16(head[4:]))
	if end > room || at+end > len(l.raw) || maskedSum(head[6:end]) != binary.LittleEndian.Uint32(head) {
		return 0, nil, 0, false
	}
	return (kind - firstOfKind) % 4, head[size:end], at + end, true
}

// ends says that the log was closed at a place: a chunk of the log that would come next.
func (l *logFile) ends(at int) bool {
	if at+chunkHead > len(l.raw) {
		return false
	}
	head := l.raw[at:]
	return binary.LittleEndian.Uint32(head) == 0 && binary.LittleEndian.Uint16(head[4:]) == 0 && binary.LittleEndian.Uint32(head[7:]) == l.number+1
}

// isPadding says that there is nothing between two places: a chunk did not fit into what was left
// of a block.
func (l *logFile) isPadding(from, to int) bool {
	return to%logBlock == 0 && to-from < syncedHead && len(bytes.Trim(l.raw[from:to], "\x00")) == 0
}

// read calls batch for every whole record and tells what is wrong.
func (l *logFile) read() (err error) {
	if l.raw, err = os.ReadFile(l.path); err != nil {
		return fmt.Errorf("check storage: %w", err)
	}
	l.number = numberOf(filepath.Base(l.path))
	var record []byte
	inside := false
	for at := 0; ; {
		part, payload, next, ok := l.chunk(at)
		if !ok {
			if l.ends(at) && !inside {
				return nil
			}
			if next = l.resync(at); next < 0 {
				l.tellEnd(at, inside)
				return nil
			}
			if !l.isPadding(at, next) {
				l.tell(Fault{Text: fmt.Sprintf("%d unreadable bytes at %d; recent writes lost", next-at, at), Lost: true})
				inside = false
			}
			at = next
			continue
		}
		at = next
		switch {
		case part == chunkFull || part == chunkFirst:
			record, inside = append(record[:0], payload...), true
		case !inside:
			continue // the rest of a record whose beginning is lost
		default:
			record = append(record, payload...)
		}
		if inside && (part == chunkFull || part == chunkLast) {
			inside = false
			if err := l.batch(record); err != nil {
				return err
			}
		}
	}
}

func (l *logFile) tell(f Fault) {
	f.File = filepath.Base(l.path)
	l.fault(f)
}

// resync finds the next chunk of this log behind a place, or its end; -1 if there is none.
func (l *logFile) resync(at int) int {
	for at++; at+chunkHead <= len(l.raw); at++ {
		if _, _, _, ok := l.chunk(at); ok || l.ends(at) {
			return at
		}
	}
	return -1
}

// tellEnd says what a log means that just stops.
func (l *logFile) tellEnd(at int, inside bool) {
	l.unclean = true
	left := len(bytes.TrimRight(l.raw[at:], "\x00"))
	switch {
	case !l.last:
		l.tell(Fault{Text: fmt.Sprintf("truncated at byte %d of %d; recent writes lost", at, len(l.raw)), Lost: true})
	case left > 0 || inside:
		l.tell(Fault{Text: fmt.Sprintf("%d trailing bytes are not a record (killed while writing, or corrupt)", left), Note: true})
	default:
		l.tell(Fault{Text: "not closed: killed while writing, or truncated", Note: true})
	}
}
