package crawling

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/warc"
)

// ServiceBodies is the service by which a peer proves that it has archived bodies.
const ServiceBodies = "bodies"

var proofMethod = rpc.Method[*wire.Proof, *wire.ProofReply]{
	Service: ServiceBodies,
	Check:   func(q *wire.Proof, a *wire.ProofReply) error { return a.Validate(len(q.GetDigest())) },
}

const (
	// proofTime bounds the wait for all proofs of a batch, and the work for those of one request.
	proofTime = time.Second
	// maxHolders bounds the holders queried at once: an owner of digests may name any peer.
	maxHolders = 8
	// silentFor is the backoff of a holder that did not answer. Until then bodies that only it is
	// recorded to have are archived again.
	silentFor = time.Minute
	// maxSeen bounds the cached locations of bodies, of some 300 bytes each and at most 8.5 kB, and
	// maxSilent the unresponsive holders.
	maxSeen   = 512
	maxSilent = 256
)

// BodiesDeps are the dependencies of Bodies.
type BodiesDeps struct {
	Space  *storage.Keyspace // locations of bodies
	Dir    string            // of the archive
	Self   peer.ID           // this peer
	Caller rpc.Caller        // sends requests to other holders
	Log    *slog.Logger      // logs holders that fail to prove bodies
}

// Bodies is the index of the bodies in this peer's archive. It proves to other peers that it has
// them, and verifies the proofs of others: a page becomes a reference only to a body that its
// worker, or the recorded holder, has. A false claim costs disk space, but no page.
type Bodies struct {
	deps BodiesDeps
	desk loop.Desk // limits the readers of the archive

	seen   *lru.Cache[[32]byte, pages.Original] // locations of bodies looked up
	silent *lru.Cache[peer.ID, time.Time]       // unresponsive holders, with the end of their backoff

	mu    sync.Mutex
	fresh []held // in the archive, and not indexed yet
}

// held is a body in the archive.
type held struct {
	digest [32]byte
	at     warc.Ref
}

// NewBodies returns an index on top of d.Space.
func NewBodies(d BodiesDeps) *Bodies {
	b := &Bodies{deps: d}
	b.seen, _ = lru.New[[32]byte, pages.Original](maxSeen) // positive sizes have no error
	b.silent, _ = lru.New[peer.ID, time.Time](maxSilent)
	return b
}

// add adds an archived body; it is indexed with the next write.
func (b *Bodies) add(digest [32]byte, at warc.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = append(b.fresh, held{digest, at})
}

// take returns the bodies added since the last call.
func (b *Bodies) take() []held {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := b.fresh
	b.fresh = nil
	return fresh
}

// write stores the locations of bodies. If a crash loses them, the bodies are archived again.
func (b *Bodies) write(list []held) error {
	if len(list) == 0 {
		return nil
	}
	return b.deps.Space.UpdateNoSync(func(batch kv.Batch) {
		for i := range list {
			PutBody(batch, list[i].digest[:], list[i].at)
		}
	})
}

// PutBody sets where the archive has a body, in storage.KeyspaceBodies.
func PutBody(batch kv.Batch, digest []byte, at warc.Ref) {
	place := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(at.File)), uint64(max(at.Offset, 0)))
	batch.Set(digest, append(place, at.File...))
}

// errNotHeld: the archive has no such body.
var errNotHeld = errors.New("no such body in the archive")

// open opens the record of a body, positioned after its head.
func (b *Bodies) open(digest [32]byte) (*os.File, *warc.Record, error) {
	place, ok, err := b.deps.Space.Get(digest[:])
	if err != nil {
		return nil, nil, err
	}
	offset, n := binary.Uvarint(place)
	if !ok || n <= 0 {
		return nil, nil, errNotHeld
	}
	f, err := warc.OpenFile(b.deps.Dir, string(place[n:]))
	if err != nil {
		return nil, nil, err
	}
	rec, err := recordAt(f, int64(offset)) // converted from int64
	if err == nil && (rec.Type != warc.TypeResponse || rec.Get("WARC-Payload-Digest") != "sha256:"+hex.EncodeToString(digest[:])) {
		err = errNotHeld // the file was repaired, and has other records there
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, rec, nil
}

func recordAt(f *os.File, offset int64) (*warc.Record, error) {
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return warc.NewReaderAt(f, false, offset).Next()
}

// own returns the record of a body in this peer's archive.
func (b *Bodies) own(digest [32]byte) (o pages.Original, ok bool) {
	f, rec, err := b.open(digest)
	if err != nil {
		if !errors.Is(err, errNotHeld) {
			b.deps.Log.Debug("body not found at its recorded location", "err", err)
		}
		return o, false
	}
	defer f.Close()
	return pages.Original{URL: rec.TargetURI, RecordID: rec.ID, Date: rec.Date}, true
}

// proofOf returns the proof that a holder has a body: under a key that is not known in advance, and
// bound to that holder, so that it cannot relay the proof of another.
func proofOf(key []byte, holder peer.ID, body io.Reader) ([]byte, error) {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, string(holder))
	if _, err := io.Copy(mac, body); err != nil {
		return nil, err
	}
	return mac.Sum(nil), nil
}

