package coordinates

import (
	"math/rand/v2"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// region is a region of the thesis' set-ups, in degrees.
type region struct{ south, north, west, east float64 }

var (
	europe       = region{35, 72, -11, 40}
	northAmerica = region{24, 60, -130, -60}
)

func (r region) holds(p placement.Position) bool {
	return p.Precision != placement.NoPosition && p.Lat >= r.south && p.Lat <= r.north && p.Lon >= r.west && p.Lon <= r.east
}

// The peers of 5.1 to 5.5: the one with the servers is in Europe and the servers are in the United
// States, so only two peers are near them.
const (
	adaptEuropean = 6
	adaptAmerican = 2
	// regionDraw is the number of hosts drawn from an unlimited internet to find these.
	regionDraw = 1024
)

// drawRegions draws the peers and servers of 5.1 to 5.5; false if too few hosts have positions.
func drawRegions(net *internet.Internet, rnd *rand.Rand, servers int) (p, s []int, ok bool) {
	crawlers, sites, err := net.Draw(rnd, regionDraw, regionDraw)
	if size := net.Size(); size > 0 { // the nodes of a matrix may be either
		crawlers, _, err = net.Draw(rnd, size, 0)
		sites = crawlers
	}
	if err != nil {
		return nil, nil, false
	}
	taken := make(map[int]bool)
	pick := func(of []int, in region, most int) (found []int) {
		for _, h := range of {
			if len(found) < most && !taken[h] && in.holds(worlds.Locate(net, h)) {
				taken[h] = true
				found = append(found, h)
			}
		}
		return found
	}
	p = append(pick(crawlers, europe, adaptEuropean), pick(crawlers, northAmerica, adaptAmerican)...)
	s = pick(sites, northAmerica, servers)
	return p, s, len(p) == adaptPeers && len(s) > 0
}
