package job

import (
	"fmt"
	"math"
)

// Order is what decides which URL of a host goes first, and which host.
type Order uint32

const (
	// BreadthFirst takes the URLs that are the fewest links from a seed first.
	BreadthFirst Order = iota
	// ByLinks takes those first to which the most pages link that many pages link to.
	ByLinks
)

var orders = [...]string{"breadth", "links"}

// String is the name of an order, as [OrderOf] reads it.
func (o Order) String() string { return orders[min(int(o), len(orders)-1)] }

// OrderOf reads the name of an order; an empty one is that of BreadthFirst.
func OrderOf(name string) (Order, error) {
	for i, n := range orders {
		if n == name || name == "" {
			return Order(i), nil // a handful
		}
	}
	return 0, fmt.Errorf("order %q: must be one of %v", name, orders)
}

// behind is the rank of URLs that have none of those before them which the job names first.
const behind = 1 << 30

// Ordered says whether URLs have another rank than their depth.
func (s *Spec) Ordered() bool { return len(s.first) > 0 || s.Order != BreadthFirst }

// Rank says where a URL in canonical form, so many links from a seed, stands among those of its
// host that wait, and its host among others: the lower goes first, and of those that are alike the
// one that came first. It is the one place that orders a crawl.
//
// What the job names first goes before all else; then [Spec.Order] decides.
func (s *Spec) Rank(url string, depth uint32, credit Credit) uint32 {
	rank := min(depth, behind-1)
	if s.Order == ByLinks {
		rank = 1 + math.MaxUint8 - uint32(credit)
	}
	if len(s.first) > 0 && s.first.Match(url) == "" {
		rank += behind
	}
	return rank
}

// Credit is the cash of a page as it is kept: two steps to its double, from 1 on.
//
// Cash is that of OPIC (Abiteboul, Preda and Cobena: Adaptive on-line page importance computation,
// WWW 2003). A page has 1 when it is found; when it is fetched, it passes [Damping] of what it has
// on to the pages that it links to, in equal parts. A page is fetched once, so it passes on what it
// had until then, and what comes later is lost.
type Credit uint8

// Damping is the share of its cash that a page passes on.
const Damping = 0.85

// CreditOf rounds cash down.
func CreditOf(cash float64) Credit {
	return Credit(min(max(2*math.Log2(cash), 0), math.MaxUint8))
}

// Cash is the least that has that credit.
func (c Credit) Cash() float64 { return math.Exp2(float64(c) / 2) }
