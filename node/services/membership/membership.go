// Package membership issues, renews and revokes the certificates of a ring by invitation, and
// exchanges them between peers. In an open ring it has nothing to do.
package membership

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// ServiceName is the name of the service.
const ServiceName = "membership"

const (
	callTime = 5 * time.Second
	// exchangeEvery is the maximum interval between exchanges of revocations, and attempts to renew.
	exchangeEvery = time.Minute
	// sendTries and sendAgain are the number of attempts to send a revocation, and the time between
	// them.
	sendTries, sendAgain = 3, time.Second
	// maxUntrusted is the maximum number of revocations in a request of a peer that is no member, and
	// the number verified in one step of the ring, which takes up to 10 ms.
	maxUntrusted = 32
)

var (
	deliverMethod    = rpc.Method[*wire.Invitation, *emptypb.Empty]{Service: ServiceName, Tag: 1, Within: callTime}
	renewMethod      = rpc.Method[*wire.Renewal, *wire.Renewal]{Service: ServiceName, Tag: 2, Within: callTime}
	revocationMethod = rpc.Method[*wire.Revocations, *wire.Revocations]{Service: ServiceName, Tag: 3, Within: callTime}
)

// Deps are the dependencies of a Service.
type Deps struct {
	Self peer.ID
	Key  crypto.PrivKey // of this peer
	Ring Ring
	Net  rpc.Caller   // finds peers that it has no address of
	Save func() error // stores certificates and revocations
	Gone func()       // called after a revocation was taken
	Log  *slog.Logger
}

// Ring is the part of dht.DHT that a Service uses.
type Ring interface {
	// Admission passes charter and certificates to an input.
	Admission(input func(b *admission.Book, now time.Time))
	Leaves() (preds, succs []dht.Peer) // returns the leaf set
	Attachments() []dht.Peer           // lists the peers that this worker is attached to
}

// Service issues and exchanges certificates. It is safe for concurrent use.
type Service struct {
	Deps
	wake chan struct{} // holds a token while Run has something to do

	mu      sync.Mutex // guards the fields below
	news    []*wire.Revocation
	targets map[peer.ID]bool // receivers of news
}

// New returns a Service.
func New(d Deps) *Service {
	return &Service{Deps: d, wake: make(chan struct{}, 1), targets: make(map[peer.ID]bool)}
}

// Service returns the service for other peers.
func (s *Service) Service() rpc.Service {
	return rpc.Together(
		deliverMethod.Handle(rpc.Anyone("the certificates are for this peer, and valid"),
			func(_ context.Context, _ peer.ID, m *wire.Invitation) (*emptypb.Empty, error) {
				if err := s.Accept(m.GetAdmission()); err != nil {
					return nil, rpc.Refuse("%v", err)
				}
				return &emptypb.Empty{}, nil
			}),
		renewMethod.Handle(rpc.Anyone("this peer issued the caller's valid certificate"), s.renew),
		revocationMethod.Handle(rpc.Anyone("each is signed by an issuer; at most 32, or 1,024 of a member"), s.exchange),
	)
}

func (s *Service) renew(_ context.Context, from peer.ID, m *wire.Renewal) (answer *wire.Renewal, err error) {
	answer = new(wire.Renewal)
	s.Ring.Admission(func(b *admission.Book, now time.Time) {
		answer.Admission, err = b.Renew(now, s.Key, from, m.GetAdmission())
	})
	if err != nil {
		return nil, rpc.Refuse("%v", err)
	}
	return answer, nil
}

func (s *Service) exchange(ctx context.Context, _ peer.ID, m *wire.Revocations) (*wire.Revocations, error) {
	if len(m.GetRevocations()) > maxUntrusted && !rpc.OfMember(ctx) {
		return nil, rpc.Refuse("%d revocations, expected at most %d", len(m.GetRevocations()), maxUntrusted)
	}
	if err := s.take(m.GetRevocations()); err != nil {
		return nil, rpc.Refuse("%v", err)
	}
	answer := new(wire.Revocations)
	s.Ring.Admission(func(b *admission.Book, now time.Time) {
		if list, sum := b.Revocations(now); sum != m.GetSum() {
			answer.Sum, answer.Revocations = sum, list
		}
	})
	return answer, nil
}

// take takes revocations, and has Run send new ones to the neighbors. The error is that of the last
// that was rejected.
func (s *Service) take(list []*wire.Revocation) (rejected error) {
	targets := s.neighbors() // before one of them is removed: it should learn of it, too
	var fresh []*wire.Revocation
	for begin := 0; begin < len(list); begin += maxUntrusted {
		s.Ring.Admission(func(b *admission.Book, now time.Time) {
			for _, r := range list[begin:min(begin+maxUntrusted, len(list))] {
				is, err := b.Take(now, r)
				if is {
					fresh = append(fresh, r)
				} else if err != nil {
					rejected = err
				}
			}
		})
	}
	return errors.Join(rejected, s.announce(fresh, targets))
}

