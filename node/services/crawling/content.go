package crawling

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceContent is the service of the owners of bodies.
const ServiceContent = "content"

// contentMethod queries whether bodies are known, and confirms archived bodies.
var contentMethod = rpc.Method[*wire.Content, *wire.ContentReply]{
	Service: ServiceContent,
	Check:   func(q *wire.Content, a *wire.ContentReply) error { return a.Validate(len(q.GetClaimDigest())) },
}

// ContentsDeps are the dependencies of Contents.
type ContentsDeps struct {
	// Records are the records of the bodies that this peer owns.
	Records kv.Store
	Router  *rpc.Router  // finds the owners of bodies
	Bodies  *Bodies      // verifies that holders have their bodies
	Self    peer.ID      // this peer
	Log     *slog.Logger // logs unresponsive owners
}

// Contents implements both sides of content claims: it answers for the keys that this peer owns,
// and queries the owners of the others.
type Contents struct {
	*loop.Serial // serializes access to State
	State        *dedup.Content

	deps ContentsDeps
	// workers limits the requests of untrusted peers.
	workers *loop.Paces
}

// workerBodies is the rate of bodies a second that one worker may claim or confirm, and workerBurst
// the burst: more than a machine at home fetches.
const workerBodies, workerBurst = 1000, 4 * wire.MaxQuestions

var _ pages.Content = (*Contents)(nil)

// NewContents returns Contents that answer once Run is called.
func NewContents(d ContentsDeps) (*Contents, error) {
	state, err := dedup.NewContent(d.Records)
	if err != nil {
		return nil, err
	}
	return &Contents{Serial: loop.NewSerial(), State: state, deps: d, workers: loop.NewPaces(workerBodies, workerBurst, loop.MaxPeers)}, nil
}

// Claim implements pages.Content. A question without an answer (no owner, an unreachable one)
// counts as a new body, and so does a known body that no holder proves: a duplicate costs little, a
// lost body is not acceptable.
func (c *Contents) Claim(ctx context.Context, q []pages.Question) ([]pages.Answer, error) {
	answers := make([]pages.Answer, len(q))
	replies, answered := c.ask(ctx, q, nil)
	for i, a := range replies {
		answers[i].Assumed = !answered[i] || a.Verdict == dedup.Known // until a holder proves it
	}
	c.deps.Bodies.believe(ctx, q, replies)
	for i, a := range replies {
		switch a.Verdict {
		case dedup.Known:
			answers[i] = pages.Answer{Verdict: pages.Known, Original: pages.Original{URL: a.Record.URL, RecordID: a.Record.RecordID, Date: a.Record.Date}}
		case dedup.Wait:
			answers[i] = pages.Answer{Verdict: pages.Wait}
		case dedup.New:
		}
	}
	return answers, nil
}

// Confirm implements pages.Content.
func (c *Contents) Confirm(ctx context.Context, list []reports.Confirmation) error {
	c.ask(ctx, nil, list)
	return nil
}

// Service answers peers.
func (c *Contents) Service() rpc.Service {
	return contentMethod.Handle(rpc.Anyone("caller is a member, or works on one of the hosts, as their owner confirms; this peer serves the digest"), c.answer)
}

