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

// Source is the sub-queue of a URL.
type Source uint8

// The sub-queues of a peer (3.5).
const (
	Idle     Source = iota // nothing to fetch now
	Assigned               // assigned to this peer after a cycle
	Proxy                  // estimates for others
	Found                  // found here, not placed
)

// QueueConfig is the configuration of a peer's queue.
type QueueConfig struct {
	// Wait is the probability that nothing is fetched although there is work, which slows the local
	// crawl while others estimate (3.4, step 3).
	Wait float64
	// Assigned and Proxy are the shares of all fetches for these sub-queues when they are not empty;
	// the rest, and the share of an empty one, goes to the next. The paper leaves open whether the
	// proxy's 0.1 is of all or of the rest: here of all.
	Assigned, Proxy float64
	// MaxHosts and MaxURLs bound the found URLs: their hosts, and the URLs of each.
	MaxHosts, MaxURLs int
}

// DefaultQueueConfig returns the paper's configuration.
func DefaultQueueConfig() QueueConfig {
	return QueueConfig{Assigned: 0.8, Proxy: 0.1, MaxHosts: 15_000, MaxURLs: 600}
}

// Request is a URL that a requester wants to have estimated.
type Request struct {
	URL
	Requester string    // receives the result
	At        time.Time // time of the request
}

// Queue holds the URLs that a peer fetches in three sub-queues.
type Queue struct {
	cfg      QueueConfig
	rnd      *rand.Rand
	assigned fifo[URL]
	proxy    fifo[Request]
	hosts    []string // those with found URLs, unordered: one is drawn
	place    map[string]int
	found    map[string]*bucket
	rarely   list.List // hosts, the least recently used at the back
	urls     int
}

// bucket has the found URLs of a host.
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

// Assign appends URLs that were assigned to this peer.
func (q *Queue) Assign(urls ...URL) { q.assigned.push(urls...) }

// Ask appends requests of other peers.
func (q *Queue) Ask(requests ...Request) { q.proxy.push(requests...) }

// Find adds a URL to the bucket of its host; false if that is full. Beyond the limit of hosts the
// least recently used one is dropped with its URLs, which are returned: a caller that stores them
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

// Bucket returns the number of found URLs of a host.
func (q *Queue) Bucket(host string) int {
	if b := q.found[host]; b != nil {
		return b.urls.len()
	}
	return 0
}

// Take removes a host from the found ones, as when it is ready for a batch, and returns its URLs.
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

// Len returns the number of URLs in each sub-queue.
func (q *Queue) Len() (assigned, proxy, found int) { return q.assigned.len(), q.proxy.len(), q.urls }

// Next removes and returns the URL to fetch now, with its sub-queue; Idle if there is none or the
// peer must wait. Requester and time are set for a proxy's.
func (q *Queue) Next() (Request, Source) {
	if q.cfg.Wait > 0 && q.rnd.Float64() < q.cfg.Wait {
		return Request{}, Idle
	}
	assigned, proxy, found := q.assigned.len() > 0, q.proxy.len() > 0, q.urls > 0
	draw := q.rnd.Float64()
	switch {
	case assigned && (draw < q.cfg.Assigned || !proxy && !found):
		return Request{URL: q.assigned.pop()}, Assigned
	case proxy && (!found || draw < q.cfg.Assigned+q.cfg.Proxy): // unused shares of assigned ones go to the proxy's
		return q.proxy.pop(), Proxy
	case found:
		return Request{URL: q.draw()}, Found
	default:
		return Request{}, Idle
	}
}

// draw removes and returns the first URL of a random host.
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