// announce stores new revocations, and has Run send them.
func (s *Service) announce(fresh []*wire.Revocation, to []peer.ID) error {
	if len(fresh) == 0 {
		return nil
	}
	s.mu.Lock()
	s.news = append(s.news, fresh...)
	for _, id := range to {
		s.targets[id] = true
	}
	s.mu.Unlock()
	s.Gone()
	loop.Wake(s.wake)
	return s.Save()
}

// send sends the announced revocations.
func (s *Service) send(ctx context.Context) {
	s.mu.Lock()
	news, targets := s.news, s.targets
	s.news, s.targets = nil, make(map[peer.ID]bool)
	s.mu.Unlock()
	var sending sync.WaitGroup
	defer sending.Wait()
	for id := range targets {
		sending.Go(func() {
			for part := range slices.Chunk(news, maxUntrusted) {
				var err error
				for range sendTries { // the connection to a peer that lost its membership is closed meanwhile
					if _, err = revocationMethod.Call(ctx, s.Net, id, &wire.Revocations{Revocations: part}); err == nil || loop.Sleep(ctx, sendAgain) != nil {
						break
					}
				}
				if err != nil {
					s.Log.Debug("sending revocations failed", "peer", id, "err", err)
					return
				}
			}
		})
	}
}

// neighbors returns the leaf set, and the ring peers that a worker is attached to.
func (s *Service) neighbors() []peer.ID {
	preds, succs := s.Ring.Leaves()
	return slices.DeleteFunc(member.IDs(preds, succs, s.Ring.Attachments()), func(id peer.ID) bool { return id == s.Self })
}

// Run sends new revocations, renews the own certificate, and requests revocations of a random
// neighbor, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for {
		s.send(ctx)
		wait, due := exchangeEvery, false
		var own *wire.Admission
		var issuer peer.ID
		var sum uint64
		s.Ring.Admission(func(b *admission.Book, now time.Time) {
			issuer, due = b.Renews(now)
			if _, until, ok := b.Own(); ok {
				wait = min(wait, max(until.Sub(now)/8, time.Second))
			}
			own = b.Admission()
			_, sum = b.Revocations(now)
		})
		if due {
			s.ask(ctx, issuer, own)
		}
		if from := s.sources(peer.ID(own.GetFounder()), issuer); len(own.GetFounder()) > 0 && len(from) > 0 {
			s.pull(ctx, from[rand.IntN(len(from))], sum)
		}
		select {
		case <-s.wake:
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// fewNeighbors is the number of neighbors below which all may have lost their membership with this
// peer, so that none has the revocation.
const fewNeighbors = 4

// sources returns the peers to request revocations from.
func (s *Service) sources(founder, issuer peer.ID) []peer.ID {
	from := append(s.neighbors(), issuer)
	if len(from) <= fewNeighbors {
		from = append(from, founder)
	}
	return slices.DeleteFunc(from, func(id peer.ID) bool { return id == "" || id == s.Self })
}

// pull requests the revocations of a neighbor.
func (s *Service) pull(ctx context.Context, from peer.ID, sum uint64) {
	answer, err := revocationMethod.Call(ctx, s.Net, from, &wire.Revocations{Sum: sum})
	if err == nil {
		err = s.take(answer.GetRevocations())
	}
	if err != nil {
		s.Log.Debug("exchange of revocations failed", "peer", from, "err", err)
	}
}

// ask asks the issuer to renew the own certificate.
func (s *Service) ask(ctx context.Context, issuer peer.ID, own *wire.Admission) {
	answer, err := renewMethod.Call(ctx, s.Net, issuer, &wire.Renewal{Admission: own})
	if err == nil {
		err = s.Accept(answer.GetAdmission())
	}
	if err != nil {
		s.Log.Warn("renewal of the certificate failed", "issuer", issuer, "err", err)
	}
}

// Accept takes the own certificates, and stores them.
func (s *Service) Accept(m *wire.Admission) (err error) {
	s.Ring.Admission(func(b *admission.Book, now time.Time) { err = b.Accept(now, m) })
	if err != nil {
		return err
	}
	loop.Wake(s.wake)
	return s.Save()
}

// Invite issues certificates for a peer, and delivers them if the peer can be reached; undelivered
// is nil then.
func (s *Service) Invite(ctx context.Context, id peer.ID, valid time.Duration) (m *wire.Admission, undelivered, err error) {
	s.Ring.Admission(func(b *admission.Book, now time.Time) { m, err = b.Issue(now, s.Key, id, valid) })
	if err != nil {
		return nil, nil, err
	}
	_, undelivered = deliverMethod.Call(ctx, s.Net, id, &wire.Invitation{Admission: m})
	return m, undelivered, nil
}

// Revoke ends the membership of a peer and of those that it invited, and announces it to the
// neighbors and to the peer.
func (s *Service) Revoke(id peer.ID) (err error) {
	targets := append(s.neighbors(), id)
	var r *wire.Revocation
	s.Ring.Admission(func(b *admission.Book, now time.Time) { r, err = b.Revoke(now, s.Key, id) })
	if err != nil {
		return err
	}
	return s.announce([]*wire.Revocation{r}, targets)
}
