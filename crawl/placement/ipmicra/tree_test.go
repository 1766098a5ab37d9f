package ipmicra

import (
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/placement/registry"
)

func TestLocate(t *testing.T) {
	ranges := tree(t,
		"10.1.0.0/16", "", "10.0.0.0/8", "registry", "10.1.2.0/24", "acme", "10.1.2.7/32", "unary", "10.1.2.0/24", "second", "10.1.2.128/25", "",
		"2001:db8::/32", "six", "2001:db8:1::/48", "", "2001:db8:1::7/128", "unary", "0.0.0.0/0", "nobody", "::ffff:172.16.0.0/108", "mapped",
	)
	tests := map[string]struct {
		addr, subnet, unary, organisation string
	}{
		"smallest":                        {"10.1.2.3", "10.1.2.0/24", "", "acme"},
		"unary is passed over":            {"10.1.2.7", "10.1.2.0/24", "10.1.2.7/32", "acme"},
		"inherits from the nearest":       {"10.1.2.200", "10.1.2.128/25", "", "acme"},
		"inherits over a level":           {"10.1.9.9", "10.1.0.0/16", "", "registry"},
		"largest":                         {"10.9.9.9", "10.0.0.0/8", "", "registry"},
		"nobody's: its own /24":           {"11.1.2.3", "11.1.2.0/24", "", ""},
		"IPv6":                            {"2001:db8:2::1", "2001:db8::/32", "", "six"},
		"IPv6, unary":                     {"2001:db8:1::7", "2001:db8:1::/48", "2001:db8:1::7/128", "six"},
		"IPv6, nobody's":                  {"2001:db9:1::7", "2001:db9:1::/48", "", ""},
		"IPv4 in IPv6":                    {"::ffff:10.1.2.3", "10.1.2.0/24", "", "acme"},
		"a range written as IPv4 in IPv6": {"172.17.0.1", "172.16.0.0/12", "", "mapped"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := Place{Subnet: prefix(tt.subnet), Organisation: tt.organisation}
			if tt.unary != "" {
				want.Unary = prefix(tt.unary)
			}
			if got, ok := ranges.Locate(addr(tt.addr)); !ok || got != want {
				t.Errorf("located at %+v, %v; want %+v", got, ok, want)
			}
		})
	}
	if at, ok := ranges.Locate(netip.Addr{}); ok {
		t.Errorf("no address is located at %v", at)
	}
	if got := ranges.Size(); got != 9 {
		t.Errorf("%d ranges, want 9", got)
	}
}

func TestParentAndChildren(t *testing.T) {
	ranges := tree(t, "10.0.0.0/8", "a", "10.1.0.0/16", "b", "10.1.2.0/24", "c", "10.1.2.3/32", "d", "10.3.0.0/16", "e", "12.0.0.0/8", "f", "2001:db8::/32", "g")
	for child, parent := range map[string]netip.Prefix{
		"10.1.2.3/32": prefix("10.1.2.0/24"), "10.1.2.0/24": prefix("10.1.0.0/16"), "10.3.0.0/16": prefix("10.0.0.0/8"), "12.0.0.0/8": prefix("0.0.0.0/0"),
		"0.0.0.0/0": {}, "::/0": {}, "2001:db8::/32": prefix("::/0"),
		// Ranges that nobody registered.
		"10.1.3.0/24": prefix("10.1.0.0/16"), "99.0.0.0/24": prefix("0.0.0.0/0"), "10.1.2.4/32": prefix("10.1.2.0/24"), "2001:db8:7::/48": prefix("2001:db8::/32"),
	} {
		if got, ok := ranges.Parent(prefix(child)); !ok || got != parent {
			t.Errorf("parent of %s is %v, %v; want %v", child, got, ok, parent)
		}
	}
	if got, ok := ranges.Parent(netip.Prefix{}); ok {
		t.Errorf("the root has the parent %v", got)
	}
	for parent, want := range map[netip.Prefix][]netip.Prefix{
		{}:                   {prefix("0.0.0.0/0"), prefix("::/0")},
		prefix("0.0.0.0/0"):  {prefix("10.0.0.0/8"), prefix("12.0.0.0/8")},
		prefix("10.0.0.0/8"): {prefix("10.1.0.0/16"), prefix("10.3.0.0/16")},
		prefix("12.0.0.0/8"): nil, prefix("99.0.0.0/8"): nil,
	} {
		if got := slices.Collect(ranges.Children(parent)); !slices.Equal(got, want) {
			t.Errorf("children of %v are %v, want %v", parent, got, want)
		}
	}
	for child, want := range map[string]string{"10.1.2.0/24": "c", "10.1.9.0/24": "b", "99.0.0.0/8": "", "10.1.2.3/32": "d", "10.1.2.9/32": "c"} {
		if got := ranges.Organisation(prefix(child)); got != want {
			t.Errorf("organisation of %s is %q, want %q", child, got, want)
		}
	}
}

