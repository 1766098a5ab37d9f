package membership

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// world is a set of peers that call each other directly.
type world map[peer.ID]*testPeer

// testPeer is one of them: its ring is its Book and a list of neighbors.
type testPeer struct {
	*Service
	mu    sync.Mutex
	book  *admission.Book
	leafs []dht.Peer
	fails atomic.Int64 // the number of calls to it that fail
}

func (p *testPeer) Admission(input func(b *admission.Book, now time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	input(p.book, time.Now())
}

func (p *testPeer) Leaves() (preds, succs []dht.Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leafs, nil
}

func (p *testPeer) Attachments() []dht.Peer { return nil }

func (p *testPeer) ends() (ends bool) {
	p.Admission(func(b *admission.Book, now time.Time) { ends = b.Ends(now) })
	return ends
}

// newPeer returns a peer of the ring of founder, or a founder if that is nil.
func (w world) newPeer(t *testing.T, founder *testPeer) *testPeer {
	t.Helper()
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := idOf(t, key)
	p := &testPeer{book: admission.NewBook("lab", id)}
	charter := admission.Charter{Founder: id}
	if founder != nil {
		charter.Founder = founder.Self
	}
	if err := p.book.Adopt(charter); err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, to peer.ID, _ string, req []byte) ([]byte, error) {
		if w[to].fails.Add(-1) >= 0 {
			return nil, errors.New("connection closed")
		}
		return w[to].Service.Service().Handle(ctx, id, req)
	}
	p.Service = New(Deps{
		Self: id, Key: key, Ring: p, Net: rpc.CallerFunc(call), Save: func() error { return nil }, Gone: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	w[id] = p
	return p
}

func idOf(t *testing.T, key crypto.PrivKey) peer.ID {
	t.Helper()
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w world) run(t *testing.T) {
	t.Helper()
	for _, p := range w {
		go func() { _ = p.Run(t.Context()) }()
	}
}

// TestRevocationReachesSubject: a revoked peer learns of it although calls to it fail at first; so
// does one that nobody sends it to, from its issuer.
func TestRevocationReachesSubject(t *testing.T) {
	for name, fails := range map[string]int64{"sent at once": 0, "sent again": 2, "requested": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world{}
				founder := w.newPeer(t, nil)
				a, b := w.newPeer(t, founder), w.newPeer(t, founder)
				w.run(t)
				for _, p := range []*testPeer{a, b} {
					if _, undelivered, err := founder.Invite(t.Context(), p.Self, time.Hour); err != nil || undelivered != nil {
						t.Fatal(err, undelivered)
					}
				}
				a.Admission(func(*admission.Book, time.Time) { a.leafs = []dht.Peer{{ID: b.Self}} })
				b.Admission(func(*admission.Book, time.Time) { b.leafs = []dht.Peer{{ID: a.Self}} })
				a.fails.Store(fails)
				if err := founder.Revoke(a.Self); err != nil {
					t.Fatal(err)
				}
				wait := 5 * time.Second
				if fails > sendTries {
					wait = 10 * time.Minute
				}
				time.Sleep(wait)
				synctest.Wait()
				if !a.ends() || b.ends() {
					t.Errorf("membership of the revoked peer has ended: %t; of the other: %t", a.ends(), b.ends())
				}
			})
		})
	}
}

// TestRenewalWhileIssuerRuns: a certificate of an hour is still valid after a day, and not an hour
// after the issuer has stopped.
func TestRenewalWhileIssuerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{}
		founder := w.newPeer(t, nil)
		a := w.newPeer(t, founder)
		w.run(t)
		if _, undelivered, err := founder.Invite(t.Context(), a.Self, time.Hour); err != nil || undelivered != nil {
			t.Fatal(err, undelivered)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if a.ends() {
			t.Error("not renewed")
		}
		founder.fails.Store(1 << 30)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if !a.ends() {
			t.Error("valid without its issuer")
		}
	})
}