// answer answers the claims and confirmations of a peer.
func (c *Contents) answer(ctx context.Context, from peer.ID, req *wire.Content) (*wire.ContentReply, error) {
	if !rpc.OfWorker(ctx, func() []string { return hostsOf(req.GetClaimUrl(), req.GetConfirmUrl()) }) {
		return nil, rpc.Busy("caller is not a known worker")
	}
	if n := len(req.GetClaimDigest()) + len(req.GetConfirmDigest()); !c.workers.Allow(time.Now(), string(from), n) && !rpc.OfMember(ctx) {
		return nil, rpc.Busy("rate limit of claims and confirmations exceeded")
	}
	claims := make([]pages.Question, len(req.GetClaimDigest()))
	reply := &wire.ContentReply{}
	for i := range claims {
		claims[i] = pages.Question{Digest: [32]byte(req.GetClaimDigest()[i]), URL: string(req.GetClaimUrl()[i])}
		if !c.deps.Router.Ring.Serves(ring.ContentKey(claims[i].Digest[:])) {
			reply.Moved = append(reply.Moved, uint32(i)) // bounded by MaxQuestions
		}
	}
	confirms := make([]reports.Confirmation, len(req.GetConfirmDigest()))
	for i := range confirms {
		confirms[i] = reports.Confirmation{
			Digest: [32]byte(req.GetConfirmDigest()[i]), URL: string(req.GetConfirmUrl()[i]),
			RecordID: "urn:uuid:" + uuid.UUID(req.GetConfirmRecord()[i]).String(), Date: time.UnixMilli(req.GetConfirmMs()[i]),
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

// hostsOf returns the hosts of URLs, possibly with duplicates.
func hostsOf(urls ...[][]byte) (hosts []string) {
	for _, url := range slices.Concat(urls...) {
		if host := link.Host(string(url)); len(hosts) == 0 || hosts[len(hosts)-1] != host {
			hosts = append(hosts, host)
		}
	}
	return hosts
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

// apply applies the confirmations and claims of a peer to the state.
func (c *Contents) apply(ctx context.Context, from peer.ID, claims []pages.Question, confirms []reports.Confirmation) ([]dedup.Reply, error) {
	by := string(from)
	questions := make([]dedup.Question, len(claims))
	for i, q := range claims {
		questions[i] = dedup.Question{Key: dedup.Key(ring.ContentKey(q.Digest[:])), By: dedup.Claimant{URL: q.URL, Peer: by}}
	}
	batch := make([]dedup.Confirmation, len(confirms))
	for i, k := range confirms {
		batch[i] = dedup.Confirmation{
			Key:    dedup.Key(ring.ContentKey(k.Digest[:])),
			Record: dedup.Record{URL: k.URL, Peer: by, RecordID: k.RecordID, Date: k.Date},
		}
	}
	return loop.Get(ctx, c.Serial, func() ([]dedup.Reply, error) {
		if _, err := c.State.ConfirmAll(batch); err != nil { // the requester does not wait for the disk
			return nil, err
		}
		return c.State.ClaimAll(time.Now(), questions)
	})
}

// share is the part of a batch for one owner.
type share struct {
	to       peer.ID
	claims   []int
	confirms []int
}

// split groups a batch by the presumed owners; entries without one are not sent.
func (c *Contents) split(claims []pages.Question, confirms []reports.Confirmation) []*share {
	shares := make(map[peer.ID]*share)
	var order []*share
	of := func(digest [32]byte) *share {
		key := ring.ContentKey(digest[:])
		to := c.deps.Self
		if !c.deps.Router.Ring.Serves(key) {
			p, ok := c.deps.Router.Ring.Guess(key)
			if !ok || p.ID == c.deps.Self {
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
		if s := of(claims[i].Digest); s != nil {
			s.claims = append(s.claims, i)
		}
	}
	for i := range confirms {
		if s := of(confirms[i].Digest); s != nil {
			s.confirms = append(s.confirms, i)
		}
	}
	return order
}

// contentTimeout is the timeout of a claim: after it the body counts as new, which costs little.
const contentTimeout = 2 * time.Second

// ask sends a batch to the owners concurrently. A claim without an answer (no owner, an unreachable
// one) has the verdict New: a duplicate costs little, a lost body is not acceptable. Answered
// distinguishes such a verdict from that of an owner.
func (c *Contents) ask(ctx context.Context, claims []pages.Question, confirms []reports.Confirmation) (answers []dedup.Reply, answered []bool) {
	ctx, cancel := context.WithTimeout(ctx, contentTimeout)
	defer cancel()
	answers, answered = make([]dedup.Reply, len(claims)), make([]bool, len(claims)) // the zero verdict is New
	seek(ctx, c.deps.Router, "", func(yield func(ring.Key) bool) {
		for i := range claims {
			if !yield(ring.ContentKey(claims[i].Digest[:])) {
				return
			}
		}
		for i := range confirms {
			if !yield(ring.ContentKey(confirms[i].Digest[:])) {
				return
			}
		}
	})
	var shares []*share
	for _, s := range c.split(claims, confirms) {
		shares = append(shares, s.parts()...)
	}
	var wg sync.WaitGroup
	for i, s := range shares {
		if i == len(shares)-1 {
			c.askOne(ctx, s, claims, confirms, answers, answered) // the last one runs here
			break
		}
		wg.Go(func() { c.askOne(ctx, s, claims, confirms, answers, answered) })
	}
	wg.Wait()
	return answers, answered
}

// parts splits a share by the limit of one message.
func (s *share) parts() (list []*share) {
	claims, confirms := s.claims, s.confirms
	for len(claims)+len(confirms) > 0 {
		n, k := min(len(claims), wire.MaxQuestions), min(len(confirms), wire.MaxQuestions)
		list = append(list, &share{to: s.to, claims: claims[:n], confirms: confirms[:k]})
		claims, confirms = claims[n:], confirms[k:]
	}
	return list
}

// askOne sends a share to its owner and stores the answers at their places.
func (c *Contents) askOne(ctx context.Context, s *share, claims []pages.Question, confirms []reports.Confirmation, answers []dedup.Reply, answered []bool) {
	mine := make([]pages.Question, len(s.claims))
	for k, i := range s.claims {
		mine[k] = claims[i]
	}
	told := make([]reports.Confirmation, len(s.confirms))
	for k, i := range s.confirms {
		told[k] = confirms[i]
	}
	var got []dedup.Reply
	var err error
	if s.to == c.deps.Self {
		got, err = c.apply(ctx, c.deps.Self, mine, told)
	} else {
		got, err = c.remote(ctx, s.to, mine, told)
	}
	if err != nil {
		c.deps.Log.Debug("no answer from content owner; bodies count as new", "peer", s.to, "err", err)
		return
	}
	for k, i := range s.claims {
		answers[i], answered[i] = got[k], true
	}
}

func (c *Contents) remote(ctx context.Context, to peer.ID, claims []pages.Question, confirms []reports.Confirmation) ([]dedup.Reply, error) {
	req := &wire.Content{}
	for i := range claims {
		req.ClaimDigest = append(req.ClaimDigest, claims[i].Digest[:])
		req.ClaimUrl = append(req.ClaimUrl, []byte(claims[i].URL))
	}
	for i := range confirms {
		id, err := uuid.Parse(confirms[i].RecordID)
		if err != nil {
			return nil, fmt.Errorf("content record %q: %w", confirms[i].RecordID, err)
		}
		req.ConfirmDigest = append(req.ConfirmDigest, confirms[i].Digest[:])
		req.ConfirmUrl = append(req.ConfirmUrl, []byte(confirms[i].URL))
		req.ConfirmRecord = append(req.ConfirmRecord, id[:])
		req.ConfirmMs = append(req.ConfirmMs, confirms[i].Date.UnixMilli())
	}
	reply, err := contentMethod.Call(ctx, c.deps.Router, to, req)
	if err != nil {
		return nil, err
	}
	if moved := reply.GetMoved(); len(moved) > 0 {
		// The answer is accepted, since the peer may have the record nevertheless; the next query for
		// such keys goes to their owner.
		_, _ = c.deps.Router.Owner(ctx, ring.ContentKey(claims[moved[0]].Digest[:]), true)
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
