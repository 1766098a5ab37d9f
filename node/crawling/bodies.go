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

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/warc"
)

// ServiceBodies is the service by which a peer shows that it has archived bodies.
const ServiceBodies = "bodies"

var proofMethod = rpc.Method[*wire.Proof, *wire.ProofReply]{
	Service: ServiceBodies,
	Check:   func(q *wire.Proof, a *wire.ProofReply) error { return a.Validate(len(q.GetDigest())) },
}

const (
	// proofTime bounds the wait for all proofs of a batch, and the work for those of one request.
	proofTime = time.Second
	// maxHolders bounds the holders that are asked at once: whoever owns digests may name anybody.
	maxHolders = 8
	// silentFor is how long a holder that did not answer is not asked again. Until then what only
	// it is said to have is archived again.
	silentFor = time.Minute
	// maxSeen bounds what is remembered of where bodies lie, in bytes, and maxSilent the holders that
	// did not answer.
	maxSeen   = 1 << 20
	maxSilent = 256
)

// BodiesDeps are what bodies use of the peer.
type BodiesDeps struct {
	Space  *storage.Keyspace // says where they lie
	Dir    string            // of the archive
	Self   peer.ID           // this peer
	Caller rpc.Caller        // reaches the holders of others
	Log    *slog.Logger      // hears of holders that do not show what they are said to have
}

// Bodies knows which bodies lie in this peer's archive, shows them to others, and has others show
// theirs: a page becomes a reference to a body that its worker, or who is said to have it, does
// have. Whoever says more than it has costs room on disk, and no page.
type Bodies struct {
	deps BodiesDeps
	desk loop.Desk // for those who read the archive

	mu     sync.Mutex
	fresh  []held                               // in the archive, and not noted yet
	seen   *aging.Map[[32]byte, pages.Original] // where bodies lie that were looked for
	silent *aging.Map[peer.ID, time.Time]       // holders that did not answer, and until when they are let be
}

// held is a body in the archive.
type held struct {
	digest [32]byte
	at     warc.Ref
}

// NewBodies returns what knows nothing beyond its space.
func NewBodies(d BodiesDeps) *Bodies {
	return &Bodies{
		deps: d,
		seen: aging.New[[32]byte](maxSeen, originalBytes), silent: aging.New[peer.ID, time.Time](maxSilent, nil),
	}
}

// originalBytes is about what is kept of a body that was looked for.
func originalBytes(o pages.Original) int { return 200 + len(o.URL) + len(o.RecordID) }

// add takes a body that was archived; it counts from the next write on.
func (b *Bodies) add(digest [32]byte, at warc.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = append(b.fresh, held{digest, at})
}

// take returns what was added since the last call.
func (b *Bodies) take() []held {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := b.fresh
	b.fresh = nil
	return fresh
}

// write notes where bodies lie. A crash of the machine may lose it, and they are archived again.
func (b *Bodies) write(list []held) error {
	if len(list) == 0 {
		return nil
	}
	return b.deps.Space.UpdateNoSync(func(batch kv.Batch) {
		var place []byte
		for i := range list {
			place = binary.AppendUvarint(place[:0], uint64(max(list[i].at.Offset, 0)))
			batch.Set(list[i].digest[:], append(place, list[i].at.File...))
		}
	})
}

// errNotHeld: there is no such body in the archive.
var errNotHeld = errors.New("no such body in the archive")

// open opens the record of a body, which is to be read behind its head.
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
	rec, err := recordAt(f, int64(offset)) // written from one
	if err == nil && (rec.Type != warc.TypeResponse || rec.Get("WARC-Payload-Digest") != "sha256:"+hex.EncodeToString(digest[:])) {
		err = errNotHeld // the file was mended, and other records lie there
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

// own is the record of a body in this peer's archive.
func (b *Bodies) own(digest [32]byte) (o pages.Original, ok bool) {
	f, rec, err := b.open(digest)
	if err != nil {
		if !errors.Is(err, errNotHeld) {
			b.deps.Log.Debug("body not found where it was archived", "err", err)
		}
		return o, false
	}
	defer f.Close()
	return pages.Original{URL: rec.TargetURI, RecordID: rec.ID, Date: rec.Date}, true
}

// proofOf is what the holder of a body can say, and nobody else: under a key that is not known
// before, and of that holder alone, so that it cannot have another say it.
func proofOf(key []byte, holder peer.ID, body io.Reader) ([]byte, error) {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, string(holder))
	if _, err := io.Copy(mac, body); err != nil {
		return nil, err
	}
	return mac.Sum(nil), nil
}

// show is the proof of a body of this peer's archive.
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

// Service shows bodies to peers.
func (b *Bodies) Service() rpc.Service {
	return proofMethod.Handle(rpc.Anyone("that the caller is a member, or works on one of the hosts, as their owner says; one request after another"), b.answer)
}

func (b *Bodies) answer(ctx context.Context, _ peer.ID, req *wire.Proof) (*wire.ProofReply, error) {
	if !rpc.OfWorker(ctx, func() []string { return hostsOf(req.GetUrl()) }) {
		return nil, rpc.Busy("bodies are shown to workers, and the caller is not known to be one")
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
			break // the asker has no use for more
		}
		if proof, err := b.show(req.GetKey(), [32]byte(digest)); err == nil {
			reply.Proof[i] = proof
		}
	}
	return reply, nil
}

// believe makes New what the answers call known and nobody shows. What this peer has itself is
// looked up first: the reference then stays within its archive.
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
	_ = group.Wait() // none fails
}

// find says where a body lies that is here, or that was shown.
func (b *Bodies) find(digest [32]byte) (o pages.Original, ok bool) {
	b.mu.Lock()
	o, ok = b.seen.Get(digest)
	b.mu.Unlock()
	if !ok {
		if o, ok = b.own(digest); ok {
			b.saw(digest, o)
		}
	}
	return o, ok
}

func (b *Bodies) saw(digest [32]byte, o pages.Original) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.Set(digest, o)
}

// ask has a holder show the bodies at those places; what it shows is known.
func (b *Bodies) ask(ctx context.Context, holder peer.ID, questions []pages.Question, answers []dedup.Reply, places []int) {
	if ctx.Err() != nil || b.isSilent(holder) {
		return
	}
	req := &wire.Proof{Key: make([]byte, sha256.Size)}
	_, _ = rand.Read(req.Key) // it does not fail
	for _, i := range places {
		req.Digest = append(req.Digest, questions[i].Digest[:])
		req.Url = append(req.Url, []byte(questions[i].URL))
	}
	reply, err := proofMethod.Call(ctx, b.deps.Caller, holder, req)
	if err != nil {
		b.deps.Log.Debug("holder of bodies does not answer, they are archived again", "peer", holder, "bodies", len(places), "err", err)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.silent.Set(holder, time.Now().Add(silentFor))
		return
	}
	for k, i := range places {
		want, _ := proofOf(req.GetKey(), holder, bytes.NewReader(questions[i].Body)) // no error: it is in memory
		if !hmac.Equal(want, reply.GetProof()[k]) {
			b.deps.Log.Debug("holder does not show a body, it is archived again", "peer", holder, "url", questions[i].URL)
			continue
		}
		answers[i].Verdict = dedup.Known
		r := &answers[i].Record
		b.saw(questions[i].Digest, pages.Original{URL: r.URL, RecordID: r.RecordID, Date: r.Date})
	}
}

// isSilent says that a holder did not answer lately.
func (b *Bodies) isSilent(holder peer.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.silent.Get(holder)
	return ok && time.Now().Before(until)
}
