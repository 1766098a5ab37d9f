package admission

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/wire"
)

const (
	// maxVerified is the maximum number of cached chains; the one not received for longest is evicted.
	maxVerified = 4096
	// maxByOne is the maximum number of revocations by one peer that is not the founder.
	maxByOne = 64
	// again is the minimum interval between two revocations of a peer by the same one: all peers of
	// the ring receive each.
	again = time.Minute
)

// Book is what a peer has of its ring's charter, certificates and revocations. It is not safe for
// concurrent use.
type Book struct {
	network  string
	self     peer.ID
	charter  Charter
	known    bool   // the charter
	mode     string // the only one to adopt; empty: any
	verified map[peer.ID]*entry
	revoked  map[revocation]*wire.Revocation
}

// entry is a chain whose signatures were verified.
type entry struct {
	chain []*wire.Certificate
	until int64 // Unix time in s
	heard time.Time
}

// revocation identifies one.
type revocation struct{ subject, by peer.ID }

// NewBook returns the Book of a peer that does not know its ring's charter yet.
func NewBook(network string, self peer.ID) *Book {
	return &Book{network: network, self: self, verified: map[peer.ID]*entry{}, revoked: map[revocation]*wire.Revocation{}}
}

// Expect limits the charters to adopt to those of a mode.
func (b *Book) Expect(mode string) error {
	b.mode = mode
	if b.known {
		return b.Adopt(b.charter)
	}
	return nil
}

// Open returns the Book of a peer in an open ring.
func Open() *Book {
	b := NewBook("", "")
	b.known = true
	return b
}

// Charter returns the charter; false if it is not known yet.
func (b *Book) Charter() (Charter, bool) { return b.charter, b.known }

// Adopt sets the charter. The error, which wraps ErrCharter, names both if another is set.
func (b *Book) Adopt(c Charter) error {
	if b.known && b.charter != c {
		return fmt.Errorf("%w: the ring is %s, and this peer's ring is %s", ErrCharter, c, b.charter)
	}
	if b.mode != "" && b.mode != c.Mode() {
		return fmt.Errorf("%w: --admission %s, but the ring is %s; omit the flag, or join another ring", ErrCharter, b.mode, c)
	}
	b.charter, b.known = c, true
	return nil
}

