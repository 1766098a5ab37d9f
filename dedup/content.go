package dedup

import (
	"bytes"
	"cmp"
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/storage/kv"
)

// Key identifies a body: its ring position, or its digest. It must be uniformly distributed.
type Key [32]byte

const (
	// claimTTL is the lifetime of a claim: the time to compress, write and sync a page on a
	// slow disk, with a margin.
	claimTTL = 10 * time.Second
	// maxClaims is the maximum number of claims, some 250 bytes each.
	maxClaims = 1 << 16
)

// Verdict is the result of a claim for a body.
type Verdict int

// The verdicts.
const (
	New   Verdict = iota // archive it and confirm: the claim is valid until Until
	Known                // it is archived, see Record: write a revisit record
	Wait                 // claimed by another peer: retry before Until, or archive it anyway
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	return [...]string{"new", "known", "wait"}[v]
}

// Reply is the answer to a claim.
type Reply struct {
	Verdict Verdict   // the result
	Record  Record    // for Known
	Until   time.Time // for New and Wait: the expiry of the claim
}

// Claimant is the peer that claims a body and the URL where it found it. One peer that finds a body
// at two URLs is two claimants.
type Claimant struct {
	URL, Peer string // the URL is canonical, Peer is its ID in bytes
}

// Content is the state of an owner of content keys: a plain state machine for one goroutine at a
// time.
//
// A body goes from unknown to claimed to confirmed. Only a record makes a duplicate, since a
// claimant may crash. Between two records of one key the smaller by URL, then record ID, wins on
// every peer, independent of clocks.
type Content struct {
	records kv.Store
	max     int // maxClaims

	known  *layers // the keys with a record, and a few more
	gone   int     // approximate number of keys in known whose records were removed
	claims map[Key]*list.Element
	order  list.List // of *claim, oldest first; all have the same TTL, so it expires first
}

type claim struct {
	key   Key
	by    Claimant
	until time.Time
}

// NewContent reads the keys of all records, about a second for a few million, and returns a Content
// without claims.
func NewContent(records kv.Store) (*Content, error) {
	c := &Content{records: records, max: maxClaims, claims: map[Key]*list.Element{}}
	if err := c.fill(); err != nil {
		return nil, err
	}
	return c, nil
}

// fill builds the filter from the records.
func (c *Content) fill() error {
	known := newLayers()
	err := c.records.Scan(nil, nil, func(key, _ []byte) bool {
		if len(key) == len(Key{}) {
			known.add(Key(key).hash())
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read content records: %w", err)
	}
	c.known, c.gone = known, 0
	return nil
}

// hash uses the end of a key: the beginning is alike for all keys of an arc.
func (k Key) hash() uint64 { return binary.BigEndian.Uint64(k[24:]) }

// Claim answers a claim of by for the body with that key. Expired claims and those beyond the limit
// count as never made.
func (c *Content) Claim(now time.Time, key Key, by Claimant) (Reply, error) {
	record, ok, err := c.Lookup(key)
	if err != nil {
		return Reply{}, err
	}
	if ok {
		return Reply{Verdict: Known, Record: record}, nil
	}
	for e := c.order.Front(); e != nil && !now.Before(e.Value.(*claim).until); e = c.order.Front() {
		c.forget(e)
	}
	if e, ok := c.claims[key]; ok {
		held := e.Value.(*claim)
		if held.by != by {
			return Reply{Verdict: Wait, Until: held.until}, nil
		}
		c.forget(e)
	}
	if len(c.claims) >= c.max {
		c.forget(c.order.Front())
	}
	mine := &claim{key: key, by: by, until: now.Add(claimTTL)}
	c.claims[key] = c.order.PushBack(mine)
	return Reply{Verdict: New, Until: mine.until}, nil
}

// Confirm records that a body is archived, and returns the record that represents it from now on: r
// or a smaller one. It needs no claim, because archives contain what they confirm.
func (c *Content) Confirm(key Key, r Record) (Record, error) {
	if _, err := c.ConfirmAll([]Confirmation{{key, r}}); err != nil {
		return Record{}, err
	}
	held, _, err := c.Lookup(key)
	return held, err
}

// unclaim ends the claim of an archived body, if any.
func (c *Content) unclaim(key Key) {
	if e, ok := c.claims[key]; ok {
		c.forget(e)
	}
}

// Lookup returns the record of key, if any. A key without one costs a read only on a false positive
// of the filter.
func (c *Content) Lookup(key Key) (Record, bool, error) {
	if !c.known.test(key.hash()) {
		return Record{}, false, nil
	}
	value, ok, err := c.records.Get(key[:])
	if err != nil || !ok {
		return Record{}, false, wrap(err, key)
	}
	r, err := ParseRecord(value)
	if err != nil {
		return Record{}, false, wrap(err, key)
	}
	return r, true, nil
}

func wrap(err error, key Key) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read content record %x: %w", key[:4], err)
}

// Question is one claim of a batch.
type Question struct {
	Key Key      // digest of the body
	By  Claimant // the claimant
}

// ClaimAll answers a batch, reply i to question i, in the order of the keys for locality of disk
// reads; of two questions about one key the first comes first.
func (c *Content) ClaimAll(now time.Time, questions []Question) ([]Reply, error) {
	order := make([]int, len(questions))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(questions[a].Key[:], questions[b].Key[:]) })
	replies := make([]Reply, len(questions))
	for _, i := range order {
		reply, err := c.Claim(now, questions[i].Key, questions[i].By)
		if err != nil {
			return nil, err
		}
		replies[i] = reply
	}
	return replies, nil
}

// Confirmation is one confirmation of a batch.
type Confirmation struct {
	Key    Key    // digest of the body
	Record Record // where it is archived
}

// ConfirmAll confirms a batch with one write. After an error those before it are confirmed; the
// batch may be repeated. Callers need not wait for the disk; wait is never nil.
func (c *Content) ConfirmAll(batch []Confirmation) (wait func() error, err error) {
	m := merge{content: c, news: make(map[Key]news)}
	for _, b := range batch {
		if err = m.take(b.Key, b.Record); err != nil {
			break
		}
	}
	wait, failed := m.write()
	return wait, errors.Join(err, failed)
}

func (c *Content) forget(e *list.Element) {
	delete(c.claims, c.order.Remove(e).(*claim).key)
}

// compare orders records by URL, then record ID. The other fields only make the order total: record
// IDs are unique.
func (r Record) compare(s Record) int {
	return cmp.Or(strings.Compare(r.URL, s.URL), strings.Compare(r.RecordID, s.RecordID), strings.Compare(r.Peer, s.Peer),
		cmp.Compare(r.Date.UnixMilli(), s.Date.UnixMilli()))
}
