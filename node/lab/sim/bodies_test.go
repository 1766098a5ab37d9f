package sim

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/wire"
)

const (
	// claimLinger is how long a claim waits to share a batch, contentTimeout the timeout of its
	// answer: then the body counts as new.
	claimLinger    = 100 * time.Millisecond
	contentTimeout = 2 * time.Second
)

// bodies is both sides of content deduplication: this peer answers for the keys that it serves, and
// its worker asks the owners of the others.
type bodies struct {
	c       *crawlPeer
	state   *dedup.Content
	asking  []*inquiry
	planned bool
}

// inquiry is a claim of a body, with the callback for the verdict, or the confirmation of one,
// without.
type inquiry struct {
	key    dedup.Key
	digest [32]byte
	url    string
	told   func(dedup.Verdict)
	at     time.Time
}

func newBodies(c *crawlPeer) *bodies {
	b := &bodies{c: c}
	state, err := dedup.NewContent(shipped{&c.disk.bodies, &bodySpace, c.ship.append})
	if err != nil {
		c.world.fail(err)
	}
	b.state = state
	return b
}

// claim asks whether a body was seen before.
func (b *bodies) claim(digest [32]byte, url string, told func(dedup.Verdict)) {
	b.put(&inquiry{dedup.Key(ring.ContentKey(digest[:])), digest, url, told, b.c.world.Now()})
}

// confirm reports that a body is archived.
func (b *bodies) confirm(digest [32]byte, url string) {
	b.put(&inquiry{key: dedup.Key(ring.ContentKey(digest[:])), digest: digest, url: url, at: b.c.world.Now()})
}

func (b *bodies) put(q *inquiry) {
	b.asking = append(b.asking, q)
	if !b.planned {
		b.planned = true
		b.c.Host.After(claimLinger, b.flush)
	}
}

// flush sends inquiries to the likely owners. Bodies without one count as new.
func (b *bodies) flush() {
	all := b.asking
	b.asking, b.planned = nil, false
	shares := make(map[peer.ID][]*inquiry)
	var order []peer.ID
	for _, q := range all {
		p, ok := b.c.Guess(ring.Key(q.key))
		if !ok {
			b.c.Lookup(ring.Key(q.key), func(found dht.Lookup, err error) {
				if err != nil {
					tell([]*inquiry{q}, nil)
					return
				}
				b.ask(found.Owner.ID, []*inquiry{q})
			})
			continue
		}
		if shares[p.ID] == nil {
			order = append(order, p.ID)
		}
		shares[p.ID] = append(shares[p.ID], q)
	}
	for _, to := range order {
		b.ask(to, shares[to])
	}
}

// tell delivers the verdicts on the claims among inquiries, New where there is none.
func tell(list []*inquiry, verdicts []dedup.Reply) {
	n := 0
	for _, q := range list {
		if q.told == nil {
			continue
		}
		verdict := dedup.New
		if n < len(verdicts) {
			verdict = verdicts[n].Verdict
		}
		n++
		q.told(verdict)
	}
}

// ask sends a batch to its owner.
func (b *bodies) ask(to peer.ID, list []*inquiry) {
	w := b.c.world
	from := string(b.c.Peer.ID)
	if to == b.c.Peer.ID {
		replies, _ := b.answer(from, list)
		tell(list, replies)
		return
	}
	w.request(b.c, to, &request{
		Purpose: Content, Size: questionSize(list), Timeout: contentTimeout,
		Handle: func(target *crawlPeer, reply func(int, any)) {
			replies, size := target.bodies.answer(from, list)
			reply(size, replies)
		},
		Done: func(answer any, _ error) {
			replies, _ := answer.([]dedup.Reply)
			tell(list, replies)
		},
	})
}

// record returns the WARC record of a body at a peer.
func record(q *inquiry, peer string) dedup.Record {
	return dedup.Record{URL: q.url, Peer: peer, RecordID: fmt.Sprintf("urn:uuid:%x", q.digest[:16]), Date: q.at}
}

// answer applies a peer's confirmations and claims; it returns the replies and their size.
func (b *bodies) answer(from string, list []*inquiry) (replies []dedup.Reply, size int) {
	var questions []dedup.Question
	var batch []dedup.Confirmation
	for _, q := range list {
		if q.told != nil {
			questions = append(questions, dedup.Question{Key: q.key, By: dedup.Claimant{URL: q.url, Peer: from}})
		} else {
			batch = append(batch, dedup.Confirmation{Key: q.key, Record: record(q, from)})
		}
	}
	if _, err := b.state.ConfirmAll(batch); err != nil {
		b.c.world.fail(err)
	}
	b.c.ship.pump()
	replies, err := b.state.ClaimAll(b.c.world.Now(), questions)
	if err != nil {
		b.c.world.fail(err)
	}
	m := &wire.ContentReply{}
	for i := range replies {
		r := &replies[i].Record
		m.Verdict = append(m.Verdict, byte(replies[i].Verdict))
		m.Url, m.Peer, m.Record = append(m.Url, []byte(r.URL)), append(m.Peer, []byte(r.Peer)), append(m.Record, make([]byte, min(16, len(r.RecordID))))
		m.DateMs = append(m.DateMs, r.Date.UnixMilli())
	}
	return replies, proto.Size(m)
}

func questionSize(list []*inquiry) int {
	m := &wire.Content{}
	for _, q := range list {
		if q.told != nil {
			m.ClaimDigest, m.ClaimUrl = append(m.ClaimDigest, q.digest[:]), append(m.ClaimUrl, []byte(q.url))
			continue
		}
		m.ConfirmDigest, m.ConfirmUrl = append(m.ConfirmDigest, q.digest[:]), append(m.ConfirmUrl, []byte(q.url))
		m.ConfirmRecord, m.ConfirmMs = append(m.ConfirmRecord, q.digest[:16]), append(m.ConfirmMs, q.at.UnixMilli())
	}
	return proto.Size(m)
}
