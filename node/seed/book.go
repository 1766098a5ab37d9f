package seed

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// Peer is what the book knows of one peer. The JSON names are those of the state file.
type Peer struct {
	ID       peer.ID               `json:"id"`                // its name
	Address  string                `json:"address,omitempty"` // multiaddr at which it answered last, without /p2p; empty: never
	Told     []string              `json:"told,omitempty"`    // multiaddrs that others told of it last
	Heard    time.Time             `json:"heard"`             // when it was heard of first
	Visited  time.Time             `json:"visited,omitzero"`  // when it was visited last
	Answered time.Time             `json:"answered,omitzero"` // when it answered last
	Visits   int                   `json:"visits"`            // how often it was visited
	Answers  int                   `json:"answers"`           // how often it answered
	Failed   int                   `json:"failed,omitempty"`  // visits without an answer since the last one with
	Error    string                `json:"error,omitempty"`   // what came of the last of those
	Windows  [len(measures)]Window `json:"windows,omitempty"` // how it did in each window, from the shortest

	visiting bool
	ips      []netip.Addr // of Told
	network  string       // of Address, see networkOf
}

// Rank says whether a peer is given.
type Rank uint8

// The ranks.
const (
	// Out: it is not given.
	Out Rank = iota
	// Spare: it answers and is too new to be trusted in; it is given where there are too few
	// others.
	Spare
	// Proven: it is given.
	Proven
)

// String is out, spare or in.
func (r Rank) String() string { return [...]string{"out", "spare", "in"}[r] }

const (
	// trial visits a new peer may have before a window has to show that it is reliable; half of
	// them have to be answered.
	trial = 4
	// stale is how long after its last answer a peer is given at most, as when the seed itself was
	// off.
	stale = 24 * time.Hour
)

// Rank says whether a peer is given, and why.
func (p *Peer) Rank(now time.Time) (Rank, string) {
	switch {
	case p.Visits == 0:
		return Out, "not visited yet"
	case p.Failed > 0:
		return Out, fmt.Sprintf("unreachable, %d in a row: %s", p.Failed, p.Error)
	case now.Sub(p.Answered) > stale:
		return Out, "no visit for a day"
	}
	for i, m := range measures {
		if m.shows(p.Windows[i]) {
			return Proven, fmt.Sprintf("reliable: %.0f%% of %s", 100*p.Windows[i].Reliability, m.name)
		}
	}
	if p.Visits <= trial && 2*p.Answers >= p.Visits {
		return Spare, fmt.Sprintf("too new, after %d: given where fewer than %d others are", p.Visits, MostGiven)
	}
	return Out, fmt.Sprintf("unreliable: %d of %d visits were answered, %.0f%% of a day", p.Answers, p.Visits, 100*p.Windows[2].Reliability)
}

// addrs are where a peer is visited: first where it answered.
func (p *Peer) addrs() (list []ma.Multiaddr) {
	for _, text := range append([]string{p.Address}, p.Told...) {
		if a, err := ma.NewMultiaddr(text); text != "" && err == nil && len(list) < maxAddrs {
			list = append(list, a)
		}
	}
	return list
}

// Rules of a book.
type Rules struct {
	Public bool          // public addresses only, and one peer of a network in an answer
	Every  time.Duration // how often a peer is visited that answers
	Most   int           // peers kept
}

// Book knows every peer heard of. It is a plain state machine: not safe for concurrent use.
type Book struct {
	rules Rules
	peers map[peer.ID]*Peer
}

// NewBook returns an empty book.
func NewBook(rules Rules) *Book { return &Book{rules: rules, peers: make(map[peer.ID]*Peer)} }

const (
	// longestWait between two visits of a peer that does not answer; the wait doubles up to it.
	longestWait = 8 * time.Hour
	// lastTry: who has not answered so many visits in a row, and never before, is forgotten.
	lastTry = 8
	// lost: who has not answered for so long is forgotten.
	lost = 30 * 24 * time.Hour
	// crowd of peers that never answered and are said to be at one IP address are kept in public:
	// whoever makes up peers must not have us knock at a door without end.
	crowd = 16
	// maxError bounds the text of an error, in bytes.
	maxError = 200
)

// Hear notes that a peer is said to be at some addresses.
func (b *Book) Hear(now time.Time, info peer.AddrInfo) {
	var told []string
	for _, a := range info.Addrs {
		if usable(a, b.rules.Public) && len(told) < maxAddrs {
			told = append(told, a.String())
		}
	}
	if len(told) == 0 {
		return
	}
	p := b.peers[info.ID]
	if p == nil {
		if b.crowded(told) || !b.room() {
			return
		}
		p = &Peer{ID: info.ID, Heard: now}
		b.peers[info.ID] = p
	}
	p.tell(told)
}

// tell notes where a peer is said to be.
func (p *Peer) tell(told []string) {
	p.Told, p.ips = told, make([]netip.Addr, len(told))
	for i, text := range told {
		p.ips[i] = ipOf(text)
	}
}

// crowded says whether enough peers that never answered are said to be at one of the addresses.
func (b *Book) crowded(told []string) bool {
	if !b.rules.Public {
		return false
	}
	at := ipOf(told[0])
	n := 0
	for _, p := range b.peers {
		if p.Answers == 0 && slices.Contains(p.ips, at) {
			n++
		}
	}
	return n >= crowd
}

