package coordinates

import (
	"container/list"
	"math/rand/v2"
	"net/netip"
	"time"
)

// URL is one page that is due.
type URL struct {
	URL  string     // canonical
	Host string     // of the URL
	Addr netip.Addr // of its server, as the requester resolved it
}

// Source is the sub-queue that a URL came from.
type Source uint8

// The sub-queues of a peer (3.5).
const (
	Idle     Source = iota // nothing to fetch now
	Assigned               // given to this peer after a cycle
	Proxy                  // estimates for others
	Found                  // found here, not placed
)

// QueueConfig are the knobs of a peer's queue.
type QueueConfig struct {
	// Wait is the probability that nothing is fetched though there is work, which slows the own
	// crawl while others estimate (3.4, step 3).
	Wait float64
	// Assigned and Proxy are the shares of all fetches that these sub-queues have when they are not
	// empty; the rest, and the share of an empty one, goes to the next. The paper leaves open
	// whether the proxy's 0.1 is of all or of the rest: of all here.
	Assigned, Proxy float64
	// MaxHosts and MaxURLs bound what is found: hosts, and URLs of each.
	MaxHosts, MaxURLs int
}

// DefaultQueueConfig is the paper's.
func DefaultQueueConfig() QueueConfig {
	return QueueConfig{Assigned: 0.8, Proxy: 0.1, MaxHosts: 15_000, MaxURLs: 600}
}

// Request is a URL that a requester wants estimated.
type Request struct {
	URL
	Requester string    // who is to have the result
	At        time.Time // when it asked
}

// Queue holds what a peer is to fetch in three sub-queues.
type Queue struct {
	cfg      QueueConfig
	rnd      *rand.Rand
	assigned fifo[URL]
	proxy    fifo[Request]
	hosts    []string // those with found URLs, in no order: one is drawn
	place    map[string]int
	found    map[string]*bucket
	rarely   list.List // hosts, the one least used at the back
	urls     int
}

// bucket are the found URLs of a host.
type bucket struct {
	urls fifo[URL]
	at   *list.Element
}

// NewQueue returns an empty queue.
func NewQueue(cfg QueueConfig, rnd *rand.Rand) *Queue {
	return &Queue{cfg: cfg, rnd: rnd, place: make(map[string]int), found: make(map[string]*bucket)}
}

// SetWait changes QueueConfig.Wait, as a batch begins and ends.
func (q *Queue) SetWait(wait float64) { q.cfg.Wait = wait }

// Assign appends URLs that were given to this peer.
func (q *Queue) Assign(urls ...URL) { q.assigned.push(urls...) }

// Ask appends what another peer wants estimated.
func (q *Queue) Ask(requests ...Request) { q.proxy.push(requests...) }

// Find adds a URL to the bucket of its host; false if that is full. Beyond the bound of hosts the
// one least recently used is dropped with its URLs, which dropped returns: whoever keeps them
// durably offers them again.
func (q *Queue) Find(u *URL) (taken bool, dropped []URL) {
	b := q.found[u.Host]
	if b == nil {
		if len(q.found) >= q.cfg.MaxHosts {
			dropped = q.Take(q.rarely.Back().Value.(string))
		}
		b = &bucket{at: q.rarely.PushFront(u.Host)}
		q.found[u.Host] = b
		q.place[u.Host] = len(q.hosts)
		q.hosts = append(q.hosts, u.Host)
	}
	if b.urls.len() >= q.cfg.MaxURLs {
		return false, dropped
	}
	b.urls.push(*u)
	q.urls++
	q.rarely.MoveToFront(b.at)
	return true, dropped
}

// Bucket counts the found URLs of a host.
func (q *Queue) Bucket(host string) int {
	if b := q.found[host]; b != nil {
		return b.urls.len()
	}
	return 0
}

// Take removes a host from what was found, as when it is ready for a batch, and returns its URLs.
func (q *Queue) Take(host string) []URL {
	b := q.found[host]
	if b == nil {
		return nil
	}
	q.urls -= b.urls.len()
	q.rarely.Remove(b.at)
	delete(q.found, host)
	at, last := q.place[host], len(q.hosts)-1
	q.hosts[at] = q.hosts[last]
	q.place[q.hosts[at]] = at
	q.hosts = q.hosts[:last]
	delete(q.place, host)
	return b.urls.all()
}

// Len counts the URLs in each sub-queue.
func (q *Queue) Len() (assigned, proxy, found int) { return q.assigned.len(), q.proxy.len(), q.urls }

// Next removes the URL to fetch now, and says where it came from; Idle if there is none or the peer
// is to wait. Requester and time are set for a proxy's.
func (q *Queue) Next() (Request, Source) {
	if q.cfg.Wait > 0 && q.rnd.Float64() < q.cfg.Wait {
		return Request{}, Idle
	}
	assigned, proxy, found := q.assigned.len() > 0, q.proxy.len() > 0, q.urls > 0
	draw := q.rnd.Float64()
	switch {
	case assigned && (draw < q.cfg.Assigned || !proxy && !found):
		return Request{URL: q.assigned.pop()}, Assigned
	case proxy && (!found || draw < q.cfg.Assigned+q.cfg.Proxy): // what the assigned ones do not use is the proxy's
		return q.proxy.pop(), Proxy
	case found:
		return Request{URL: q.draw()}, Found
	default:
		return Request{}, Idle
	}
}

// draw takes the first URL of a random host.
func (q *Queue) draw() URL {
	host := q.hosts[q.rnd.IntN(len(q.hosts))]
	b := q.found[host]
	u := b.urls.pop()
	q.urls--
	q.rarely.MoveToFront(b.at)
	if b.urls.len() == 0 {
		q.Take(host)
	}
	return u
}

// fifo is a queue in a slice whose front is given back once half of it is used up.
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
