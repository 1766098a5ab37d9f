package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/node/control"
)

// TestMembersByInvitation: of a ring founded by invitation, a second peer is a worker until it is
// invited, serves then, also after a restart, renews its certificate, invites a third, and is a
// worker again once it is revoked; so is the third.
//
// Slow: three real peers that join.
func TestMembersByInvitation(t *testing.T) {
	t.Parallel()
	cfg := func(number int, entries ...string) Config {
		c := testConfig(t.TempDir(), number, entries...)
		c.LeaseTTL = time.Second
		return c
	}
	founding := cfg(1)
	founding.Admission = "invite"
	founder := startWith(t, founding)
	entry := founder.ring.net.Addrs()[0]
	joining := cfg(2, entry)
	second, third := startWith(t, joining), startWith(t, cfg(3, entry))
	is := func(p *testPeer, want dht.State, size int) {
		t.Helper()
		until(t, p.cfg.Name+" "+want.String(), func(context.Context) bool {
			return p.ring.dht.State() == want && (size == 0 || p.ring.dht.Size() == size)
		})
	}
	is(founder, dht.Serving, 1)
	is(second, dht.Worker, 0)
	status := func(p *testPeer) *control.Admission {
		t.Helper()
		s, err := p.Status(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return s.Admission
	}
	if a := status(second); a.Mode != "invite" || a.Member || a.Founder != founder.ring.net.Self().String() {
		t.Errorf("status of a worker: %+v", a)
	}
	id := func(p *testPeer) string { return p.ring.net.Self().String() }
	if _, err := second.Invite(t.Context(), id(third), 0); err == nil {
		t.Error("a worker invites")
	}
	inv, err := founder.Invite(t.Context(), id(second), 0)
	if err != nil || !inv.Delivered {
		t.Fatalf("invitation: %+v, %v", inv, err)
	}
	is(second, dht.Serving, 2)
	if a := status(second); !a.Member || a.Issuer != id(founder) {
		t.Errorf("status of a member: %+v", a)
	}
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	second = startWith(t, joining)
	is(second, dht.Serving, 2)
	inv, err = second.Invite(t.Context(), id(third), 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Accept(t.Context(), inv.Certificate); err == nil {
		t.Error("a certificate of another peer is accepted")
	}
	first, err := third.Accept(t.Context(), inv.Certificate)
	if err != nil || first.Issuer != id(second) {
		t.Fatalf("accepted: %+v, %v", first, err)
	}
	is(third, dht.Serving, 3)
	is(founder, dht.Serving, 3)
	until(t, "renewal", func(context.Context) bool { return status(third).Until.After(first.Until) })
	if err := third.Revoke(t.Context(), id(second)); err == nil {
		t.Error("a peer revokes its issuer")
	}
	if err := founder.Revoke(t.Context(), id(second)); err != nil {
		t.Fatal(err)
	}
	is(second, dht.Worker, 0)
	is(third, dht.Worker, 0)
	is(founder, dht.Serving, 1)
	until(t, "whole circle", func(context.Context) bool {
		arc, ok := founder.ring.dht.Arc()
		return ok && arc.Whole()
	})
}

// TestAdmissionIsChecked: what a peer's --admission must be, and that of a ring is kept.
func TestAdmissionIsChecked(t *testing.T) {
	t.Parallel()
	public := testConfig(t.TempDir(), 1)
	public.Profile, public.Contact = ProfilePublic, "https://me.example/"
	if _, err := New(t.Context(), public, quietLog); err == nil || !strings.Contains(err.Error(), "--admission open") || !strings.Contains(err.Error(), "--admission invite") {
		t.Errorf("a public ring is founded without a decision: %v", err)
	}
	founding := testConfig(t.TempDir(), 1)
	founder := startWith(t, founding)
	joining := testConfig(t.TempDir(), 2, founder.ring.net.Addrs()[0])
	joining.Admission = "invite"
	n, err := New(t.Context(), joining, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); !errors.Is(err, admission.ErrCharter) && (err == nil || !strings.Contains(err.Error(), "--admission invite, but the ring is open")) {
		t.Errorf("a peer joins a ring of another mode: %v", err)
	}
	if err := founder.stop(); err != nil {
		t.Fatal(err)
	}
	founding.Admission = "invite"
	if _, err := New(t.Context(), founding, quietLog); !errors.Is(err, admission.ErrCharter) {
		t.Errorf("an open ring becomes one by invitation: %v", err)
	}
}
