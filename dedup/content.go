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

// Key names a body: its place on the ring, or its digest. It must be uniform.
type Key [32]byte

// Starting values, changed where measurement says so.
const (
	// DefaultClaimTTL is how long a claim holds: the time to compress, write and sync a page on a
	// slow disk, and a bit.
	DefaultClaimTTL = 10 * time.Second
	// DefaultMaxClaims bounds the claims that are remembered, some 250 bytes each.
	DefaultMaxClaims = 1 << 16
)

// Verdict is what an asker shall do with a body.
type Verdict int

// The verdicts.
const (
	New   Verdict = iota // archive it and confirm: the claim is yours until Until
	Known                // it is archived, as Record says: write a revisit
	Wait                 // another peer claimed it: ask again before Until, and archive it yourself if you would rather not wait
)

// String is the verdict in lower case.
func (v Verdict) String() string {
	return [...]string{"new", "known", "wait"}[v]
}

// Reply is the answer to a claim.
type Reply struct {
	Verdict Verdict   // what the asker shall do
	Record  Record    // of Known
	Until   time.Time // of New and Wait: when the claim ends
}

// Claimant is who claims a body, and at which URL it was found. One peer that finds a body at two
// URLs is two claimants.
type Claimant struct {
	URL, Peer string // the URL is canonical, the peer its ID in bytes
}

// Content is what the owner of content keys knows: a plain state machine for one goroutine at a
// time.
//
// A body goes from unknown to claimed to confirmed. Only a record makes a duplicate, since a
// claimant may crash. Between two records of one key the smaller by URL, then record ID, wins on
// every peer alike, whatever their clocks say.
type Content struct {
	records kv.Store
	ttl     time.Duration
	max     int

	known  *layers // the keys with a record, and a few more
	gone   int     // keys in known whose records were removed, about
	claims map[Key]*list.Element
	order  list.List // of *claim, the oldest in front; all have the same TTL, so it ends first
}

type claim struct {
	key   Key
	by    Claimant
	until time.Time
}

// NewContent reads the keys of all records, which takes about a second for a few million, and
// returns an owner's state without claims. Zero values mean DefaultClaimTTL and DefaultMaxClaims.
func NewContent(records kv.Store, ttl time.Duration, maxClaims int) (*Content, error) {
	if ttl == 0 {
		ttl = DefaultClaimTTL
	}
	if maxClaims == 0 {
		maxClaims = DefaultMaxClaims
	}
	c := &Content{records: records, ttl: ttl, max: maxClaims, claims: map[Key]*list.Element{}}
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

// hash is of the end of a key: the beginning is alike for all keys of an arc.
func (k Key) hash() uint64 { return binary.BigEndian.Uint64(k[24:]) }

// Claim answers by for a body with that key. A claim that ended, and one beyond the bound, is as if
// never made.
func (c *Content) Claim(now time.Time, key Key, by Claimant) (Reply, error) {
	record, ok, err := c.Lookup(key)
	if err != nil {
		return Reply{}, err
	}
	if ok {
		return Reply{Verdict: Known, Record: record}, nil
	}
	c.expire(now)
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
	mine := &claim{key: key, by: by, until: now.Add(c.ttl)}
	c.claims[key] = c.order.PushBack(mine)
	return Reply{Verdict: New, Until: mine.until}, nil
}

// Confirm notes that a body is archived, and returns the record that stands for it from now on: r
// or a smaller one. A confirmation counts with or without a claim, since archives do not lie about
// what they hold.
func (c *Content) Confirm(key Key, r Record) (Record, error) {
	if _, err := c.ConfirmAll([]Confirmation{{key, r}}); err != nil {
		return Record{}, err
	}
	held, _, err := c.Lookup(key)
	return held, err
}

// unclaim ends whatever claim there is, as the body is archived.
func (c *Content) unclaim(key Key) {
	if e, ok := c.claims[key]; ok {
		c.forget(e)
	}
}

// Release ends the claim of by, when it cannot archive the body after all. Another's claim stays.
func (c *Content) Release(key Key, by Claimant) {
	if e, ok := c.claims[key]; ok && e.Value.(*claim).by == by {
		c.forget(e)
	}
}

// Lookup returns the record of key if there is one. A key without one costs no read, but for the
// filter's few mistakes.
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

// Question is one of a batch of claims.
type Question struct {
	Key Key      // digest of the body
	By  Claimant // who asks, and for which URL
}

// ClaimAll answers a batch, reply i to question i. It asks in the order of the keys, so that reads
// on disk lie together; of two questions about one key the first is served first.
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

// Confirmation is one of a batch of confirmations.
type Confirmation struct {
	Key    Key    // digest of the body
	Record Record // where it is archived now
}

// ConfirmAll confirms a batch with one write. After an error those before it are confirmed; all may
// be confirmed again. Nobody needs to wait until it is on disk; wait is never nil.
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

// ContentStats says how much is known.
type ContentStats struct {
	Records       int     // about
	Claims        int     // with those that ended and were not yet swept
	FilterBytes   int     // memory of the filter of known digests
	FalsePositive float64 // share of questions about unknown bodies that cost a read, expected
}

// Stats returns how much is known.
func (c *Content) Stats() ContentStats {
	return ContentStats{max(0, c.known.len()-c.gone), len(c.claims), c.known.bytes(), c.known.falsePositive()}
}

func (c *Content) expire(now time.Time) {
	for e := c.order.Front(); e != nil && !now.Before(e.Value.(*claim).until); e = c.order.Front() {
		c.forget(e)
	}
}

func (c *Content) forget(e *list.Element) {
	delete(c.claims, c.order.Remove(e).(*claim).key)
}

// compare orders records by URL, then record ID. What follows only makes the order total: record
// IDs do not repeat.
func (r Record) compare(s Record) int {
	return cmp.Or(strings.Compare(r.URL, s.URL), strings.Compare(r.RecordID, s.RecordID), strings.Compare(r.Peer, s.Peer),
		cmp.Compare(r.Date.UnixMilli(), s.Date.UnixMilli()))
}