// room makes room for one more peer, and says whether there is any: who answers is not forgotten,
// nor is who was not visited yet.
func (b *Book) room() bool {
	if len(b.peers) < b.rules.Most {
		return true
	}
	var worst *Peer
	for _, p := range b.peers {
		if p.Failed > 0 && !p.visiting && (worst == nil || worse(p, worst) < 0) {
			worst = p
		}
	}
	if worst == nil {
		return false
	}
	delete(b.peers, worst.ID)
	return true
}

// worse orders peers from the worst: those that never answered, then by what they did in the
// longest window.
func worse(p, q *Peer) int {
	last := len(measures) - 1
	return cmp.Or(
		cmp.Compare(min(p.Answers, 1), min(q.Answers, 1)),
		cmp.Compare(p.Windows[last].Reliability, q.Windows[last].Reliability),
		p.Answered.Compare(q.Answered),
		cmp.Compare(q.Failed, p.Failed),
	)
}

// due is when a peer is visited next.
func (b *Book) due(p *Peer) time.Time {
	if p.Visits == 0 {
		return p.Heard
	}
	wait := b.rules.Every
	for i := 1; i < p.Failed && wait < longestWait; i++ {
		wait *= 2
	}
	return p.Visited.Add(min(wait, max(longestWait, b.rules.Every)))
}

// Due returns up to n peers whose visit is due, those that are given first, and takes them as being
// visited until Visited tells what came of it.
func (b *Book) Due(now time.Time, n int) []peer.AddrInfo {
	var list []*Peer
	for _, p := range b.peers {
		if !p.visiting && !b.due(p).After(now) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(p, q *Peer) int {
		answer := func(p *Peer) int { // whoever makes up peers must not keep us from those that we give
			if p.Visits > 0 && p.Failed == 0 {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(answer(p), answer(q)), b.due(p).Compare(b.due(q)), cmp.Compare(p.ID, q.ID))
	})
	due := make([]peer.AddrInfo, 0, n)
	for _, p := range list[:min(n, len(list))] {
		p.visiting = true
		due = append(due, peer.AddrInfo{ID: p.ID, Addrs: p.addrs()})
	}
	return due
}

// Visited notes that a peer answered at an address, or with an error why it is not to be given.
func (b *Book) Visited(now time.Time, id peer.ID, at ma.Multiaddr, err error) {
	p := b.peers[id]
	if p == nil {
		return
	}
	if err == nil && (at == nil || !usable(at, b.rules.Public)) {
		err = errors.New("it answered at no address that can be given")
	}
	for i, m := range measures {
		p.Windows[i].note(err == nil, max(now.Sub(p.Visited), 0), m.span)
	}
	p.visiting, p.Visited = false, now
	p.Visits++
	if err == nil {
		if text := at.String(); text != p.Address {
			p.Address, p.network = text, networkOf(text, b.rules.Public)
		}
		p.Answered, p.Failed, p.Error = now, 0, ""
		p.Answers++
		return
	}
	text := err.Error()
	p.Failed, p.Error = p.Failed+1, text[:min(len(text), maxError)]
	if p.Answers == 0 && p.Failed >= lastTry || p.Answers > 0 && now.Sub(p.Answered) > lost {
		delete(b.peers, id)
	}
}

// Released takes back that a peer is being visited, as nothing was learnt of it.
func (b *Book) Released(id peer.ID) {
	if p := b.peers[id]; p != nil {
		p.visiting = false
	}
}

// Visiting says whether anybody is being visited.
func (b *Book) Visiting() bool {
	for _, p := range b.peers {
		if p.visiting {
			return true
		}
	}
	return false
}

// Answering is how many peers answered when they were visited last.
func (b *Book) Answering() (n int) {
	for _, p := range b.peers {
		if p.Visits > 0 && p.Failed == 0 {
			n++
		}
	}
	return n
}

// Peers returns all peers as they are, the best first.
func (b *Book) Peers() []Peer {
	list := make([]Peer, 0, len(b.peers))
	for _, p := range b.peers {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(p, q Peer) int { return cmp.Or(worse(&q, &p), cmp.Compare(p.ID, q.ID)) })
	return list
}

// Restore takes peers of an earlier run into an empty book, the best first as far as there is room.
// What is no peer, or may not be given any more under these rules, is left out; what is to come, by
// a clock that was wrong, is now.
func (b *Book) Restore(now time.Time, list []Peer) {
	keep := func(text string) bool {
		a, err := ma.NewMultiaddr(text)
		return err == nil && usable(a, b.rules.Public)
	}
	for _, p := range list {
		told := slices.DeleteFunc(p.Told[:min(len(p.Told), maxAddrs)], func(text string) bool { return !keep(text) })
		met := p.Answers > 0
		if len(b.peers) >= b.rules.Most || p.ID.Validate() != nil || !met && len(told) == 0 || met && !keep(p.Address) {
			continue
		}
		for _, at := range []*time.Time{&p.Heard, &p.Visited, &p.Answered} {
			if at.After(now) {
				*at = now
			}
		}
		p.tell(told)
		if p.network = ""; met {
			p.network = networkOf(p.Address, b.rules.Public)
		}
		b.peers[p.ID] = &p
	}
}