// Agree adopts the charter of entry peers: one each, nil from a peer without. Those that contradict
// the own charter get an error each; without one, so do all unless they agree.
func (b *Book) Agree(entries []peer.ID, answers []*wire.Admission) []error {
	errs := make([]error, len(answers))
	first := slices.IndexFunc(answers, func(m *wire.Admission) bool { return m != nil })
	if first < 0 {
		return errs
	}
	for i, m := range answers {
		if !b.known && m != nil && Of(m) != Of(answers[first]) {
			err := fmt.Errorf("%w: entry peer %s is in a ring that is %s, entry peer %s in one that is %s", ErrCharter, entries[first], Of(answers[first]), entries[i], Of(m))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	for i, m := range answers {
		if m != nil {
			errs[i] = b.Adopt(Of(m))
		}
	}
	return errs
}

// Admission returns the charter and the own chain, to send; nil without a charter. It is shared.
func (b *Book) Admission() *wire.Admission {
	if !b.known {
		return nil
	}
	m := &wire.Admission{Founder: []byte(b.charter.Founder)}
	if own := b.verified[b.self]; own != nil {
		m.Chain = own.chain
	}
	return m
}

// Admit takes the charter and chain that a peer sent, and returns an error unless the peer may be a
// member.
func (b *Book) Admit(now time.Time, from peer.ID, m *wire.Admission) error {
	if c := Of(m); c != b.charter {
		return fmt.Errorf("%w: ring of peer %s is %s, and this one is %s", ErrCharter, from, c, b.charter)
	}
	if b.charter.Founder == "" || b.charter.Founder == from {
		return nil
	}
	e := b.verified[from]
	if e == nil || !slices.EqualFunc(e.chain, m.GetChain(), func(p, q *wire.Certificate) bool { return proto.Equal(p, q) }) {
		until, err := b.charter.verify(b.network, m.GetChain(), from, now)
		if err != nil {
			return err
		}
		if by := b.revoker(m.GetChain()); by != "" {
			return fmt.Errorf("%w: revoked by peer %s", ErrCertificate, by)
		}
		b.makeRoom()
		e = &entry{chain: m.GetChain(), until: until}
		b.verified[from] = e
	}
	if e.heard = now; e.until <= now.Unix() {
		return fmt.Errorf("%w: expired at %s", ErrCertificate, rfc3339(e.until))
	}
	return nil
}

// makeRoom evicts an entry of the cache if it is full. Neighbors send their chain every few
// seconds.
func (b *Book) makeRoom() {
	if len(b.verified) < maxVerified {
		return
	}
	others := slices.DeleteFunc(slices.Collect(maps.Keys(b.verified)), func(id peer.ID) bool { return id == b.self })
	delete(b.verified, slices.MinFunc(others, func(p, q peer.ID) int { return b.verified[p].heard.Compare(b.verified[q].heard) }))
}

// Valid reports whether a peer may be a member now, by its last chain. It may be called for the own
// ID, and in an open ring it is always true.
func (b *Book) Valid(now time.Time, id peer.ID) bool {
	if b.charter.Founder == "" || b.charter.Founder == id {
		return true
	}
	e := b.verified[id]
	return e != nil && e.until > now.Unix()
}

// Ends reports whether the own membership ends so soon that the arc must be handed over: in a
// minute or a tenth of the last certificate's validity, whichever is less.
func (b *Book) Ends(now time.Time) bool {
	own := b.verified[b.self]
	if own == nil {
		return !b.Valid(now, b.self)
	}
	return !b.Valid(now.Add(min(clockSlack, validity(own.chain)/10)), b.self)
}

// validity returns that of the last certificate of a chain.
func validity(chain []*wire.Certificate) time.Duration {
	last := chain[len(chain)-1]
	return time.Duration(last.GetExpires()-last.GetIssued()) * time.Second
}

// Own returns the issuer of the own certificate and the end of the own membership; false without
// one.
func (b *Book) Own() (issuer peer.ID, until time.Time, ok bool) {
	own := b.verified[b.self]
	if own == nil {
		return "", time.Time{}, false
	}
	return b.issuer(own.chain), time.Unix(own.until, 0), true
}

// issuer returns the issuer of a chain's last certificate.
func (b *Book) issuer(chain []*wire.Certificate) peer.ID {
	if len(chain) < 2 {
		return b.charter.Founder
	}
	return peer.ID(chain[len(chain)-2].GetSubject())
}

// Renews returns the issuer to ask for a new certificate; false while more than two thirds of the
// validity are left, or without a certificate.
func (b *Book) Renews(now time.Time) (issuer peer.ID, due bool) {
	issuer, until, ok := b.Own()
	return issuer, ok && until.Sub(now) <= validity(b.verified[b.self].chain)*2/3
}

// Accept takes the own chain from its issuer, unless the present one is valid for longer.
func (b *Book) Accept(now time.Time, m *wire.Admission) error {
	before := b.verified[b.self]
	if err := b.Admit(now, b.self, m); err != nil {
		return err
	}
	after := b.verified[b.self]
	if before == nil || after == nil || before.until <= now.Unix() {
		return nil
	}
	// Otherwise a member could make others its subjects, and revoke them.
	if issuer := b.issuer(before.chain); issuer != b.issuer(after.chain) && len(after.chain) >= len(before.chain) {
		b.verified[b.self] = before
		return fmt.Errorf("%w: the present one, from peer %s, has to expire first", ErrCertificate, issuer)
	}
	if after.until < before.until {
		b.verified[b.self] = before
	}
	return nil
}

// Revoked reports whether any issuer has revoked a peer, also before it was invited again.
func (b *Book) Revoked(id peer.ID) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(b.revoked)), func(r revocation) bool { return r.subject == id })
}

