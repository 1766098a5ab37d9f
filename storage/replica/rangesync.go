package replica

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Range sync updates a follower that is new, or was away: it compares the digests of small ranges
// of keys, and sends the records of those that differ.

// Scan requests records from key Lo on, until Bytes of them are found or there are no more. Pass
// them to Scanned.
type Scan struct {
	ID    uint64 // for Scanned
	Lo    []byte // first key
	Bytes int    // stop at this size of keys and values
}

// scanned is a span with its records.
type scanned struct {
	lo, hi []byte
	ops    []Op
}

// Records collects the records of a Scan.
type Records struct {
	scan  Scan
	limit int // of a span
	reads int // of the scan
	spans []scanned
	size  int // of all
	last  int // of the last span
	read  int // records, including skipped ones
	end   bool
}

// Collect begins to collect the records of a scan.
func (s *Source) Collect(scan Scan) *Records {
	return &Records{scan: scan, limit: s.cfg.Span, reads: s.cfg.Reads}
}

// Add adds a record, which is copied, in key order; false means that the scan is complete, and this
// record was not added.
func (r *Records) Add(key, value []byte) bool {
	if len(r.spans) == 0 {
		r.spans = append(r.spans, scanned{lo: r.scan.Lo})
	} else if r.last >= r.limit {
		bound := r.cut(key)
		if r.size >= r.scan.Bytes || len(r.spans) == MaxRanges {
			return false
		}
		r.spans = append(r.spans, scanned{lo: bound})
		r.last = 0
	}
	r.read++
	s := &r.spans[len(r.spans)-1]
	op := Op{Kind: Set, Key: slices.Clone(key), Value: append([]byte{}, value...)}
	s.ops = append(s.ops, op)
	r.last += op.size()
	r.size += op.size()
	return true
}

// Skip counts a record that is not replicated; false means that the scan is complete.
func (r *Records) Skip(key []byte) bool {
	if r.read++; r.read < r.reads {
		return true
	}
	if len(r.spans) == 0 {
		r.spans = append(r.spans, scanned{lo: r.scan.Lo})
	}
	r.cut(key)
	return false
}

// cut ends the last span before a key.
func (r *Records) cut(key []byte) (bound []byte) {
	bound = slices.Clone(key)
	r.spans[len(r.spans)-1].hi = bound
	return bound
}

// End marks the end of all records.
func (r *Records) End() {
	r.end = true
	if len(r.spans) == 0 {
		r.spans = append(r.spans, scanned{lo: r.scan.Lo})
	}
}

// Scanned takes the records of a Scan that Next requested; err if it failed. If ok, the caller must
// send the call.
func (s *Source) Scanned(now time.Time, r *Records, err error) (call Call, ok bool) {
	f := s.under(r.scan.ID)
	if f == nil {
		return Call{}, false
	}
	f.busy = 0
	if err != nil || f.stream == 0 || !f.current {
		s.broken(now, f)
		return Call{}, false
	}
	m := &message{lo: r.scan.Lo}
	for i := range r.spans {
		sc := &r.spans[i]
		m.spans = append(m.spans, span{hi: sc.hi, sum: sum(func(fn func(key, value []byte)) {
			for k := range sc.ops {
				fn(sc.ops[k].Key, sc.ops[k].Value)
			}
		})})
	}
	f.spans, f.atEnd, f.sending = r.spans, r.end, f.acked
	s.calls++
	f.busy = s.calls
	f.message = s.message(f, m).encode()
	return Call{f.busy, f.name, f.message}, true
}

// compared continues range sync: it sends the spans that differ, and then moves the cursor.
func (s *Source) compared(now time.Time, f *follower, differ []int) {
	if len(f.spans) > 0 {
		for _, i := range differ {
			sc := &f.spans[i]
			f.rest = append(f.rest, Op{Kind: DeleteRange, Key: lower(sc.lo), Value: upper(sc.hi)})
			f.rest = append(f.rest, sc.ops...)
		}
		f.ahead = f.spans[len(f.spans)-1].hi
		f.spans = nil
		f.again = now.Add(s.cfg.SyncPause)
		if f.ahead == nil {
			f.ahead = upper(nil)
		}
	}
	if len(f.rest) == 0 && f.ahead != nil {
		f.cursor, f.ahead = f.ahead, nil
		if f.atEnd {
			f.walked, f.reach = true, s.seq
		}
	}
	// The ranges were read at different times. They are a consistent state once every entry from then
	// is there.
	f.level = f.walked && f.acked >= f.reach
}

// records moves records of the rest into one message. A span is replaced as a whole.
func (s *Source) records(f *follower) *message {
	size, n := 0, 0
	for n < len(f.rest) && (n == 0 || size < s.cfg.Message) {
		size += f.rest[n].size()
		n++
	}
	m := &message{ops: f.rest[:n:n]}
	f.rest = f.rest[n:]
	m.part = len(f.rest) > 0 && f.rest[0].Kind != DeleteRange
	f.sending = f.acked
	return m
}

// lower and upper replace open ends: keys begin with the byte of a keyspace, which is a letter.
func lower(lo []byte) []byte {
	if len(lo) == 0 {
		return []byte{0}
	}
	return lo
}

func upper(hi []byte) []byte {
	if len(hi) == 0 {
		return []byte{0xff}
	}
	return hi
}

// sum returns the digest of records in order.
func sum(each func(fn func(key, value []byte))) digest {
	h := sha256.New()
	var room [2 * binary.MaxVarintLen64]byte
	each(func(key, value []byte) {
		head := binary.AppendUvarint(room[:0], uint64(len(key)))
		head = binary.AppendUvarint(head, uint64(len(value)))
		h.Write(head)
		h.Write(key)
		h.Write(value)
	})
	return digest(h.Sum(nil))
}
