package ipmicra

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// Load measures load balancing and rebuilding of the tree after delegation.
var Load = trial.Experiment{
	Name:  "ipmicra-load",
	About: "IPMicra: cost of relieving overloaded crawlers and of changed IP ranges",
	Long: `IPMicra (Papapetrou and Samaras 2004; papers 2.1, 2.4): 12 crawlers (--peers) place 1,000 sites at T = 50 ms.

Rows relieve: each site costs its crawler a drawn number of pages per day, 100 on average (the paper counts bytes). A crawler's capacity is 1.25 times an even share. An
overloaded crawler gives up subnets until it fits. They are those with the least variance between crawlers' probes (least-variance, the paper's rule), random ones, or the
largest. Each subnet goes to the next best crawler with free capacity, by its probes. With fewer than two probes it is predicted from nearby probes. optimal is the share of
moved subnets within 1 ms of their best other crawler with free capacity. The round trip to a subnet is the mean over its sites. lost is the increase of the round trip, and
lost_at_best the increase at that best crawler. measured is the share moved to a crawler that had probed the subnet. Rows -scattered have at most one site per organization.
Rows -all-probed add probes of all crawlers for each subnet.

Fewer than the paper's two thirds are optimal. Most subnets got their worker with one probe or none, so the next best crawler is rarely among those that probed. Even with
probes of all crawlers, least variance loses no less than random. It shows how distant crawlers differ, not how much farther the second is than the first.

Rows rebuild: the registries' ranges change after 650 sites. The ranges concerned contain no other range and have at least 8 addresses. A tenth is split in two. A tenth is
removed if it lies in another, which gets its addresses. A tenth gets a new range of another organization in its first half. Row changed has the numbers. The other 350 sites
are judged without a change, with the tree rebuilt (rebuild), and with no records (empty). restart rebuilds the tree without its predecessor, as after a restart of all peers.

Figures are medians of five draws of crawlers, sites and changes. Sites without an address are in no
range, so no subnet moves. Rows rebuild need ranges, rows -scattered 200 organizations.`,
	Run: runIPMicraLoad,
}

const (
	loadDraws = 5
	// pagesDay is the mean cost of a site per day, headroom the capacity of a crawler relative to
	// an even share.
	pagesDay, headroom = 100, 1.25
	// lostLittle in ms is an acceptable loss of a subnet.
	lostLittle = 10
	// changeOf: one range in so many is changed in each way; the smallest has 1<<changeBits
	// addresses.
	changeOf, changeBits = 10, 3
	relieveThreshold     = 50 * time.Millisecond
)

const (
	leastVariance = "relieve-least-variance" // the paper's rule
	// allProbed is in the names of rows in which all crawlers had probed all subnets.
	allProbed = "-all-probed"
)

// paperOptimal is the paper's share of subnets that moved to their best crawler, in percent.
const paperOptimal = 100 * 2 / 3.

func runIPMicraLoad(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	p, err := newIPMicraRuns(o, r, probesCrawlers)
	if err != nil {
		return err
	}
	draws := trial.Either(o, loadDraws, 2)
	r.Input("draws", draws)
	for i := range draws {
		progress(fmt.Sprintf("draw %d", i+1), float64(i)/float64(draws))
		if err := p.load(ctx, o.Rand(uint64(i))); err != nil { // not negative
			return err
		}
	}
	p.found.loadTable(r)
	return nil
}

// load is a draw.
func (p *ipmicraRuns) load(ctx context.Context, rnd *rand.Rand) error {
	crawlers, sites, err := worlds.Hosts(p.net, rnd, p.peers, probesSites, false)
	if err != nil {
		return err
	}
	scene, err := p.scene(crawlers, sites)
	if err != nil {
		return err
	}
	scene.describe(p.found.row("sites"))
	if err := p.relieved(ctx, rnd, scene, ""); err != nil {
		return err
	}
	if len(p.net.Hierarchy()) == 0 {
		return nil
	}
	if err := p.rebuild(ctx, rnd, scene); err != nil {
		return err
	}
	alone, err := p.alone(rnd, sites)
	if err != nil || alone == nil {
		return err
	}
	if scene, err = p.scene(crawlers, alone); err != nil {
		return err
	}
	return p.relieved(ctx, rnd, scene, scattered)
}

