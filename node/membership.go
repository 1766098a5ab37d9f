package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/membership"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// errNoAdmission rejects a founder in the public profile without a decision.
var errNoAdmission = control.Usage("admission: required to found a ring in the public profile: --admission open (reachable peers are members) or --admission invite (invited peers are)")

// book returns the charter, certificates and revocations of an earlier run. A founder without them
// chooses the charter. A ring of a release before them is open.
func (r *ringServices) book(now time.Time, self peer.ID, memory *dht.Memory, founds bool) (*admission.Book, error) {
	b := admission.NewBook(r.cfg.Network, self)
	raw, _, err := r.meta.space.Get([]byte(metaAdmission))
	if err == nil {
		err = b.Load(now, raw)
	}
	if err != nil {
		return nil, err
	}
	_, known := b.Charter()
	switch {
	case known:
	case memory != nil && memory.HasPredecessor || founds && r.cfg.Admission != "invite":
		err = b.Adopt(admission.Charter{})
	case founds:
		err = b.Adopt(admission.Charter{Founder: self})
	}
	if err == nil {
		err = b.Expect(r.cfg.Admission)
	}
	return b, err
}

// saveAdmission stores charter, certificates and revocations if they changed.
func (r *ringServices) saveAdmission() (err error) {
	var raw []byte
	r.dht.Admission(func(b *admission.Book, _ time.Time) { raw, err = b.Bytes() })
	if err != nil {
		return err
	}
	before, _, err := r.meta.space.Get([]byte(metaAdmission))
	if err != nil || bytes.Equal(before, raw) {
		return err
	}
	defer r.met()
	return r.meta.put(metaAdmission, raw)
}

// standing returns the charter, and this peer's certificate; nil before it knows the charter.
func (r *ringServices) standing() (a *control.Admission) {
	r.dht.Admission(func(b *admission.Book, now time.Time) {
		c, known := b.Charter()
		if !known {
			return
		}
		a = &control.Admission{Mode: c.Mode(), Member: b.Valid(now, r.net.Self())}
		if c.Founder != "" {
			a.Founder = c.Founder.String()
		}
		if issuer, until, ok := b.Own(); ok && a.Member {
			a.Issuer, a.Until = issuer.String(), until
		}
	})
	return a
}

// findingNet calls peers that may be attached workers, or of which no address is known.
func (r *ringServices) findingNet(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	answer, err := r.net.Call(r.toWorker(ctx, to), to, service, req)
	if err == nil || rpc.Refused(err) || r.net.Connected(to) || len(r.net.AddrsOf(to)) > 0 {
		return answer, err
	}
	if _, ferr := r.kad.Closest(ctx, ring.PeerKey([]byte(to))); ferr != nil {
		return nil, fmt.Errorf("%w; %w", err, ferr)
	}
	return r.net.Call(ctx, to, service, req)
}

// newMembership returns the service for certificates.
func (n *Node) newMembership() (*membership.Service, error) {
	key, err := n.meta.identity(nil)
	return membership.New(membership.Deps{
		Self: n.ring.net.Self(), Key: key, Ring: n.ring.dht, Net: rpc.CallerFunc(n.ring.findingNet), Save: n.ring.saveAdmission, Gone: n.authorizer.revoked, Log: n.log,
	}), err
}

// invite makes a peer a member of a ring by invitation.
func (n *Node) invite(ctx context.Context, id peer.ID, valid time.Duration) (*control.Invitation, error) {
	m, undelivered, err := n.members.Invite(ctx, id, valid)
	if err != nil {
		return nil, control.Refused(err.Error())
	}
	text, err := admission.Text(m)
	if err != nil {
		return nil, err
	}
	first := slices.MinFunc(m.GetChain(), func(p, q *wire.Certificate) int { return cmp.Compare(p.GetExpires(), q.GetExpires()) })
	inv := &control.Invitation{Peer: id.String(), Certificate: text, Until: time.Unix(first.GetExpires(), 0), Delivered: undelivered == nil}
	if undelivered != nil {
		inv.Error = undelivered.Error()
	}
	return inv, nil
}

// Invite implements control.Backend.
func (n *Node) Invite(ctx context.Context, id string, valid time.Duration) (*control.Invitation, error) {
	p, err := peer.Decode(id)
	if err != nil {
		return nil, control.Usage(fmt.Sprintf("peer ID %q: %v", id, err))
	}
	return n.invite(ctx, p, cmp.Or(valid, admission.DefaultValidity))
}

// Revoke implements control.Backend.
func (n *Node) Revoke(_ context.Context, id string) error {
	p, err := peer.Decode(id)
	if err != nil {
		return control.Usage(fmt.Sprintf("peer ID %q: %v", id, err))
	}
	if err := n.members.Revoke(p); err != nil {
		return control.Refused(err.Error())
	}
	return nil
}

// Accept implements control.Backend.
func (n *Node) Accept(_ context.Context, certificate string) (*control.Admission, error) {
	m, err := admission.Parse(certificate)
	if err != nil {
		return nil, control.Usage(err.Error())
	}
	if err := n.members.Accept(m); err != nil {
		return nil, control.Refused(err.Error())
	}
	return n.ring.standing(), nil
}
