package placement

import (
	"net/netip"
	"testing"
)

// onMap locates addresses by a table.
type onMap map[netip.Addr]Position

func (m onMap) Locate(a netip.Addr) Position { return m[a] }

var (
	siteAddr = netip.MustParseAddr("192.0.2.7")
	addrA    = netip.MustParseAddr("198.51.100.1")
	addrB    = netip.MustParseAddr("198.51.100.2")
	addrC    = netip.MustParseAddr("198.51.100.3")

	atlanta = Position{33.7, -84.4, CityPosition}
	berlin  = Position{52.5, 13.4, CityPosition}
	paris   = Position{48.9, 2.4, CityPosition}
	france  = Position{46, 2, CountryPosition}
)

// TestOverloadedArePassedOver: whatever the strategy, a candidate without room is left out as long
// as another has some (design, section 5).
func TestOverloadedArePassedOver(t *testing.T) {
	strategies := map[string]Strategy{
		"rtt": RTT{}, "random": Random{}, "owner": Owner{}, "worst": Worst{},
		"geo": &Geo{Locator: onMap{siteAddr: paris, addrA: paris, addrB: paris, addrC: paris}},
	}
	for name, s := range strategies {
		for full := range 3 {
			v := view(full)
			c := s.Next(v)
			if c.Worker == "" || c.Worker == v.Candidates[full].Peer {
				t.Errorf("%s with candidate %d full: worker %q, probes %q", name, full, c.Worker, c.Probe)
			}
		}
		if c := s.Next(view(0, 1)); c.Worker != "c" {
			t.Errorf("%s with all but c full: worker %q", name, c.Worker)
		}
		free, all := s.Next(view()), s.Next(view(0, 1, 2))
		if all.Worker != free.Worker || free.Worker == "" {
			t.Errorf("%s with everybody full: worker %q, with nobody %q", name, all.Worker, free.Worker)
		}
	}
}

// view has three candidates, all measured and equal, of whom the numbered ones are overloaded.
func view(full ...int) *View {
	v := &View{Host: "host.example", Site: siteAddr, Measured: map[string]Measurement{"a": ms(10), "b": ms(10), "c": ms(10)}}
	for i, addr := range []netip.Addr{addrA, addrB, addrC} {
		v.Candidates = append(v.Candidates, Candidate{Peer: string(rune('a' + i)), Self: i == 0, Addr: addr, Backlog: 10, Capacity: 100})
	}
	for _, i := range full {
		v.Candidates[i].Backlog = 95
	}
	return v
}

func TestOverloadedAreNotProbed(t *testing.T) {
	for name, s := range map[string]Strategy{"rtt": RTT{}, "worst": Worst{}} {
		v := view(1)
		v.Measured = nil
		if c := s.Next(v); len(c.Probe) != 2 || c.Probe[0] != "a" || c.Probe[1] != "c" {
			t.Errorf("%s: probes %q, want a and c", name, c.Probe)
		}
	}
}

func TestOverloaded(t *testing.T) {
	tests := map[string]struct {
		backlog, capacity uint32
		want              bool
	}{
		"told nothing":       {0, 0, false},
		"told no capacity":   {500, 0, false},
		"idle":               {0, 100, false},
		"room left":          {89, 100, false},
		"windows on the way": {90, 100, true},
		"beyond":             {200, 100, true},
	}
	for name, tt := range tests {
		c := Candidate{Backlog: tt.backlog, Capacity: tt.capacity}
		if c.Overloaded() != tt.want {
			t.Errorf("%s: %v", name, !tt.want)
		}
	}
}

func TestWorst(t *testing.T) {
	v := view()
	v.Measured = map[string]Measurement{"a": ms(5), "b": ms(90), "c": {Err: "refused"}}
	if c := (Worst{}).Next(v); c.Worker != "b" {
		t.Errorf("worker %q, want b", c.Worker)
	}
	v.Measured = map[string]Measurement{"a": {Err: "refused"}, "b": {Err: "refused"}, "c": {Err: "refused"}}
	if c := (Worst{}).Next(v); c.Worker != "a" {
		t.Errorf("nobody reached the site: worker %q, want the owner", c.Worker)
	}
}