// relieved lets the crawlers of a scene give up subnets by each rule.
func (p *ipmicraRuns) relieved(ctx context.Context, rnd *rand.Rand, scene *ipmicraScene, suffix string) error {
	pages := make([]float64, len(scene.sites))
	for i := range pages {
		pages[i] = pagesDay * rnd.ExpFloat64()
	}
	alone := func(loads []ipmicra.Load) [][]ipmicra.Load { return slices.Collect(slices.Chunk(loads, 1)) }
	for _, rule := range []struct {
		name  string
		order func(loads []ipmicra.Load) [][]ipmicra.Load
	}{
		{leastVariance, func(loads []ipmicra.Load) [][]ipmicra.Load { return [][]ipmicra.Load{loads} }},
		{"relieve-random", func(loads []ipmicra.Load) [][]ipmicra.Load {
			rnd.Shuffle(len(loads), func(i, j int) { loads[i], loads[j] = loads[j], loads[i] })
			return alone(loads)
		}},
		{"relieve-largest", func(loads []ipmicra.Load) [][]ipmicra.Load {
			slices.SortStableFunc(loads, func(a, b ipmicra.Load) int { return cmp.Compare(b.Load, a.Load) })
			return alone(loads)
		}},
	} {
		for _, probed := range []string{"", allProbed} {
			if probed != "" && suffix == "" {
				continue
			}
			s := ipmicra.New(scene.tree, relieveThreshold)
			if _, err := scene.placeAll(ctx, s, scene.ping); err != nil {
				return err
			}
			if probed != "" {
				scene.probeAll(s)
			}
			scene.relieve(p.found.row(rule.name+suffix+probed), s, pages, rule.order)
		}
	}
	return nil
}

// probeAll adds probes of one site of each subnet by all crawlers to its record.
func (c *ipmicraScene) probeAll(s *ipmicra.Strategy) {
	for i, addr := range c.addrs {
		subnet, _ := s.Worker(addr)
		probes := make(map[string]ipmicra.Probe)
		for k, peer := range c.peers {
			probes[peer.Peer] = ipmicra.Probe{RTT: c.rtt[i][k], At: time.Unix(int64(i), 0)} // the last site's stand
		}
		if subnet.IsValid() {
			s.Memory().Merge(ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: subnet, Probes: probes}}})
		}
	}
}

// relieve lets overloaded crawlers give up subnets, in batches of equally good ones.
func (c *ipmicraScene) relieve(row *collected, s *ipmicra.Strategy, pages []float64, order func([]ipmicra.Load) [][]ipmicra.Load) {
	sites, loads, held, total := make(map[netip.Prefix][]int), make(map[netip.Prefix]float64), make([]float64, len(c.peers)), 0.0
	for i, addr := range c.addrs {
		if subnet, worker := s.Worker(addr); worker != "" {
			sites[subnet] = append(sites[subnet], i)
			loads[subnet] += pages[i]
			held[c.index[worker]] += pages[i]
			total += pages[i]
		}
	}
	most := headroom * total / float64(len(c.peers))
	over, moves, optimal, little, measured, moved, lost, lostBest, excess := 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
	for from := range c.peers {
		if held[from] <= most {
			continue
		}
		over++
		var mine []ipmicra.Load
		for record := range s.Memory().Subnets() {
			if record.Worker == c.peers[from].Peer && loads[record.Prefix] > 0 {
				mine = append(mine, ipmicra.Load{Prefix: record.Prefix, Load: loads[record.Prefix]})
			}
		}
		for _, batch := range order(mine) {
			var rooms []ipmicra.Room
			for k, peer := range c.peers {
				rooms = append(rooms, ipmicra.Room{Peer: peer.Peer, Free: most - held[k]})
			}
			for _, m := range s.Relieve(time.Time{}, c.peers[from].Peer, held[from]-most, batch, rooms) {
				to, best := c.index[m.To], math.Inf(1)
				for k := range c.peers {
					if k != from && most-held[k] >= m.Load {
						best = min(best, c.mean(sites[m.Prefix], k))
					}
				}
				record, _ := s.Memory().Subnet(m.Prefix)
				_, known := record.Probes[m.To]
				now := c.mean(sites[m.Prefix], to)
				loss := now - c.mean(sites[m.Prefix], from)
				moves++
				optimal += report.Truth(now-best <= worlds.Within.Seconds()*1000)
				little += report.Truth(loss < lostLittle)
				measured += report.Truth(known)
				lost, lostBest, moved = lost+loss, lostBest+loss-now+best, moved+m.Load
				held[from] -= m.Load
				held[to] += m.Load
			}
		}
		excess += max(0, held[from]-most)
	}
	row.add("optimal", 100*optimal/moves)
	row.add("lost_under_10_ms", 100*little/moves)
	row.add("lost", lost/moves)
	row.add("lost_at_best", lostBest/moves)
	row.add("measured", 100*measured/moves)
	row.add("moved", moves)
	row.add("moved_pages", 100*moved/total)
	row.add("left_over", 100*excess/total)
	row.add("overloaded", float64(over))
}

// mean round trip between a crawler and sites, in ms.
func (c *ipmicraScene) mean(sites []int, crawler int) float64 {
	sum := time.Duration(0)
	for _, site := range sites {
		sum += c.rtt[site][crawler]
	}
	return sum.Seconds() * 1000 / float64(len(sites))
}

