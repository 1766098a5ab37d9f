package ringsvg

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Options select what OfRing shows.
type Options struct {
	// Self is the ID of the peer that shows the ring: it is labeled as such, only its threads are
	// drawn, and elements have classes instead of colors. Empty: none.
	Self string
	// Latency colors hosts by the distance of their worker instead of by their worker.
	Latency bool
}

// picture is a ring being converted.
type picture struct {
	Options
	ring    *control.Ring
	place   map[string]int // of each member in ring.Members, by ID
	crawled map[string]int // hosts by worker
}

// OfRing returns the drawing of a ring, without its dimensions: an arc for each member with a dot
// at its position, a mark for each host in the color of its worker, and a thread from each owner to
// its workers. With latency, a host is green if its last worker is as near as any peer measured,
// and redder the farther it is.
func OfRing(r *control.Ring, hosts []control.HostLine, o Options) *Ring {
	g := &picture{Options: o, ring: r, place: make(map[string]int, len(r.Members)), crawled: make(map[string]int)}
	for i := range r.Members {
		g.place[r.Members[i].Peer] = i
		for worker, n := range r.Members[i].Delegated {
			g.crawled[worker] += n
		}
	}
	d := &Ring{Count: words.Thousands(int64(len(r.Members))), State: "peers, " + control.RingWord(r.State())}
	if len(r.Members) == 1 {
		d.State = "peer"
	}
	for i := range r.Members {
		d.Peers = append(d.Peers, g.peer(i))
		if o.Self == "" || o.Self == r.Members[i].Peer {
			d.Threads = append(d.Threads, g.threads(i)...)
		}
	}
	for i := range hosts {
		d.Marks = append(d.Marks, g.host(&hosts[i]))
	}
	return d
}

// Turns returns where a position lies on the circle, as a share of a turn from the top.
func Turns(position string) float64 {
	digits := position[:min(13, len(position))] // 52 bits: what a float holds
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0
	}
	return float64(v) / math.Pow(16, float64(len(digits)))
}

// Color returns the color of member i: hues a golden angle apart, so that neighbors differ.
func Color(i int) string { return hsl(math.Mod(215+137.508*float64(i), 360), 0.60, 0.52) }

// hsl returns a color in hexadecimal notation.
func hsl(hue, saturation, lightness float64) string {
	channel := func(n float64) int {
		k := math.Mod(n+hue/30, 12)
		a := saturation * min(lightness, 1-lightness)
		return int(math.Round(255 * (lightness - a*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(0), channel(8), channel(4))
}

// maxName limits the name in the label of a peer with Self, in bytes.
const maxName = 11

// peer returns how a member is drawn: the keys that it owns, from its predecessor to itself.
func (g *picture) peer(i int) Peer {
	m := &g.ring.Members[i]
	p := Peer{
		At: Turns(m.Position), Share: m.ArcShare, DotRadius: max(2.5, min(9, 9*32/float64(len(g.ring.Members)))), Color: Color(i),
		Title: fmt.Sprintf("%s owns %.1f %% of the ring: %s", m.Peer, 100*m.ArcShare, words.Counted(m.HostsOwned, "host")),
	}
	switch {
	case g.Self == "":
		state := ""
		if m.State != "crawling" && m.State != "idle" {
			state = m.State + ", "
		}
		p.Name = words.Named(words.Short(m.Peer), string(m.Name))
		p.Detail = fmt.Sprintf("%s%s, %s, crawls %d", state, words.Counted(m.HostsOwned, "host"), words.Counted(m.Pages, "page"), g.crawled[m.Peer])
	case m.Peer == g.Self:
		p.Color, p.Class, p.ArcClass, p.Name = "", "self", "self", "this peer"
	default:
		p.Color, p.Class, p.ArcClass, p.DotRadius = "", "other", fmt.Sprintf("a%d", i%2), min(p.DotRadius, 5.5)
		p.Name, p.Detail = string(m.Name), words.Short(m.Peer)
		if len(p.Name) > maxName {
			p.Name = p.Name[:maxName-1] + "…" // names are ASCII
		}
	}
	return p
}

// threads returns a line from a member, in its color, to each worker of its hosts.
func (g *picture) threads(i int) (list []Thread) {
	m := &g.ring.Members[i]
	color := Color(i)
	if g.Self != "" {
		color = ""
	}
	for _, worker := range slices.Sorted(maps.Keys(m.Delegated)) { // so that the same ring gives the same picture
		n := m.Delegated[worker]
		j, ok := g.place[worker]
		if !ok || j == i || n <= 0 {
			continue
		}
		list = append(list, Thread{
			From: Turns(m.Position) - m.ArcShare/2, To: Turns(g.ring.Members[j].Position), Hosts: n, Color: color,
			Title: fmt.Sprintf("%s crawls %s for %s", worker, words.Counted(int64(n), "host"), m.Peer),
		})
	}
	return list
}

// host returns the mark of a host, in the color of its worker.
func (g *picture) host(h *control.HostLine) Mark {
	m := Mark{At: Turns(h.Key), Class: "none"}
	if g.Latency {
		switch {
		case h.RTTMs == 0:
		case g.Self == "":
			m.Class, m.Color = "", FarLatency(h.RTTMs, h.LeastRTTMs)
		case h.LeastRTTMs > 0 && control.Behind(h.RTTMs, h.LeastRTTMs) > 0:
			m.Class = "far"
		default:
			m.Class = "near"
		}
		m.Title = h.Host + ", " + latencyText(h)
		return m
	}
	state := "not being crawled"
	if i, ok := g.place[h.Worker]; ok {
		m.Class, m.Color, state = "", Color(i), "crawled by "+words.Short(h.Worker)
	}
	m.Title = fmt.Sprintf("%s, %s, %s pending", h.Host, state, words.Number(h.Pending))
	return m
}

// maxLegendLatency is by how many milliseconds too far further distance shows no more.
const maxLegendLatency = 100

// FarLatency returns the color of an RTT relative to the least one: green, or yellow to red.
func FarLatency(ms, least float64) string {
	behind := control.Behind(ms, least)
	if behind == 0 {
		return hsl(145, 0.60, 0.40)
	}
	return hsl(48*(1-math.Log(min(behind, maxLegendLatency))/math.Log(maxLegendLatency)), 0.85, 0.50)
}

// latencyText describes the RTT of a host's worker.
func latencyText(h *control.HostLine) string {
	switch {
	case h.PlacedAt == "":
		return "not crawled yet"
	case h.RTTMs == 0:
		return words.Short(h.PlacedAt) + " did not measure it"
	}
	return fmt.Sprintf("%.1f ms from %s; minimum measured %.1f ms", h.RTTMs, words.Short(h.PlacedAt), h.LeastRTTMs)
}
