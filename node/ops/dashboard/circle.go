package dashboard

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"math"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/ringsvg"
	"github.com/apoidea/apoidea/node/ops/words"
)

// The dimensions of the picture, in its own units around the center.
const (
	circleWidth  = 640.0
	circleHeight = 420.0
	circleRadius = 148.0
)

// circle draws the ring of the last walk; without one, this peer and its leaf set.
func (m *model) circle() template.HTML {
	var r *ringsvg.Ring
	o := ringsvg.Options{Self: m.status.Peer, Latency: true}
	var hosts []control.HostLine
	for i := range m.crawled.Hosts {
		if m.crawled.Hosts[i].Owner == m.status.Peer {
			hosts = append(hosts, m.crawled.Hosts[i])
		}
	}
	if m.whole != nil {
		r = ringsvg.OfRing(m.whole.ring, hosts, o)
	} else {
		r = ringsvg.OfRing(leafRing(m.status), hosts, o)
		r.Count, r.State = words.Thousands(int64(m.status.Ring.Members)), "peers (estimate)"
	}
	r.Radius, r.ArcWidth, r.Height, r.LabelGap, r.MarkRadius = circleRadius, 16, circleHeight-24, 19, 2
	var d bytes.Buffer
	fmt.Fprintf(&d, `<svg class="circle" viewBox="%g %g %g %g" role="img" aria-label="%s">`,
		-circleWidth/2, -circleHeight/2, circleWidth, circleHeight, html.EscapeString("The ring as this peer knows it: "+r.Count+" "+r.State))
	r.Draw(&d)
	d.WriteString("</svg>")
	return template.HTML(d.String()) // untrusted names are escaped
}

// leafRing returns what the status of a peer shows of the ring: its own arc and its leaf set.
func leafRing(s *control.Status) *control.Ring {
	r := new(control.Ring)
	if s.Ring.Arc[1] != "" {
		share := math.Mod(ringsvg.Turns(s.Ring.Arc[1])-ringsvg.Turns(s.Ring.Arc[0])+1, 1)
		if s.Ring.Arc[0] == s.Ring.Arc[1] {
			share = 1
		}
		r.Members = append(r.Members, control.Member{Status: *s, ArcShare: share})
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		r.Members = append(r.Members, control.Member{Status: control.Status{Peer: p.Peer, Name: p.Name, Position: p.Position}})
	}
	return r
}
