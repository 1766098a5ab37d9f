package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// serviceContent is the service of the owners of bodies.
const serviceContent = "content"

// aboutBodies asks whether bodies were met before, and tells of others that they are archived.
var aboutBodies = rpc.Method[*wire.Content, *wire.ContentReply]{
	Service: serviceContent,
	Check:   func(q *wire.Content, a *wire.ContentReply) error { return a.Validate(len(q.GetClaimDigest())) },
}

// contentRecords lends the keyspace of confirmed records to dedup. A batch is written without a sync of its own, since hardly anybody waits for one: a
// record that is lost costs a second copy of a body.
type contentRecords struct{ *storage.Keyspace }

// Update implements kv.Store.
func (c contentRecords) Update(fn func(kv.Batch)) (wait func() error, err error) {
	return c.write(func(b *storage.Batch) error {
		fn(b)
		return nil
	})
}

func (c contentRecords) write(fn func(*storage.Batch) error) (wait func() error, err error) {
	return sync.OnceValue(c.sync), c.UpdateNoSync(fn)
}

// sync returns when all that was written is on disk, which what is written now takes along: a deletion of nothing.
func (c contentRecords) sync() error {
	wait, err := c.Keyspace.Update(func(b *storage.Batch) error {
		b.Delete(nil)
		return nil
	})
	if err != nil {
		return err
	}
	return wait()
}

// contents is both sides of the content questions: it answers for the keys that this peer serves, and asks the owners of the others.
type contents struct {
	state  *dedup.Content
	loop   *loop.Serial
	router *rpc.Router
	self   peer.ID
	log    *slog.Logger
}

func newContents(records kv.Store, self peer.ID, r *rpc.Router, log *slog.Logger) (*contents, error) {
	state, err := dedup.NewContent(records, 0, 0)
	if err != nil {
		return nil, err
	}
	return &contents{state: state, loop: loop.NewSerial(), router: r, self: self, log: log}, nil
}

// claim is one question: was this body met before?
type claim struct {
	digest [32]byte
	url    string
}

// confirmation says that a body is archived.
type confirmation struct {
	digest [32]byte
	url    string
	record string // urn:uuid:...
	date   time.Time
}

func (c *contents) handler() p2p.Handler { return aboutBodies.Handle(c.answer) }

// answer answers the questions of a peer.
func (c *contents) answer(ctx context.Context, from peer.ID, req *wire.Content) (*wire.ContentReply, error) {
	claims := make([]claim, len(req.GetClaimDigest()))
	reply := &wire.ContentReply{}
	for i := range claims {
		claims[i] = claim{digest: [32]byte(req.GetClaimDigest()[i]), url: string(req.GetClaimUrl()[i])}
		if !c.router.Ring.Serves(ring.ContentKey(claims[i].digest[:])) {
			reply.Moved = append(reply.Moved, uint32(i)) //nolint:gosec // bounded by MaxQuestions
		}
	}
	confirms := make([]confirmation, len(req.GetConfirmDigest()))
	for i := range confirms {
		confirms[i] = confirmation{
			digest: [32]byte(req.GetConfirmDigest()[i]), url: string(req.GetConfirmUrl()[i]),
			record: "urn:uuid:" + uuid.UUID(req.GetConfirmRecord()[i]).String(), date: time.UnixMilli(req.GetConfirmMs()[i]),
		}
	}
	answers, err := c.apply(ctx, from, claims, confirms)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		appendAnswer(reply, a)
	}
	return reply, nil
}

func appendAnswer(reply *wire.ContentReply, a dedup.Reply) {
	reply.Verdict = append(reply.Verdict, byte(a.Verdict))
	reply.Url = append(reply.Url, []byte(a.Record.URL))
	reply.Peer = append(reply.Peer, []byte(a.Record.Peer))
	var id []byte
	if u, err := uuid.Parse(a.Record.RecordID); err == nil {
		id = u[:]
	}
	reply.Record = append(reply.Record, id)
	reply.DateMs = append(reply.DateMs, a.Record.Date.UnixMilli())
}

// apply puts confirmations and claims of a peer to the state.
func (c *contents) apply(ctx context.Context, from peer.ID, claims []claim, confirms []confirmation) ([]dedup.Reply, error) {
	by := string(from)
	questions := make([]dedup.Question, len(claims))
	for i, q := range claims {
		questions[i] = dedup.Question{Key: dedup.Key(ring.ContentKey(q.digest[:])), By: dedup.Claimant{URL: q.url, Peer: by}}
	}
	batch := make([]dedup.Confirmation, len(confirms))
	for i, k := range confirms {
		batch[i] = dedup.Confirmation{
			Key:    dedup.Key(ring.ContentKey(k.digest[:])),
			Record: dedup.Record{URL: k.url, Peer: by, RecordID: k.record, Date: k.date},
		}
	}
	var answers []dedup.Reply
	var err error
	derr := c.loop.Do(ctx, func() {
		if _, err = c.state.ConfirmAll(batch); err == nil { // the asker does not wait for the disk
			answers, err = c.state.ClaimAll(time.Now(), questions)
		}
	})
	if derr != nil {
		return nil, derr
	}
	return answers, err
}

// share is what goes to one owner of a batch.
type share struct {
	to       peer.ID
	claims   []int
	confirms []int
}

