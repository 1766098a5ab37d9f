package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/storage/kv"
)

// Record says where a body was archived first. Records come from other peers too.
type Record struct {
	URL      string    // at which the body was found, canonical
	Peer     string    // who holds the archive
	RecordID string    // of the WARC record
	Date     time.Time // of the WARC record, to the millisecond
}

// maxRecordField bounds each string of a record, in bytes. No URL that a crawl admits is longer.
const maxRecordField = 16 << 10

// ErrRecord says that bytes are not a record, or that a record is too large to be written.
var ErrRecord = errors.New("malformed content record")

// AppendBinary appends the record to b: three strings with their lengths, and the date in
// milliseconds since 1970. The error is ErrRecord when a string is over maxRecordField.
func (r Record) AppendBinary(b []byte) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.append(b), nil
}

func (r Record) check() error {
	for _, s := range []string{r.URL, r.Peer, r.RecordID} {
		if len(s) > maxRecordField {
			return fmt.Errorf("%w: field of %d bytes", ErrRecord, len(s))
		}
	}
	return nil
}

func (r Record) append(b []byte) []byte {
	for _, s := range []string{r.URL, r.Peer, r.RecordID} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return binary.AppendVarint(b, r.Date.UnixMilli())
}

// ParseRecord reads what AppendBinary wrote. The error is ErrRecord.
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