// show returns the proof of a body of this peer's archive.
func (b *Bodies) show(key []byte, digest [32]byte) ([]byte, error) {
	f, rec, err := b.open(digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := rec.HTTPHead(); err != nil {
		return nil, err
	}
	return proofOf(key, b.deps.Self, rec)
}

// Service answers requests for proofs.
func (b *Bodies) Service() rpc.Service {
	return proofMethod.Handle(rpc.Anyone("caller is a member, or works on one of the hosts, as their owner confirms; one request at a time"), b.answer)
}

func (b *Bodies) answer(ctx context.Context, _ peer.ID, req *wire.Proof) (*wire.ProofReply, error) {
	if !rpc.OfWorker(ctx, func() []string { return hostsOf(req.GetUrl()) }) {
		return nil, rpc.Busy("caller is not a known worker")
	}
	done, err := b.desk.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	end := time.Now().Add(proofTime)
	reply := &wire.ProofReply{Proof: make([][]byte, len(req.GetDigest()))}
	for i, digest := range req.GetDigest() {
		if ctx.Err() != nil || time.Now().After(end) {
			break // the requester no longer waits
		}
		if proof, err := b.show(req.GetKey(), [32]byte(digest)); err == nil {
			reply.Proof[i] = proof
		}
	}
	return reply, nil
}

// believe changes answers from known to New if no holder proves the body. This peer's own archive
// is checked first: the reference then stays within it.
func (b *Bodies) believe(ctx context.Context, questions []pages.Question, answers []dedup.Reply) {
	doubted := make(map[peer.ID][]int)
	for i := range answers {
		a := &answers[i]
		if a.Verdict != dedup.Known {
			continue
		}
		if o, ok := b.find(questions[i].Digest); ok {
			a.Record.URL, a.Record.RecordID, a.Record.Date = o.URL, o.RecordID, o.Date
			continue
		}
		a.Verdict = dedup.New
		if holder := peer.ID(a.Record.Peer); holder != b.deps.Self {
			doubted[holder] = append(doubted[holder], i)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(maxHolders)
	for holder, places := range doubted {
		group.Go(func() error {
			for part := range slices.Chunk(places, wire.MaxProofs) {
				b.ask(ctx, holder, questions, answers, part)
			}
			return nil
		})
	}
	_ = group.Wait() // returns no error
}

// find returns the location of a body that is here, or that was proved.
func (b *Bodies) find(digest [32]byte) (o pages.Original, ok bool) {
	if o, ok = b.seen.Get(digest); !ok {
		if o, ok = b.own(digest); ok {
			b.seen.Add(digest, o)
		}
	}
	return o, ok
}

// ask requests proofs of the bodies at those places from a holder; what it proves is known.
func (b *Bodies) ask(ctx context.Context, holder peer.ID, questions []pages.Question, answers []dedup.Reply, places []int) {
	if until, ok := b.silent.Get(holder); ctx.Err() != nil || ok && time.Now().Before(until) {
		return
	}
	req := &wire.Proof{Key: make([]byte, sha256.Size)}
	_, _ = rand.Read(req.Key) // never fails
	for _, i := range places {
		req.Digest = append(req.Digest, questions[i].Digest[:])
		req.Url = append(req.Url, []byte(questions[i].URL))
	}
	reply, err := proofMethod.Call(ctx, b.deps.Caller, holder, req)
	if err != nil {
		b.deps.Log.Debug("no answer from holder of bodies; archiving them again", "peer", holder, "bodies", len(places), "err", err)
		b.silent.Add(holder, time.Now().Add(silentFor))
		return
	}
	for k, i := range places {
		want, _ := proofOf(req.GetKey(), holder, bytes.NewReader(questions[i].Body)) // no error: it is in memory
		if !hmac.Equal(want, reply.GetProof()[k]) {
			b.deps.Log.Debug("no proof of a body from its holder; archiving it again", "peer", holder, "url", questions[i].URL)
			continue
		}
		answers[i].Verdict = dedup.Known
		r := &answers[i].Record
		b.seen.Add(questions[i].Digest, pages.Original{URL: r.URL, RecordID: r.RecordID, Date: r.Date})
	}
}