// Issue returns a chain for subject that is valid for a duration, or as long as the own one.
func (b *Book) Issue(now time.Time, key crypto.PrivKey, subject peer.ID, valid time.Duration) (*wire.Admission, error) {
	if err := b.mayIssue(now); err != nil {
		return nil, err
	}
	chain := b.Admission().GetChain()
	switch {
	case len(chain) >= wire.MaxChain:
		return nil, fmt.Errorf("invite: this peer's chain has %d certificates, the maximum; ask peer %s to invite", len(chain), b.issuer(chain))
	case valid < time.Second || valid > MaxValidity:
		return nil, fmt.Errorf("invite: validity %v: expected 1s to %gh", valid, MaxValidity.Hours())
	case subject == b.self || subject == b.charter.Founder || slices.ContainsFunc(chain, func(c *wire.Certificate) bool { return peer.ID(c.GetSubject()) == subject }):
		return nil, fmt.Errorf("invite peer %s: it is this peer, or invited this peer", subject)
	}
	if _, err := subject.ExtractPublicKey(); err != nil {
		return nil, fmt.Errorf("invite peer %s: %w", subject, err)
	}
	from := now.Unix()
	if r := b.revoked[revocation{subject, b.self}]; r != nil {
		from = max(from, r.GetAt())
	}
	expires := from + int64(valid/time.Second)
	if own := b.verified[b.self]; own != nil {
		expires = min(expires, own.until) // a longer one could outlive a revocation, which needs the own chain
	}
	cert, err := issue(key, b.network, b.charter.Founder, subject, from, expires)
	if err != nil {
		return nil, err
	}
	m := &wire.Admission{Founder: []byte(b.charter.Founder), Chain: append(slices.Clone(chain), cert)}
	if by := b.revoker(m.GetChain()); by != "" {
		return nil, fmt.Errorf("invite peer %s: revoked by peer %s", subject, by)
	}
	return m, nil
}

func (b *Book) mayIssue(now time.Time) error {
	switch {
	case b.charter.Founder == "":
		return errors.New("the ring is open: every peer may be a member")
	case !b.Valid(now, b.self):
		return fmt.Errorf("this peer is no member: %w", ErrCertificate)
	}
	return nil
}

// Renew returns a new chain for a peer that this one invited, from its present one.
func (b *Book) Renew(now time.Time, key crypto.PrivKey, from peer.ID, m *wire.Admission) (*wire.Admission, error) {
	if err := b.Admit(now, from, m); err != nil {
		return nil, err
	}
	if issuer := b.issuer(m.GetChain()); issuer != b.self {
		return nil, fmt.Errorf("renew: issued by peer %s", issuer)
	}
	return b.Issue(now, key, from, validity(m.GetChain()))
}

// Revoke ends the membership of subject, which this peer or a member below it invited, and of those
// below subject.
func (b *Book) Revoke(now time.Time, key crypto.PrivKey, subject peer.ID) (*wire.Revocation, error) {
	if err := b.mayIssue(now); err != nil {
		return nil, err
	}
	if subject == b.self || subject == b.charter.Founder {
		return nil, fmt.Errorf("revoke peer %s: only the founder or an issuer of its chain can", subject)
	}
	if e := b.verified[subject]; e != nil && b.self != b.charter.Founder && !slices.ContainsFunc(e.chain, func(c *wire.Certificate) bool { return peer.ID(c.GetSubject()) == b.self }) {
		return nil, fmt.Errorf("revoke peer %s: only the founder or an issuer of its chain can; peer %s invited it", subject, b.issuer(e.chain))
	}
	r := &wire.Revocation{Subject: []byte(subject), By: []byte(b.self), At: now.Unix() + 1, Until: now.Add(MaxValidity).Unix(), Chain: b.Admission().GetChain()}
	var err error
	if r.Signature, err = key.Sign(signed(revocationContext, b.network, b.charter.Founder, subject, r.GetAt(), r.GetUntil())); err != nil {
		return nil, err
	}
	fresh, err := b.Take(now, r)
	if err == nil && !fresh {
		err = fmt.Errorf("revoke peer %s: it was revoked less than %v ago", subject, again)
	}
	return r, err
}

