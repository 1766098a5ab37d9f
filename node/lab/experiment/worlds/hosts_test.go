package worlds_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

func TestDrawHostsOfAMatrix(t *testing.T) {
	for nodes, want := range map[int]int{30: 1000, 240: 228} {
		o := trialtest.Clusters(t, nodes)
		net, err := internet.Load(internet.Options{Seed: 1, RTT: o.RTT, Prefixes: o.Prefixes, Fill: true})
		if err != nil {
			t.Fatal(err)
		}
		p, s, err := worlds.Hosts(net, rand.New(rand.NewPCG(1, 2)), 12, 1000, false)
		if err != nil || len(p) != 12 || len(s) != want {
			t.Fatalf("%d nodes: %d crawlers and %d sites, %v", nodes, len(p), len(s), err)
		}
		seen := make(map[int]bool)
		at := worlds.NewAddresses(&o, net)
		for _, host := range s {
			if seen[host] || slices.Contains(p, host%nodes) {
				t.Fatalf("%d nodes: host %d is drawn twice, or stands with a crawler", nodes, host)
			}
			seen[host] = true
			if a, err := at.Of(host); err != nil || int(a.As4()[2]) != host%nodes {
				t.Fatalf("host %d has the address %v, %v", host, a, err)
			}
		}
	}
}