// split groups a batch by the believed owners; what nobody is believed to own goes nowhere.
func (c *contents) split(claims []claim, confirms []confirmation) []*share {
	shares := make(map[peer.ID]*share)
	var order []*share
	of := func(digest [32]byte) *share {
		key := ring.ContentKey(digest[:])
		to := c.self
		if !c.router.Ring.Serves(key) {
			p, ok := c.router.Ring.Guess(key)
			if !ok || p.ID == c.self {
				return nil
			}
			to = p.ID
		}
		s := shares[to]
		if s == nil {
			s = &share{to: to}
			shares[to] = s
			order = append(order, s)
		}
		return s
	}
	for i := range claims {
		if s := of(claims[i].digest); s != nil {
			s.claims = append(s.claims, i)
		}
	}
	for i := range confirms {
		if s := of(confirms[i].digest); s != nil {
			s.confirms = append(s.confirms, i)
		}
	}
	return order
}

// contentTimeout bounds a question about bodies: after it the body counts as new, which is cheap.
const contentTimeout = 2 * time.Second

// ask puts a batch to the owners, all at the same time. A claim without an answer (no owner, an unreachable one) has the verdict New:
// a body stored twice is cheap, a lost one is not.
func (c *contents) ask(ctx context.Context, claims []claim, confirms []confirmation) []dedup.Reply {
	ctx, cancel := context.WithTimeout(ctx, contentTimeout)
	defer cancel()
	answers := make([]dedup.Reply, len(claims)) // the zero verdict is New
	var shares []*share
	for _, s := range c.split(claims, confirms) {
		shares = append(shares, s.parts()...)
	}
	var wg sync.WaitGroup
	for i, s := range shares {
		if i == len(shares)-1 {
			c.askOne(ctx, s, claims, confirms, answers) // the last one needs no goroutine
			break
		}
		wg.Go(func() { c.askOne(ctx, s, claims, confirms, answers) })
	}
	wg.Wait()
	return answers
}

// parts cuts a share into what one message may hold.
func (s *share) parts() (list []*share) {
	claims, confirms := s.claims, s.confirms
	for len(claims)+len(confirms) > 0 {
		n, k := min(len(claims), wire.MaxQuestions), min(len(confirms), wire.MaxQuestions)
		list = append(list, &share{to: s.to, claims: claims[:n], confirms: confirms[:k]})
		claims, confirms = claims[n:], confirms[k:]
	}
	return list
}

// askOne puts a share to its owner and fills in the answers at its places.
func (c *contents) askOne(ctx context.Context, s *share, claims []claim, confirms []confirmation, answers []dedup.Reply) {
	mine := make([]claim, len(s.claims))
	for k, i := range s.claims {
		mine[k] = claims[i]
	}
	told := make([]confirmation, len(s.confirms))
	for k, i := range s.confirms {
		told[k] = confirms[i]
	}
	var got []dedup.Reply
	var err error
	if s.to == c.self {
		got, err = c.apply(ctx, c.self, mine, told)
	} else {
		got, err = c.remote(ctx, s.to, mine, told)
	}
	if err != nil {
		c.log.Debug("content owner did not answer, bodies count as new", "peer", s.to, "err", err)
		return
	}
	for k, i := range s.claims {
		answers[i] = got[k]
	}
}

func (c *contents) remote(ctx context.Context, to peer.ID, claims []claim, confirms []confirmation) ([]dedup.Reply, error) {
	req := &wire.Content{}
	for i := range claims {
		req.ClaimDigest = append(req.ClaimDigest, claims[i].digest[:])
		req.ClaimUrl = append(req.ClaimUrl, []byte(claims[i].url))
	}
	for i := range confirms {
		id, err := uuid.Parse(confirms[i].record)
		if err != nil {
			return nil, fmt.Errorf("content record %q: %w", confirms[i].record, err)
		}
		req.ConfirmDigest = append(req.ConfirmDigest, confirms[i].digest[:])
		req.ConfirmUrl = append(req.ConfirmUrl, []byte(confirms[i].url))
		req.ConfirmRecord = append(req.ConfirmRecord, id[:])
		req.ConfirmMs = append(req.ConfirmMs, confirms[i].date.UnixMilli())
	}
	reply, err := aboutBodies.Call(ctx, c.router, to, req)
	if err != nil {
		return nil, err
	}
	if moved := reply.GetMoved(); len(moved) > 0 {
		// Its word stands, since it may hold the record all the same; the next question about such keys goes to their owner.
		_, _ = c.router.Owner(ctx, ring.ContentKey(claims[moved[0]].digest[:]), true)
	}
	return replies(reply), nil
}

func replies(reply *wire.ContentReply) []dedup.Reply {
	out := make([]dedup.Reply, len(reply.GetVerdict()))
	for i, v := range reply.GetVerdict() {
		out[i].Verdict = dedup.Verdict(v)
		switch out[i].Verdict {
		case dedup.Known:
			r := dedup.Record{URL: string(reply.GetUrl()[i]), Peer: string(reply.GetPeer()[i]), Date: time.UnixMilli(reply.GetDateMs()[i])}
			if id, err := uuid.FromBytes(reply.GetRecord()[i]); err == nil {
				r.RecordID = "urn:uuid:" + id.String()
			}
			out[i].Record = r
		case dedup.Wait:
		default:
			out[i].Verdict = dedup.New
		}
	}
	return out
}