// Take takes a revocation that passed Validate, and reports whether it is new.
func (b *Book) Take(now time.Time, r *wire.Revocation) (fresh bool, err error) {
	by, id := peer.ID(r.GetBy()), revocation{peer.ID(r.GetSubject()), peer.ID(r.GetBy())}
	if old := b.revoked[id]; b.charter.Founder == "" || old != nil && r.GetAt() < old.GetAt()+int64(again/time.Second) || r.GetUntil() <= now.Unix() {
		return false, nil
	}
	if r.GetAt() > now.Add(clockSlack).Unix() || r.GetUntil() > now.Add(MaxValidity+clockSlack).Unix() {
		return false, fmt.Errorf("revocation of peer %s: from %d to %d, too late", id.subject, r.GetAt(), r.GetUntil())
	}
	if by != b.charter.Founder {
		if _, err := b.charter.verify(b.network, r.GetChain(), by, now); err != nil {
			return false, err
		}
		if above := b.revoker(r.GetChain()); above != "" {
			return false, fmt.Errorf("revocation by peer %s: it was revoked by peer %s", by, above)
		}
	}
	if err := checkSignature(by, signed(revocationContext, b.network, b.charter.Founder, id.subject, r.GetAt(), r.GetUntil()), r.GetSignature()); err != nil {
		return false, err
	}
	if !b.fits(now, id) {
		return false, fmt.Errorf("revocation by peer %s: limit reached, %d by one peer and %d in all; the founder can revoke", by, maxByOne, wire.MaxRevocations)
	}
	b.revoked[id] = r
	maps.DeleteFunc(b.verified, func(_ peer.ID, e *entry) bool { return b.revoker(e.chain) != "" })
	return true, nil
}

// fits makes room for a revocation: one by the founder replaces that by another peer which is
// forgotten first.
func (b *Book) fits(now time.Time, id revocation) bool {
	maps.DeleteFunc(b.revoked, func(_ revocation, r *wire.Revocation) bool { return r.GetUntil() <= now.Unix() })
	founder := id.by == b.charter.Founder
	byOne, first := 0, revocation{}
	for other, r := range b.revoked {
		if other.by == id.by {
			byOne++
		}
		if other.by != b.charter.Founder && (first.by == "" || r.GetUntil() < b.revoked[first].GetUntil()) {
			first = other
		}
	}
	switch {
	case b.revoked[id] != nil:
		return true
	case !founder && byOne >= maxByOne:
		return false
	case len(b.revoked) < wire.MaxRevocations:
		return true
	}
	if founder {
		delete(b.revoked, first)
	}
	return founder && first.by != ""
}

// revoker returns the peer that revoked a subject of the chain; empty if none did.
func (b *Book) revoker(chain []*wire.Certificate) peer.ID {
	for i, cert := range chain {
		above := b.charter.Founder
		for j := range i + 1 {
			if r := b.revoked[revocation{peer.ID(cert.GetSubject()), above}]; r != nil && cert.GetIssued() < r.GetAt() {
				return above
			}
			above = peer.ID(chain[j].GetSubject())
		}
	}
	return ""
}

// Revocations returns those that have not ended, and a hash of them. They are shared.
func (b *Book) Revocations(now time.Time) (list []*wire.Revocation, sum uint64) {
	for _, r := range b.revoked {
		if r.GetUntil() > now.Unix() {
			list = append(list, r)
			h := fnv.New64a()
			h.Write(r.GetSignature())
			sum += h.Sum64()
		}
	}
	slices.SortFunc(list, func(p, q *wire.Revocation) int { return bytes.Compare(p.GetSignature(), q.GetSignature()) })
	return list, sum
}

// Bytes returns the stored form.
func (b *Book) Bytes() ([]byte, error) {
	m := &wire.Standing{Admission: b.Admission()}
	m.Revocations, _ = b.Revocations(time.Time{})
	return proto.Marshal(m)
}

// Load reads the result of Bytes into a new Book.
func (b *Book) Load(now time.Time, raw []byte) error {
	var m wire.Standing
	if err := proto.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("stored certificate: %w", err)
	}
	if m.GetAdmission() == nil {
		return nil
	}
	b.charter, b.known = Of(m.GetAdmission()), true
	for _, r := range m.GetRevocations() {
		b.revoked[revocation{peer.ID(r.GetSubject()), peer.ID(r.GetBy())}] = r
	}
	if len(m.GetAdmission().GetChain()) > 0 {
		_ = b.Accept(now, m.GetAdmission()) // one that has ended is dropped
	}
	return nil
}