// rebuild changes the ranges after the first sites are placed.
func (p *ipmicraRuns) rebuild(ctx context.Context, rnd *rand.Rand, scene *ipmicraScene) error {
	networks := changed(rnd, p.net.Hierarchy(), p.found.row("changed"))
	after, err := ipmicra.Build(networks)
	if err != nil {
		return err
	}
	train := len(scene.sites) * probesTrain / probesSites
	for _, change := range []struct {
		name string
		make func(*ipmicra.Strategy) *ipmicra.Strategy
	}{
		{"no-change", func(s *ipmicra.Strategy) *ipmicra.Strategy { return s }},
		{"rebuild", func(s *ipmicra.Strategy) *ipmicra.Strategy { s.Rebuild(after); return s }},
		{"restart", func(s *ipmicra.Strategy) *ipmicra.Strategy { s.Rebuild(after); s.Rebuild(after); return s }}, // so the tree before is this one
		{"empty", func(*ipmicra.Strategy) *ipmicra.Strategy { return ipmicra.New(after, relieveThreshold) }},
	} {
		s := ipmicra.New(p.tree, relieveThreshold)
		var judged, inChanged []placed
		for i := range scene.sites {
			if err := ctx.Err(); err != nil {
				return err
			}
			if i == train {
				s = change.make(s)
			}
			one, err := scene.place(s, i, scene.ping)
			if err != nil {
				return err
			}
			if i < train {
				continue
			}
			judged = append(judged, one)
			was, _ := p.tree.Locate(scene.addrs[i])
			if is, _ := after.Locate(scene.addrs[i]); is.Subnet != was.Subnet {
				inChanged = append(inChanged, one)
			}
		}
		row, each := p.found.row("rebuild-"+change.name), func(*placed) bool { return true }
		row.add("optimal", share(judged, each, (*placed).optimal))
		row.add("probes_per_site", probesEach(judged))
		row.add("in_changed_ranges", 100*float64(len(inChanged))/float64(len(judged)))
		row.add("optimal_in_changed", share(inChanged, each, (*placed).optimal))
		row.add("probes_in_changed", probesEach(inChanged))
	}
	return nil
}

// changed returns changed registry data.
func changed(rnd *rand.Rand, networks []registry.Network, row *collected) []registry.Network {
	var out []registry.Network
	var around []netip.Prefix // the ranges that hold the next one
	split, gone, fresh := 0, 0, 0
	for i, n := range networks {
		for len(around) > 0 && !around[len(around)-1].Contains(n.Prefix.Addr()) {
			around = around[:len(around)-1]
		}
		nested := len(around) > 0
		around = append(around, n.Prefix)
		way := rnd.IntN(changeOf)
		if n.Prefix.Addr().BitLen()-n.Prefix.Bits() < changeBits || i+1 < len(networks) && n.Prefix.Contains(networks[i+1].Prefix.Addr()) {
			way = changeOf // stays
		}
		half := n
		half.Prefix = netip.PrefixFrom(n.Prefix.Addr(), n.Prefix.Bits()+1)
		switch {
		case way == 0:
			split++
			bytes, bit := n.Prefix.Addr().AsSlice(), n.Prefix.Bits()
			bytes[bit/8] |= 0x80 >> (bit % 8)
			second, _ := netip.AddrFromSlice(bytes) // as long as it was
			out = append(out, half, registry.Network{Prefix: netip.PrefixFrom(second, bit+1), Org: n.Org, Country: n.Country})
		case way == 1 && nested:
			gone++
		case way == 2:
			fresh++
			half.Org = fmt.Sprintf("new %d", fresh)
			out = append(out, n, half)
		default:
			out = append(out, n)
		}
	}
	row.add("ranges", float64(len(networks)))
	row.add("split", float64(split))
	row.add("gone", float64(gone))
	row.add("new", float64(fresh))
	return out
}

// loadTable writes the medians over the draws.
func (p *probesRows) loadTable(r *report.Report) {
	units := map[string]string{
		"lost": "ms mean", "lost_at_best": "ms mean", "moved": "subnets", "moved_pages": "% of pages", "left_over": "% of pages", "overloaded": "crawlers", "judged_and_trained": "sites",
		"probes_per_site": "probes", "probes_in_changed": "probes", "ranges": "ranges", "split": "ranges", "gone": "ranges", "new": "ranges",
	}
	for _, name := range p.order {
		row := p.rows[name]
		for _, metric := range row.order {
			values := row.values[metric]
			if len(values) == 0 {
				continue
			}
			published := math.NaN()
			if (name == leastVariance || name == leastVariance+scattered) && metric == "optimal" {
				published = paperOptimal
			}
			r.Table.Drawn(name, metric, cmp.Or(units[metric], "%"), published, values)
		}
	}
}
