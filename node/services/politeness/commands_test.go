package politeness

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// TestOptOutCommands: a site is opted out if a list, an address or its owner says so; what is no
// site is an error of usage, and what the ring refuses a refusal.
func TestOptOutCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("host listed.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lists, err := NewLists(ListsDeps{File: file, Dir: t.TempDir(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	var announced []string
	c := &OptOutCommands{OptOutCommandsDeps{
		Ready: func(context.Context) error { return nil }, Lists: lists,
		Announce: func(_ context.Context, s optout.Subject, a optout.Action) (bool, error) {
			if s.Name == "unproven.example" {
				return false, rpc.Refuse("no proof")
			}
			announced = append(announced, s.String()+" "+string(a))
			return true, nil
		},
		Locate: func(_ context.Context, host, _ string) ([]netip.AddrPort, error) {
			if host == "address.example" {
				return nil, errors.New("192.0.2.1 has opted out")
			}
			if host == "twice.example" { // as the owner
				return nil, errors.New("192.0.2.3 has opted out")
			}
			return []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:80")}, nil
		},
		Host: func(_ context.Context, host string) (*control.Host, error) {
			h := &control.Host{Host: host}
			if host == "owner.example" {
				h.OptedOut = "its owner says so"
			}
			if host == "twice.example" {
				h.OptedOut = "192.0.2.3 has opted out"
			}
			return h, nil
		},
		Domains: func(context.Context, int) ([]string, error) { return []string{"domain.example"}, nil },
		Look:    func(context.Context, func(*owner.Owner)) error { return nil },
	}}
	for host, out := range map[string]bool{"free.example": false, "listed.example": true, "address.example": true, "owner.example": true, "twice.example": true} {
		if check, err := c.OptOutCheck(t.Context(), host); err != nil || check.OptedOut != out || check.OptedOut != (len(check.Reasons) == 1) || check.Host != host {
			t.Errorf("%s: %+v, %v", host, check, err)
		}
	}
	if o, err := c.SetOptOut(t.Context(), "host free.example", string(optout.Out)); err != nil || !o.Changed || len(announced) != 1 {
		t.Errorf("announced: %+v, %v, %q", o, err, announced)
	}
	if _, err := c.SetOptOut(t.Context(), "host unproven.example", string(optout.Out)); control.KindOf(err) != control.KindRefused {
		t.Errorf("without a proof: %v", err)
	}
	if _, err := c.SetOptOut(t.Context(), "host free.example", "perhaps"); control.KindOf(err) != control.KindUsage {
		t.Errorf("no such action: %v", err)
	}
	if o, err := c.OptOuts(t.Context()); err != nil || len(o.Lists) != 1 || o.Lists[0].Rules != 1 || len(o.Domains) != 1 || len(o.Hosts) != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}