func TestBuildNamesWhatIsWrong(t *testing.T) {
	good := registry.Network{Prefix: prefix("10.0.0.0/8"), Org: "a"}
	for name, tt := range map[string]struct {
		bad  registry.Network
		want string
	}{
		"no prefix":         {registry.Network{}, "network 1: prefix"},
		"long organisation": {registry.Network{Prefix: prefix("11.0.0.0/8"), Org: strings.Repeat("x", MaxOrganisation+1)}, "network 1, 11.0.0.0/8: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Build([]registry.Network{good, tt.bad}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	empty, err := Build(nil)
	if err != nil || empty.Size() != 0 {
		t.Fatalf("no networks: %v", err)
	}
	if at, ok := empty.Locate(addr("10.1.2.3")); !ok || at.Subnet != prefix("10.1.2.0/24") {
		t.Errorf("without networks: %v, %v", at, ok)
	}
}

// TestTreeAgainstScan compares with the slow way to find the smallest range around an address and
// that around a range.
func TestTreeAgainstScan(t *testing.T) {
	networks := someNetworks(rand.New(rand.NewPCG(3, 4)), 800)
	built, err := Build(networks)
	if err != nil {
		t.Fatal(err)
	}
	around := func(a netip.Addr, under int, unary bool) netip.Prefix {
		best := netip.Prefix{}
		for _, n := range networks {
			p := n.Prefix
			if p.Contains(a) && p.Bits() < under && (unary || !p.IsSingleIP()) && (!best.IsValid() || p.Bits() > best.Bits()) {
				best = p
			}
		}
		return best
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		a := netip.AddrFrom4([4]byte{byte(r.IntN(4)), byte(r.IntN(8)), byte(r.IntN(8)), byte(r.IntN(256))})
		want := around(a, 33, false)
		if !want.IsValid() {
			continue
		}
		if got, _ := built.Locate(a); got.Subnet != want {
			t.Fatalf("%v is located at %v, want %v", a, got.Subnet, want)
		}
	}
	for _, n := range networks {
		want := around(n.Prefix.Addr(), n.Prefix.Bits(), true)
		if !want.IsValid() {
			want = ipv4
		}
		if got, ok := built.Parent(n.Prefix); !ok || got != want {
			t.Fatalf("parent of %v is %v, want %v", n.Prefix, got, want)
		}
	}
}

func someNetworks(r *rand.Rand, n int) []registry.Network {
	out := make([]registry.Network, n)
	for i := range out {
		a := netip.AddrFrom4([4]byte{byte(r.IntN(4)), byte(r.IntN(8)), byte(r.IntN(8)), byte(r.IntN(256))})
		p, _ := a.Prefix(8 + r.IntN(25))
		out[i] = registry.Network{Prefix: p, Org: string(rune('a' + r.IntN(26)))}
	}
	return out
}

func BenchmarkBuild1M(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	networks := make([]registry.Network, 1_000_000)
	names := make([]string, 30_000)
	for i := range names {
		names[i] = "organisation " + string(rune('a'+i%26)) + strings.Repeat("x", i%7) + string(rune(0x4e00+i%20_000))
	}
	for i := range networks {
		v := r.Uint32()
		p, _ := netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).Prefix(min(32, 12+int(r.ExpFloat64()*3)+r.IntN(12)))
		networks[i] = registry.Network{Prefix: p, Org: names[r.IntN(len(names))]}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(networks); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLocate(b *testing.B) {
	built, err := Build(someNetworks(rand.New(rand.NewPCG(3, 4)), 50_000))
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for b.Loop() {
		built.Locate(netip.AddrFrom4([4]byte{byte(r.IntN(4)), byte(r.IntN(8)), byte(r.IntN(8)), byte(r.IntN(256))}))
	}
}

// Children iterates over the ranges directly below one, in the order of their addresses; none for a
// range that is not in the tree.
func (t *Tree) Children(p netip.Prefix) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		id, ok := int32(nodeAll), true
		if p.IsValid() {
			id, ok = t.find(p)
		}
		if !ok {
			return
		}
		for i := id + 1; i < t.nodes[id].end; i = t.nodes[i].end {
			if !yield(t.nodes[i].prefix) {
				return
			}
		}
	}
}
