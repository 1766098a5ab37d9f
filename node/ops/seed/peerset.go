package seed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// Peer is the state of one peer in the set. The JSON names are those of the state file.
type Peer struct {
	ID        peer.ID               `json:"id"`                // its ID
	Address   string                `json:"address,omitempty"` // multiaddr of the last response, without /p2p; empty: never
	Announced []string              `json:"told,omitempty"`    // multiaddrs last announced by others
	FirstSeen time.Time             `json:"heard"`             // when it was discovered
	Visited   time.Time             `json:"visited,omitzero"`  // time of the last visit
	Answered  time.Time             `json:"answered,omitzero"` // time of the last response
	Visits    int                   `json:"visits"`            // number of visits
	Answers   int                   `json:"answers"`           // number of responses
	Failed    int                   `json:"failed,omitempty"`  // consecutive visits without a response
	Error     string                `json:"error,omitempty"`   // error of the last of those
	Windows   [len(measures)]Window `json:"windows,omitempty"` // reliability by window, shortest first

	visiting bool
	ips      []netip.Addr // of Told
	network  string       // of Address, see networkOf
}

// Rank is whether a peer is included in responses.
type Rank uint8

// The ranks.
const (
	// Out: it is not included.
	Out Rank = iota
	// Spare: it responds but is too new; it is included if there are too few others.
	Spare
	// Proven: it is included.
	Proven
)

// String returns out, spare or in.
func (r Rank) String() string { return [...]string{"out", "spare", "in"}[r] }

const (
	// trial is the number of visits of a new peer before a window must show its reliability; half of
	// them must succeed.
	trial = 4
	// stale is the maximum age of the last response of an included peer, such as after downtime of the
	// seed.
	stale = 24 * time.Hour
)

// Rank returns whether a peer is included in responses, and why.
func (p *Peer) Rank(now time.Time) (Rank, string) {
	switch {
	case p.Visits == 0:
		return Out, "not visited yet"
	case p.Failed > 0:
		return Out, fmt.Sprintf("unreachable in %d consecutive visits: %s", p.Failed, p.Error)
	case now.Sub(p.Answered) > stale:
		return Out, "no visit for a day"
	}
	for i, m := range measures {
		if m.shows(p.Windows[i]) {
			return Proven, fmt.Sprintf("reliable: %.0f%% over %s", 100*p.Windows[i].Reliability, m.name)
		}
	}
	if p.Visits <= trial && 2*p.Answers >= p.Visits {
		return Spare, fmt.Sprintf("too new after %d: used if fewer than %d others are available", p.Visits, MostGiven)
	}
	return Out, fmt.Sprintf("unreliable: %d of %d visits successful, %.0f%% over a day", p.Answers, p.Visits, 100*p.Windows[2].Reliability)
}

// addrs returns the addresses to visit: first that of the last response.
func (p *Peer) addrs() (list []ma.Multiaddr) {
	for _, text := range append([]string{p.Address}, p.Announced...) {
		if a, err := ma.NewMultiaddr(text); text != "" && err == nil && len(list) < maxAddrs {
			list = append(list, a)
		}
	}
	return list
}

// Rules configure a PeerSet.
type Rules struct {
	Public bool          // public addresses only, and one peer per network in a response
	Every  time.Duration // interval of visits of a peer that responds
	Most   int           // maximum peers
}

// PeerSet is the set of discovered peers. It is a state machine without I/O, not safe for
// concurrent use.
type PeerSet struct {
	rules Rules
	peers map[peer.ID]*Peer
}

// NewPeerSet returns an empty set.
func NewPeerSet(rules Rules) *PeerSet { return &PeerSet{rules: rules, peers: make(map[peer.ID]*Peer)} }

const (
	// longestWait is the maximum backoff between visits of a peer that does not respond; it doubles up
	// to this.
	longestWait = 8 * time.Hour
	// lastTry is the number of failed visits after which a peer that never responded is removed.
	lastTry = 8
	// lost is the time without a response after which a peer is removed.
	lost = 30 * 24 * time.Hour
	// maxSilentPerAddress limits the peers per IP address that never responded, in the public profile:
	// forged peers must not cause endless connections to one address.
	maxSilentPerAddress = 16
	// maxError limits the text of an error, in bytes.
	maxError = 200
)

