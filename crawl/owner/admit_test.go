package owner

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestAdmitRecord: a host's record of a stranger names a host, has addresses that are some, and
// says nothing that could never be outdone.
func TestAdmitRecord(t *testing.T) {
	m := &importer{Step: &hosts.Step{Cfg: hosts.Config{MaxRetryAfter: time.Hour, Backoff: []time.Duration{time.Minute}}, Now: 1e12}}
	far := m.Now + time.Hour.Milliseconds()
	for _, row := range []struct {
		name string
		r    ondisk.Host
		ok   bool
	}{
		{"a name", ondisk.Host{Name: "a.example"}, true},
		{"with a port", ondisk.Host{Name: "a.example:8080", Addrs: [][]byte{make([]byte, 4), make([]byte, 16)}}, true},
		{"with the port of the other scheme", ondisk.Host{Name: "a.example:443"}, true},
		{"with that too", ondisk.Host{Name: "a.example:80"}, true},
		{"an address", ondisk.Host{Name: "[2001:db8::1]:8080"}, true},
		{"not canonical", ondisk.Host{Name: "A.example"}, false},
		{"no name", ondisk.Host{}, false},
		{"no text", ondisk.Host{Name: "a\xff.example"}, false},
		{"a path", ondisk.Host{Name: "a.example/x"}, false},
		{"half an address", ondisk.Host{Name: "a.example", Addrs: [][]byte{make([]byte, 3)}}, false},
		{"an epoch as late as others take", ondisk.Host{Name: "a.example", Epoch: ondisk.Epoch{Counter: 1e12 + 1<<40, Peer: "p"}}, true},
		{"the last epoch", ondisk.Host{Name: "a.example", Epoch: ondisk.Epoch{Counter: 1<<64 - 1, Peer: "p"}}, false},
		{"the year 5138", ondisk.Host{Name: "a.example", NotBefore: ondisk.MaxTime, BackoffUntil: ondisk.MaxTime, PlacedAt: ondisk.MaxTime, OptOut: ondisk.OptOut{Version: 1, At: ondisk.MaxTime}}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := row.r
			if err := m.admitRecord(&r); (err == nil) != row.ok {
				t.Errorf("%v, want ok %v", err, row.ok)
			}
			if row.ok && max(r.NotBefore, r.BackoffUntil, r.PlacedAt, r.OptOut.At) > far {
				t.Errorf("times %d %d %d %d, after %d", r.NotBefore, r.BackoffUntil, r.PlacedAt, r.OptOut.At, far)
			}
		})
	}
}
