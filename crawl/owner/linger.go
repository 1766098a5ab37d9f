package owner

import "time"

// Linger gathers links by the peer they are to be sent to, so that few large messages go out: a batch leaves when it is full or its first
// link has waited for the peer's linger time. That starts short, grows while batches leave small and shrinks when they fill, so small rings
// stay quick and large ones batch (design, section 4). A plain state machine, driven by whoever routes the links of [Owner.Outbox]; the number
// of links in it is bounded by [Config.MaxOutbox].
type Linger struct {
	peers map[string]*waiting
	// Full is the number of links that leave at once, Min and Max bound the linger time.
	Full     int
	Min, Max time.Duration
	links    int
}

type waiting struct {
	links  []OutLink
	first  time.Time
	linger time.Duration
	used   time.Time
}

// NewLinger returns a Linger with the values of design, section 4.
func NewLinger() *Linger {
	return &Linger{peers: make(map[string]*waiting), Full: 256, Min: 100 * time.Millisecond, Max: 30 * time.Second}
}

// Put adds a link for a peer.
func (l *Linger) Put(now time.Time, peer string, k OutLink) {
	w := l.peers[peer]
	if w == nil {
		w = &waiting{linger: l.Min}
		l.peers[peer] = w
	}
	if len(w.links) == 0 {
		w.first = now
	}
	w.used = now
	w.links = append(w.links, k)
	l.links++
}

// Len is the number of links that wait.
func (l *Linger) Len() int { return l.links }

// Due takes off and returns a batch of up to Full links whose time has come, with its peer; false if there is none.
func (l *Linger) Due(now time.Time) (peer string, links []OutLink, ok bool) {
	for peer, w := range l.peers {
		if len(w.links) >= l.Full {
			w.linger = max(w.linger/2, l.Min)
			return peer, l.take(now, w), true
		}
		if len(w.links) == 0 {
			if now.Sub(w.used) > 2*l.Max {
				delete(l.peers, peer)
			}
			continue
		}
		if now.Sub(w.first) >= w.linger {
			if len(w.links) < l.Full/2 {
				w.linger = min(w.linger*2, l.Max)
			}
			return peer, l.take(now, w), true
		}
	}
	return "", nil, false
}

func (l *Linger) take(now time.Time, w *waiting) []OutLink {
	n := min(len(w.links), l.Full)
	links := w.links[:n:n]
	w.links = append([]OutLink(nil), w.links[n:]...)
	w.first, w.used = now, now
	l.links -= n
	return links
}

// Flush makes every batch due, as before an idle ring is walked; the linger times start short again.
func (l *Linger) Flush() {
	for _, w := range l.peers {
		w.first, w.linger = time.Time{}, l.Min
	}
}

// Next is when Due has something; the zero time if nothing waits.
func (l *Linger) Next() time.Time {
	var next time.Time
	for _, w := range l.peers {
		if len(w.links) == 0 {
			continue
		}
		at := w.first.Add(w.linger)
		if len(w.links) >= l.Full {
			at = w.first
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Take takes everything off that waits for a peer: it is gone, or owns the hosts no longer.
func (l *Linger) Take(peer string) []OutLink {
	w := l.peers[peer]
	if w == nil {
		return nil
	}
	delete(l.peers, peer)
	l.links -= len(w.links)
	return w.links
}
