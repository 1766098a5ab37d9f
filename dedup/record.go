package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/storage/kv"
)

// Record is the place where a body was archived first. Records come from other peers too.
type Record struct {
	URL      string    // canonical, where the body was found
	Peer     string    // the peer with the archive
	RecordID string    // of the WARC record
	Date     time.Time // of the WARC record, to the millisecond
}

// maxRecordField is the maximum size of each string of a record, in bytes; URLs are shorter.
const maxRecordField = 16 << 10

// ErrRecord reports bytes that are not a record, or a record that is too large.
var ErrRecord = errors.New("malformed content record")

func (r Record) check() error {
	for _, s := range []string{r.URL, r.Peer, r.RecordID} {
		if len(s) > maxRecordField {
			return fmt.Errorf("%w: field of %d bytes", ErrRecord, len(s))
		}
	}
	return nil
}

// append appends three length-prefixed strings, and the date in milliseconds since 1970.
func (r Record) append(b []byte) []byte {
	for _, s := range []string{r.URL, r.Peer, r.RecordID} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return binary.AppendVarint(b, r.Date.UnixMilli())
}

// ParseRecord decodes a stored record. The error is ErrRecord.
func ParseRecord(b []byte) (Record, error) {
	var r Record
	f := kv.Fields{Rest: b}
	for _, s := range []*string{&r.URL, &r.Peer, &r.RecordID} {
		*s = string(f.Bytes(maxRecordField))
	}
	if f.Bad {
		return Record{}, fmt.Errorf("%w: field length", ErrRecord)
	}
	ms, size := binary.Varint(f.Rest)
	if size <= 0 || size != len(f.Rest) {
		return Record{}, fmt.Errorf("%w: date", ErrRecord)
	}
	r.Date = time.UnixMilli(ms).UTC()
	return r, nil
}
