package admission

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/wire"
)

var start = time.Unix(1e9, 0)

// person is a peer with its key and Book.
type person struct {
	*Book
	id  peer.ID
	key crypto.PrivKey
}

// newPerson returns the peer number n of a ring founded by peer 0.
func newPerson(t testing.TB, n byte) *person {
	t.Helper()
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat(string('a'+rune(n)), ed25519.SeedSize))))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{Book: NewBook("lab", id), id: id, key: key}
	founder := id
	if n != 0 {
		founder = newPerson(t, 0).id
	}
	if err := p.Adopt(Charter{founder}); err != nil {
		t.Fatal(err)
	}
	return p
}

// invites lets one peer invite the next, and returns the chains.
func invites(t *testing.T, now time.Time, valid time.Duration, people ...*person) (chains []*wire.Admission) {
	t.Helper()
	for i, subject := range people[1:] {
		m, err := people[i].Issue(now, people[i].key, subject.id, valid)
		if err == nil {
			err = subject.Accept(now, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		chains = append(chains, m)
	}
	return chains
}

func people(t *testing.T, n int) (all []*person) {
	t.Helper()
	for i := range n {
		all = append(all, newPerson(t, byte(i)))
	}
	return all
}

func TestChainOfThreeIsValidAndFourIsNot(t *testing.T) {
	all := people(t, 5)
	chains := invites(t, start, time.Hour, all[:4]...)
	witness := all[4]
	for i, m := range chains {
		if err := witness.Admit(start, all[i+1].id, m); err != nil {
			t.Errorf("chain of %d: %v", i+1, err)
		}
	}
	if _, err := all[3].Issue(start, all[3].key, witness.id, time.Hour); err == nil {
		t.Error("the last of a chain of three invites")
	}
	fourth, err := issue(all[3].key, "lab", all[0].id, witness.id, start.Unix(), start.Add(time.Hour).Unix())
	if err != nil {
		t.Fatal(err)
	}
	m := &wire.Admission{Founder: []byte(all[0].id), Chain: append(chains[2].Chain, fourth)}
	if err := all[1].Admit(start, witness.id, m); !errors.Is(err, ErrCertificate) {
		t.Errorf("chain of four: %v", err)
	}
}

func TestInvalidChainsAreRejected(t *testing.T) {
	all := people(t, 4)
	founder, a, b, witness := all[0], all[1], all[2], all[3]
	chains := invites(t, start, time.Hour, founder, a, b)
	forged, err := issue(b.key, "lab", founder.id, b.id, start.Unix(), start.Add(time.Hour).Unix())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := issue(founder.key, "other", founder.id, b.id, start.Unix(), start.Add(time.Hour).Unix())
	if err != nil {
		t.Fatal(err)
	}
	forever, err := issue(founder.key, "lab", founder.id, b.id, start.Unix(), start.Add(2*MaxValidity).Unix())
	if err != nil {
		t.Fatal(err)
	}
	of := func(chain ...*wire.Certificate) *wire.Admission {
		return &wire.Admission{Founder: []byte(founder.id), Chain: chain}
	}
	for _, row := range []struct {
		name string
		at   time.Duration
		m    *wire.Admission
		want error
	}{
		{"valid", 0, chains[1], nil},
		{"none", 0, of(), ErrCertificate},
		{"signed by its subject", 0, of(forged), ErrCertificate},
		{"without the issuer's own", 0, of(chains[1].Chain[1]), ErrCertificate},
		{"of another peer", 0, chains[0], ErrCertificate},
		{"of another network", 0, of(elsewhere), ErrCertificate},
		{"valid for too long", 0, of(forever), ErrCertificate},
		{"of another founder", 0, &wire.Admission{Founder: []byte(a.id), Chain: chains[1].Chain}, ErrCharter},
		{"of an open ring", 0, nil, ErrCharter},
		{"expired", time.Hour, chains[1], ErrCertificate},
		{"a minute early", -time.Minute, chains[1], nil},
		{"more than a minute early", -time.Minute - time.Second, chains[1], ErrCertificate},
	} {
		t.Run(row.name, func(t *testing.T) {
			fresh := newPerson(t, 9)
			if err := fresh.Admit(start.Add(row.at), b.id, row.m); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Errorf("error %v, expected %v", err, row.want)
			}
			if got := fresh.Valid(start.Add(row.at), b.id); got != (row.want == nil) {
				t.Errorf("valid: %t", got)
			}
		})
	}
	if err := witness.Admit(start, b.id, chains[1]); err != nil || witness.Valid(start.Add(time.Hour), b.id) {
		t.Errorf("a cached chain outlives its expiry (%v)", err)
	}
	if err := witness.Admit(start.Add(time.Hour), b.id, chains[1]); !errors.Is(err, ErrCertificate) {
		t.Errorf("a cached chain that has expired: %v", err)
	}
}

func TestRevocationEndsSubtreeUntilInvitedAgain(t *testing.T) {
	all := people(t, 5)
	founder, a, b, c, witness := all[0], all[1], all[2], all[3], all[4]
	chains := invites(t, start, time.Hour, founder, a, b, c)
	for i, m := range chains {
		if err := witness.Admit(start, all[i+1].id, m); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Revoke(start, a.key, b.id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Revoke(start, c.key, witness.id); err != nil {
		t.Fatal(err) // of an unknown peer: it has no effect
	}
	if fresh, err := witness.Take(start, r); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	if fresh, err := witness.Take(start, r); fresh || err != nil {
		t.Errorf("taken twice: %t, %v", fresh, err)
	}
	if !witness.Valid(start, a.id) || witness.Valid(start, b.id) || witness.Valid(start, c.id) {
		t.Error("not exactly the subtree is revoked")
	}
	if err := witness.Admit(start, c.id, chains[2]); !errors.Is(err, ErrCertificate) {
		t.Errorf("the subtree is admitted: %v", err)
	}
	if _, err := b.Take(start, r); err != nil || !b.Ends(start) {
		t.Errorf("the revoked peer keeps its membership (%v)", err)
	}
	again, err := a.Issue(start, a.key, b.id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := witness.Admit(start, b.id, again); err != nil || !witness.Valid(start, b.id) {
		t.Errorf("invited again: %v", err)
	}
	if err := b.Accept(start, again); err != nil || b.Ends(start) {
		t.Errorf("invited again: %v", err)
	}
	if witness.Valid(start, c.id) {
		t.Error("the subtree is back")
	}
	list, sum := witness.Revocations(start)
	if len(list) != 1 || sum == 0 {
		t.Errorf("%d revocations, hash %d", len(list), sum)
	}
	if list, _ := witness.Revocations(start.Add(MaxValidity + time.Second)); len(list) != 0 {
		t.Error("a revocation is not forgotten")
	}
}

func TestOnlyIssuersAboveRevoke(t *testing.T) {
	all := people(t, 4)
	founder, a, b, sibling := all[0], all[1], all[2], all[3]
	chains := invites(t, start, time.Hour, founder, a, b)
	invites(t, start, time.Hour, founder, sibling)
	if err := sibling.Admit(start, b.id, chains[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := sibling.Revoke(start, sibling.key, b.id); err == nil || !strings.Contains(err.Error(), a.id.String()) {
		t.Errorf("a peer of another branch revokes: %v", err)
	}
	below := newPerson(t, 9)
	if err := below.Admit(start, a.id, chains[0]); err != nil {
		t.Fatal(err)
	}
	r, err := b.Revoke(start, b.key, sibling.id)
	if err != nil {
		t.Fatal(err)
	}
	r.Subject = []byte(a.id)
	if fresh, err := below.Take(start, r); fresh || err == nil {
		t.Error("a revocation with another subject is taken")
	}
	if !below.Valid(start, a.id) {
		t.Error("a peer revokes its issuer")
	}
	if _, err := newPerson(t, 8).Revoke(start, a.key, b.id); !errors.Is(err, ErrCertificate) {
		t.Errorf("a peer without a certificate revokes: %v", err)
	}
}

func TestRevocationsAreBoundedAndTheFoundersStay(t *testing.T) {
	all := people(t, 3)
	founder, a, witness := all[0], all[1], all[2]
	invites(t, start, time.Hour, founder, a)
	take := func(by *person, subject peer.ID, at time.Time) error {
		r, err := by.Revoke(at, by.key, subject)
		if err == nil {
			_, err = witness.Take(at, r)
		}
		return err
	}
	id := func(n int) peer.ID { return peer.ID(strings.Repeat("x", 10) + string(rune(n+256))) }
	for n := range maxByOne + 5 {
		if err := take(a, id(n), start.Add(time.Duration(n)*time.Second)); (err == nil) != (n < maxByOne) {
			t.Fatalf("revocation %d: %v", n, err)
		}
	}
	if err := take(a, id(0), start.Add(30*time.Second)); err == nil {
		t.Error("revoked twice in a minute")
	}
	if err := take(a, id(0), start.Add(61*time.Second)); err != nil {
		t.Errorf("revoked again after a minute: %v", err)
	}
	if list, _ := witness.Revocations(start); len(list) != maxByOne {
		t.Errorf("%d revocations by one peer, expected %d", len(list), maxByOne)
	}
	for n := range wire.MaxRevocations {
		if err := take(founder, id(n), start); err != nil {
			t.Fatal(err)
		}
	}
	if list, _ := witness.Revocations(start); len(list) != wire.MaxRevocations {
		t.Errorf("%d revocations, expected %d", len(list), wire.MaxRevocations)
	}
	if err := take(a, id(5000), start); err == nil {
		t.Error("a revocation by the founder gave way")
	}
}

func TestCacheIsBoundedAndKeepsTheLatest(t *testing.T) {
	all := people(t, 2)
	m := invites(t, start, time.Hour, all...)[0]
	witness := newPerson(t, 7)
	for n := range maxVerified {
		witness.verified[peer.ID(rune(n+256))] = &entry{heard: start.Add(time.Duration(n))}
	}
	if err := witness.Admit(start.Add(time.Second), all[1].id, m); err != nil {
		t.Fatal(err)
	}
	if len(witness.verified) != maxVerified || witness.verified[peer.ID(rune(256))] != nil || !witness.Valid(start, all[1].id) {
		t.Errorf("%d cached, or not the oldest was evicted", len(witness.verified))
	}
}

func TestRenewalBeforeTheEnd(t *testing.T) {
	all := people(t, 3)
	founder, a, b := all[0], all[1], all[2]
	invites(t, start, 30*time.Minute, founder, a, b)
	if issuer, due := b.Renews(start.Add(9 * time.Minute)); issuer != a.id || due {
		t.Errorf("due %t at %s after 9 min", due, issuer)
	}
	at := start.Add(10 * time.Minute)
	if _, due := b.Renews(at); !due {
		t.Error("not due after 10 min")
	}
	if _, err := founder.Renew(at, founder.key, b.id, b.Admission()); err == nil {
		t.Error("another than the issuer renews")
	}
	m, err := founder.Renew(at, founder.key, a.id, a.Admission())
	if err == nil {
		err = a.Accept(at, m)
	}
	if err == nil {
		m, err = a.Renew(at, a.key, b.id, b.Admission())
	}
	if err == nil {
		err = b.Accept(at, m)
	}
	if _, until, _ := b.Own(); err != nil || !until.Equal(at.Add(30*time.Minute)) {
		t.Errorf("valid until %v (%v)", until, err)
	}
	if _, err := a.Revoke(at, a.key, b.id); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(at, a.key, b.id, b.Admission()); !errors.Is(err, ErrCertificate) {
		t.Errorf("a revoked peer is renewed: %v", err)
	}
}

func TestMembershipEndsBeforeTheCertificate(t *testing.T) {
	all := people(t, 2)
	invites(t, start, time.Hour, all...)
	if b := all[1]; b.Ends(start.Add(59*time.Minute-time.Second)) || !b.Ends(start.Add(59*time.Minute)) {
		t.Error("not a minute before")
	}
	if Open().Ends(start) || !newPerson(t, 5).Ends(start) {
		t.Error("of an open ring, or without a certificate")
	}
}

func TestCharterIsAdoptedOnce(t *testing.T) {
	one, two := people(t, 2)[1], newPerson(t, 5)
	founder := Charter{newPerson(t, 0).id}
	err := one.Adopt(Charter{})
	if !errors.Is(err, ErrCharter) || !strings.Contains(err.Error(), founder.String()) || !strings.Contains(err.Error(), "open") {
		t.Errorf("another charter: %v", err)
	}
	fresh := NewBook("lab", two.id)
	if err := fresh.Expect("open"); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Adopt(founder); !errors.Is(err, ErrCharter) || !strings.Contains(err.Error(), "--admission open") {
		t.Errorf("another mode: %v", err)
	}
	entries := []peer.ID{one.id, two.id}
	of := func(c Charter) *wire.Admission { return &wire.Admission{Founder: []byte(c.Founder)} }
	fresh = NewBook("lab", two.id)
	for _, err := range fresh.Agree(entries, []*wire.Admission{of(founder), of(Charter{})}) {
		if !errors.Is(err, ErrCharter) {
			t.Errorf("contradicting entry peers: %v", err)
		}
	}
	if errs := fresh.Agree(entries, []*wire.Admission{nil, of(founder)}); errs[0] != nil || errs[1] != nil || fresh.charter != founder {
		t.Errorf("%v, charter %s", errs, fresh.charter)
	}
	if errs := fresh.Agree(entries, []*wire.Admission{of(Charter{}), of(founder)}); !errors.Is(errs[0], ErrCharter) || errs[1] != nil {
		t.Errorf("of which one contradicts the own: %v", errs)
	}
}

func TestBookIsStored(t *testing.T) {
	all := people(t, 3)
	invites(t, start, time.Hour, all[:2]...)
	if _, err := all[1].Revoke(start, all[1].key, all[2].id); err != nil {
		t.Fatal(err)
	}
	raw, err := all[1].Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		at    time.Duration
		valid bool
	}{{0, true}, {2 * time.Hour, false}} {
		b := NewBook("lab", all[1].id)
		if err := b.Load(start.Add(row.at), raw); err != nil {
			t.Fatal(err)
		}
		if list, _ := b.Revocations(start); b.charter != all[1].charter || b.Ends(start.Add(row.at)) == row.valid || len(list) != 1 {
			t.Errorf("after %v: charter %s, %d revocations, ends %t", row.at, b.charter, len(list), b.Ends(start.Add(row.at)))
		}
	}
}

func FuzzParse(f *testing.F) {
	var all []*person
	for i := range 2 {
		all = append(all, newPerson(f, byte(i)))
	}
	m, err := all[0].Issue(start, all[0].key, all[1].id, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	text, err := Text(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		if len(m.GetChain()) > wire.MaxChain {
			t.Errorf("chain of %d", len(m.GetChain()))
		}
		b := newPerson(t, 2)
		if b.Accept(start, m) == nil && !b.Valid(start, b.id) {
			t.Error("accepted, and not valid")
		}
	})
}

// TestMembersDoNotTakeOver: a member cannot make another one its subject, and a certificate ends
// with that of its issuer.
func TestMembersDoNotTakeOver(t *testing.T) {
	all := people(t, 4)
	founder, a, b, c := all[0], all[1], all[2], all[3]
	invites(t, start, time.Hour, founder, a)
	invites(t, start, MaxValidity, founder, b)
	m, err := b.Issue(start, b.key, a.id, MaxValidity)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Accept(start, m); !errors.Is(err, ErrCertificate) {
		t.Errorf("another issuer: %v", err)
	}
	if issuer, until, ok := a.Own(); !ok || issuer != founder.id || !until.Equal(start.Add(time.Hour)) {
		t.Errorf("issued by %s until %v", issuer, until)
	}
	invites(t, start, MaxValidity, a, c)
	if _, until, _ := c.Own(); !until.Equal(start.Add(time.Hour)) {
		t.Errorf("valid until %v, the issuer until %v", until, start.Add(time.Hour))
	}
	if err := a.Accept(start.Add(2*time.Hour), m); err != nil {
		t.Errorf("another issuer after the end: %v", err)
	}
	r, err := founder.Revoke(start, founder.key, b.id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := founder.Take(start, r); err != nil || !founder.Revoked(b.id) || founder.Revoked(a.id) {
		t.Errorf("revoked: %v, %v; %v", founder.Revoked(b.id), founder.Revoked(a.id), err)
	}
}
