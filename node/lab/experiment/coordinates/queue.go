package coordinates

import (
	"math/rand/v2"
	"slices"
	"time"
)

// source is the sub-queue of a URL.
type source uint8

// The sub-queues of a peer (3.5).
const (
	idle     source = iota // nothing to fetch now
	assigned               // assigned to this peer after a cycle
	proxy                  // estimates for others
	found                  // found here, not placed
)

const (
	// assignedShare and proxyShare are the shares of all fetches for these sub-queues when they are
	// not empty; the rest, and the share of an empty one, goes to the next. The paper leaves open
	// whether the proxy's 0.1 is of all or of the rest: here of all.
	assignedShare, proxyShare = 0.8, 0.1
	// maxFound bounds the found URLs of a host.
	maxFound = 600
)

// request is a URL that a requester wants to have estimated.
type request struct {
	pageURL
	requester string    // receives the result
	at        time.Time // time of the request
}

// queue holds the URLs that a peer fetches in three sub-queues.
type queue struct {
	// wait is the probability that nothing is fetched although there is work, which slows the local
	// crawl while others estimate (3.4, step 3).
	wait     float64
	rnd      *rand.Rand
	assigned fifo[pageURL]
	proxy    fifo[request]
	hosts    []string // those with found URLs, unordered: one is drawn
	found    map[string]*fifo[pageURL]
}

func newQueue(rnd *rand.Rand) *queue {
	return &queue{rnd: rnd, found: make(map[string]*fifo[pageURL])}
}

// find adds a URL to those of its host; false if there are too many.
func (q *queue) find(u *pageURL) bool {
	urls := q.found[u.host]
	if urls == nil {
		urls = new(fifo[pageURL])
		q.found[u.host] = urls
		q.hosts = append(q.hosts, u.host)
	}
	if urls.len() >= maxFound {
		return false
	}
	urls.push(*u)
	return true
}

// bucket returns the number of found URLs of a host.
func (q *queue) bucket(host string) int {
	if urls := q.found[host]; urls != nil {
		return urls.len()
	}
	return 0
}

// take removes a host from the found ones, as when it is ready for a batch, and returns its URLs.
func (q *queue) take(host string) []pageURL {
	urls := q.found[host]
	if urls == nil {
		return nil
	}
	delete(q.found, host)
	at, last := slices.Index(q.hosts, host), len(q.hosts)-1
	q.hosts[at] = q.hosts[last]
	q.hosts = q.hosts[:last]
	return urls.all()
}

// next removes and returns the URL to fetch now, with its sub-queue; idle if there is none or the
// peer must wait. Requester and time are set for a proxy's.
func (q *queue) next() (request, source) {
	if q.wait > 0 && q.rnd.Float64() < q.wait {
		return request{}, idle
	}
	given, asked, own := q.assigned.len() > 0, q.proxy.len() > 0, len(q.hosts) > 0
	draw := q.rnd.Float64()
	switch {
	case given && (draw < assignedShare || !asked && !own):
		return request{pageURL: q.assigned.pop()}, assigned
	case asked && (!own || draw < assignedShare+proxyShare): // unused shares of assigned ones go to the proxy's
		return q.proxy.pop(), proxy
	case own:
		return request{pageURL: q.draw()}, found
	default:
		return request{}, idle
	}
}

// draw removes and returns the first URL of a random host.
func (q *queue) draw() pageURL {
	host := q.hosts[q.rnd.IntN(len(q.hosts))]
	urls := q.found[host]
	u := urls.pop()
	if urls.len() == 0 {
		q.take(host)
	}
	return u
}

// fifo is a queue in a slice whose front is freed once half of it is used up.
type fifo[T any] struct {
	items []T
	first int
}

func (f *fifo[T]) len() int        { return len(f.items) - f.first }
func (f *fifo[T]) push(items ...T) { f.items = append(f.items, items...) }
func (f *fifo[T]) all() []T        { return f.items[f.first:] }
func (f *fifo[T]) pop() T {
	var none T
	item := f.items[f.first]
	f.items[f.first] = none
	f.first++
	if f.first > 32 && f.first*2 > len(f.items) {
		n := copy(f.items, f.items[f.first:])
		clear(f.items[n:])
		f.items, f.first = f.items[:n], 0
	}
	return item
}
