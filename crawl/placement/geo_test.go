package placement

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
)

func TestDistance(t *testing.T) {
	tests := map[string]struct {
		a, b Position
		want float64 // km
	}{
		"none":                  {berlin, berlin, 0},
		"Berlin to Paris":       {berlin, paris, 880},
		"Atlanta to Berlin":     {atlanta, berlin, 7610},
		"a quarter of the way":  {Position{0, 0, CityPosition}, Position{90, 0, CityPosition}, 10008},
		"across the date line":  {Position{0, 179, CityPosition}, Position{0, -179, CityPosition}, 222},
		"to the other side":     {Position{10, 20, CityPosition}, Position{-10, -160, CityPosition}, 20015},
		"one pole, two degrees": {Position{90, 0, CityPosition}, Position{90, 77, CityPosition}, 0},
	}
	for name, tt := range tests {
		for _, got := range []float64{tt.a.Distance(tt.b), tt.b.Distance(tt.a)} {
			if math.Abs(got-tt.want) > 1+tt.want/80 {
				t.Errorf("%s: %.0f km, want %.0f", name, got, tt.want)
			}
		}
	}
}

func TestGeo(t *testing.T) {
	everywhere := onMap{siteAddr: paris, addrA: atlanta, addrB: berlin, addrC: paris}
	tests := map[string]struct {
		locator Locator
		change  func(v *View)
		worker  string
	}{
		"the nearest":                   {locator: everywhere, worker: "c"},
		"by country":                    {locator: onMap{siteAddr: france, addrA: atlanta, addrB: berlin}, worker: "b"},
		"a tie is the owner's":          {locator: onMap{siteAddr: france, addrA: france, addrB: france, addrC: berlin}, worker: "a"},
		"who is nowhere is passed over": {locator: onMap{siteAddr: paris, addrA: atlanta}, worker: "a"},
		"a site that is nowhere":        {locator: onMap{addrC: paris}, worker: "a"},
		"candidates that are nowhere":   {locator: onMap{siteAddr: paris}, worker: "a"},
		"no database":                   {worker: "a"},
		"an address that is not known":  {locator: everywhere, change: func(v *View) { v.Site = netip.Addr{} }, worker: "a"},
		"alone":                         {locator: everywhere, change: func(v *View) { v.Candidates = v.Candidates[:1] }, worker: "a"},
		"nobody":                        {locator: everywhere, change: func(v *View) { v.Candidates = nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := view()
			if tt.change != nil {
				tt.change(v)
			}
			c := (&Geo{Locator: tt.locator}).Next(v)
			if c.Worker != tt.worker || len(c.Probe) != 0 {
				t.Errorf("worker %q, probes %q, %s; want worker %q and no probes", c.Worker, c.Probe, c.Why, tt.worker)
			}
		})
	}
}

// TestGeoSharesACountry: where only countries are known, the sites of one are spread over its
// peers.
func TestGeoSharesACountry(t *testing.T) {
	g := &Geo{Locator: onMap{siteAddr: france, addrA: berlin, addrB: france, addrC: france}}
	count := make(map[string]int)
	for i := range 400 {
		v := view()
		v.Host = fmt.Sprintf("host-%d.example", i)
		count[g.Next(v).Worker]++
	}
	if count["a"] != 0 || count["b"] < 150 || count["c"] < 150 {
		t.Errorf("hosts by worker: %v, want the two in the country to have about half each", count)
	}
}