// Announced records announced addresses of a peer.
func (b *PeerSet) Announced(now time.Time, info peer.AddrInfo) {
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
		if b.addressFull(told) || !b.room() {
			return
		}
		p = &Peer{ID: info.ID, FirstSeen: now}
		b.peers[info.ID] = p
	}
	p.setAddrs(told)
}

// setAddrs records announced addresses.
func (p *Peer) setAddrs(told []string) {
	p.Announced, p.ips = told, make([]netip.Addr, len(told))
	for i, text := range told {
		p.ips[i] = ipOf(text)
	}
}

// addressFull reports whether one of the addresses has maxSilentPerAddress peers that never
// responded.
func (b *PeerSet) addressFull(told []string) bool {
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
	return n >= maxSilentPerAddress
}

// room removes a peer if the set is full, and reports whether there is space. It keeps peers that
// respond and peers not yet visited.
func (b *PeerSet) room() bool {
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

// worse orders peers from the worst: those that never responded, then by reliability in the longest
// window.
func worse(p, q *Peer) int {
	last := len(measures) - 1
	return cmp.Or(
		cmp.Compare(min(p.Answers, 1), min(q.Answers, 1)),
		cmp.Compare(p.Windows[last].Reliability, q.Windows[last].Reliability),
		p.Answered.Compare(q.Answered),
		cmp.Compare(q.Failed, p.Failed),
	)
}

// due returns the time of the next visit of a peer.
func (b *PeerSet) due(p *Peer) time.Time {
	if p.Visits == 0 {
		return p.FirstSeen
	}
	wait := b.rules.Every
	for i := 1; i < p.Failed && wait < longestWait; i++ {
		wait *= 2
	}
	return p.Visited.Add(min(wait, max(longestWait, b.rules.Every)))
}

// Due returns up to n peers due for a visit, included ones first, and marks them as being visited
// until Visited.
func (b *PeerSet) Due(now time.Time, n int) []peer.AddrInfo {
	var list []*Peer
	for _, p := range b.peers {
		if !p.visiting && !b.due(p).After(now) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(p, q *Peer) int {
		answer := func(p *Peer) int { // forged peers must not delay visits of included ones
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

// Visited records the result of a visit: the address of a response, or the error.
func (b *PeerSet) Visited(now time.Time, id peer.ID, at ma.Multiaddr, err error) {
	p := b.peers[id]
	if p == nil {
		return
	}
	if err == nil && (at == nil || !usable(at, b.rules.Public)) {
		err = errors.New("no response from a usable address")
	}
	for i, m := range measures {
		p.Windows[i].record(err == nil, max(now.Sub(p.Visited), 0), m.span)
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

// Released unmarks a peer as being visited, without a result.
func (b *PeerSet) Released(id peer.ID) {
	if p := b.peers[id]; p != nil {
		p.visiting = false
	}
}

// Visiting reports whether a visit is in progress.
func (b *PeerSet) Visiting() bool {
	for _, p := range b.peers {
		if p.visiting {
			return true
		}
	}
	return false
}

// Answering returns the number of peers whose last visit succeeded.
func (b *PeerSet) Answering() (n int) {
	for _, p := range b.peers {
		if p.Visits > 0 && p.Failed == 0 {
			n++
		}
	}
	return n
}

// Peers returns all peers, best first.
func (b *PeerSet) Peers() []Peer {
	list := make([]Peer, 0, len(b.peers))
	for _, p := range b.peers {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(p, q Peer) int { return cmp.Or(worse(&q, &p), cmp.Compare(p.ID, q.ID)) })
	return list
}

// Restore adds peers of an earlier run to an empty set, best first, up to its limit. It skips
// peers that are invalid or violate the rules, and sets times in the future to now.
func (b *PeerSet) Restore(now time.Time, list []Peer) {
	keep := func(text string) bool {
		a, err := ma.NewMultiaddr(text)
		return err == nil && usable(a, b.rules.Public)
	}
	for _, p := range list {
		told := slices.DeleteFunc(p.Announced[:min(len(p.Announced), maxAddrs)], func(text string) bool { return !keep(text) })
		met := p.Answers > 0
		if len(b.peers) >= b.rules.Most || p.ID.Validate() != nil || !met && len(told) == 0 || met && !keep(p.Address) {
			continue
		}
		for _, at := range []*time.Time{&p.FirstSeen, &p.Visited, &p.Answered} {
			if at.After(now) {
				*at = now
			}
		}
		p.setAddrs(told)
		if p.network = ""; met {
			p.network = networkOf(p.Address, b.rules.Public)
		}
		b.peers[p.ID] = &p
	}
}

// MostGiven is the maximum number of peers in a response, as many as a joining peer contacts
// (dht/p2p).
const MostGiven = 8

// Pool is the set of peers for responses, by network. It is immutable and safe for concurrent use.
type Pool struct {
	proven, spare []network
}

// network is an IP network with its peers, as multiaddrs with /p2p.
type network struct {
	name  string
	addrs []string
}

// Pool returns the peers for responses at now.
func (b *PeerSet) Pool(now time.Time) *Pool {
	var pool Pool
	at := map[Rank]map[string]int{Proven: {}, Spare: {}}
	for id, p := range b.peers {
		rank, _ := p.Rank(now)
		list := &pool.proven
		switch rank {
		case Out:
			continue
		case Spare:
			list = &pool.spare
		}
		i, known := at[rank][p.network]
		if !known {
			i = len(*list)
			at[rank][p.network] = i
			*list = append(*list, network{name: p.network})
		}
		(*list)[i].addrs = append((*list)[i].addrs, full(id, p.Address))
	}
	return &pool
}

// full returns an address with the peer ID.
func full(id peer.ID, address string) string { return address + "/p2p/" + id.String() }

// Size returns the number of proven and of spare peers.
func (p *Pool) Size() (proven, spare int) {
	for _, n := range p.proven {
		proven += len(n.addrs)
	}
	for _, n := range p.spare {
		spare += len(n.addrs)
	}
	return proven, spare
}

// Draw draws up to n peers of different networks; below(k) returns a random number from 0 to k-1.
// It draws networks first, so that many peers in one network have no advantage. Spare peers follow
// after all proven ones.
func (p *Pool) Draw(n int, below func(int) int) []string {
	var drawn []string
	used := make(map[string]bool, n)
	for _, list := range [][]network{p.proven, p.spare} {
		left := make(map[int]bool, n) // networks drawn so far: few, even of thousands
		for len(drawn) < n && len(left) < len(list) {
			i := below(len(list))
			if left[i] {
				continue
			}
			left[i] = true
			if at := list[i]; !used[at.name] {
				used[at.name] = true
				drawn = append(drawn, at.addrs[below(len(at.addrs))])
			}
		}
	}
	return drawn
}

// Window is the recent reliability of a peer: an exponentially decaying average.
type Window struct {
	Reliability float64 `json:"reliability"`    // share of the time in which it responded, 0 to 1
	Visits      float64 `json:"visits"`         // decayed number of visits
	Time        float64 `json:"time,omitempty"` // covered time, as a share of a full window
}

// measure is the criterion of a window for a proven peer. The values are those of Bitcoin's seeder
// (github.com/sipa/bitcoin-seeder), without its month.
type measure struct {
	name        string
	span        time.Duration
	reliability float64 // exclusive minimum
	visits      float64 // exclusive minimum
}

// measures are the windows, shortest first: a peer is proven by any one of them.
var measures = [...]measure{
	{"2h", 2 * time.Hour, 0.85, 2},
	{"8h", 8 * time.Hour, 0.70, 4},
	{"day", 24 * time.Hour, 0.55, 8},
	{"week", 7 * 24 * time.Hour, 0.45, 16},
}

// record records a visit and the time since the previous one, which is its weight. The first visit
// alone decides until the second: a peer may be discovered just before it responds.
func (w *Window) record(answered bool, after, span time.Duration) {
	if w.Visits == 0 {
		after = 0
	}
	keep := math.Exp(-float64(after) / float64(span))
	if w.Time == 0 && w.Visits > 1 {
		w.Time = 1 // state without Time
	}
	before := w.Time * keep
	w.Time, w.Visits = before+1-keep, w.Visits*keep+1
	up := 0.0
	if answered {
		up = 1
	}
	if w.Time == 0 {
		w.Reliability = up
		return
	}
	w.Reliability = (w.Reliability*before + up*(1-keep)) / w.Time
}

// shows reports whether a window meets the criterion.
func (m measure) shows(w Window) bool { return w.Reliability > m.reliability && w.Visits > m.visits }
