package owner

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// arrival is a link to a host of this peer.
type arrival struct {
	ondisk.Link
	js   *jobState
	host string
	hash uint64
}

// memo is how the link is remembered: a page's address that was met as an image first is worth
// another look.
func memo(hash uint64, kind link.Kind) uint64 {
	if kind == link.KindRequisite {
		return ^hash
	}
	return hash
}

func (a *arrival) memo() uint64 { return memo(a.hash, a.Kind) }

// linksAtOnce is how many links are taken in between two looks at whether the step has room for
// more.
const linksAtOnce = 128

// Links is a [Delivery] that is taken in within one step, whatever it takes. Part of a step.
func (o *Owner) Links(m *wire.Links) *wire.LinksReply {
	d := o.Delivery(m)
	for !d.Go() {
	}
	return d.Reply()
}

// Delivery is a batch of links that is taken in over as many steps as that takes.
type Delivery struct {
	owner *Owner
	m     *wire.Links
	reply *wire.LinksReply
	next  int
}

// Delivery begins to take a batch of links in, which must have been validated.
func (o *Owner) Delivery(m *wire.Links) *Delivery {
	return &Delivery{owner: o, m: m, reply: &wire.LinksReply{}}
}

// Reply is the answer, once Go has said that all is taken in, and may leave after that step's Wait.
// Everything that it does not list is dealt with: noted, known already, or not admitted.
func (d *Delivery) Reply() *wire.LinksReply { return d.reply }

// Go takes links in for as long as the step has room, and some in any case, and says whether it is
// through. Part of a step.
func (d *Delivery) Go() (through bool) {
	for d.next < len(d.m.GetUrl()) {
		to := min(d.next+linksAtOnce, len(d.m.GetUrl()))
		d.take(d.next, to)
		d.next = to
		if to < len(d.m.GetUrl()) && !d.owner.HasRoom() {
			return false
		}
	}
	return true
}

// take takes in the links from one to another.
func (d *Delivery) take(from, to int) {
	o, m, reply := d.owner, d.m, d.reply
	jobs := make([]*jobState, len(m.GetJobIds()))
	for i, id := range m.GetJobIds() {
		jobs[i] = o.jobs.known(job.ID(id))
	}
	var list []arrival
	var lastHost string
	var lastState hostVerdict
	for i := from; i < to; i++ {
		a := arrival{js: jobs[column32(m.GetJob(), i)]}
		a.Depth, a.Hops, a.Kind = column32(m.GetDepth(), i), column8(m.GetHops(), i), link.Kind(column8(m.GetKind(), i))
		if a.js == nil {
			reply.Busy = append(reply.Busy, uint32(i))
			continue
		}
		a.URL = string(m.GetUrl()[i])
		if m.GetRules() != link.RulesVersion {
			canonical, err := link.Canonical(a.URL)
			if err != nil {
				continue
			}
			a.URL = canonical
		}
		if a.host = link.Host(a.URL); a.host == "" {
			continue
		}
		if a.host != lastHost {
			lastHost, lastState = a.host, o.hosts.answersFor(a.host)
		}
		switch lastState {
		case hostMoved:
			reply.Moved = append(reply.Moved, uint32(i))
		case hostBusy:
			reply.Busy = append(reply.Busy, uint32(i))
		default:
			a.hash = link.Hash(a.js.ID, a.URL)
			list = append(list, a)
		}
	}
	o.intake.admit(list)
}

func column32(c []uint32, i int) uint32 {
	if len(c) == 0 {
		return 0
	}
	return c[i]
}

func column8(c []byte, i int) byte {
	if len(c) == 0 {
		return 0
	}
	return c[i]
}

type hostVerdict uint8

const (
	hostHere hostVerdict = iota
	hostMoved
	hostBusy
)

// answersFor says whether this peer may change a host's record now.
func (t *hostTable) answersFor(name string) hostVerdict {
	h := t.byName[name]
	if h == nil {
		key := ring.HostKey(name)
		if !t.ring.Mine(key) {
			return hostMoved
		}
		if h = t.load(ring.PosOf(key), name, key); h == nil {
			return hostHere
		}
	}
	switch {
	case h.frozen > 0:
		return hostBusy
	case !t.ring.Mine(h.key):
		return hostMoved
	default:
		return hostHere
	}
}

// speaksFor says whether this peer may say anything of a host to a worker. More than for a link all
// records must be here, as a lease may be among those that are not; but to the worker whose lease
// is known here, which goes on whatever comes.
func (t *hostTable) speaksFor(name string, s *session, epoch *wire.Epoch) hostVerdict {
	verdict := t.answersFor(name)
	if verdict == hostHere && !t.cfg.Settled(t.keyOf(name)) && !t.byName[name].leasedTo(s, epoch) {
		return hostBusy
	}
	return verdict
}

// intake takes links to hosts of this peer into their sets.
type intake struct {
	*step
	hosts    *hostTable
	domains  *domains
	outgoing *outgoing
	known    depths           // links dealt with here, at which depth
	fresh    []ondisk.Pending // that were accepted last, until the emitter looks at them
}

// admit takes links to hosts for which answersFor said hostHere, in order. Those that the filters
// cannot tell to be new are looked up in the store sorted by key, so that the store is read in one
// direction.
func (in *intake) admit(list []arrival) {
	list = slices.DeleteFunc(list, func(a arrival) bool { return in.refuses(&a) })
	stored, ok := in.stored(list)
	if !ok {
		return
	}
	for i := range list {
		a := &list[i]
		if a.js == nil || in.known.covers(a.memo(), a.Depth) {
			continue
		}
		h := in.hosts.open(a.host)
		value := stored[i]
		if newer, ok := in.buf.Gathered(ondisk.EntryKey(h.pos, a.js.ID, a.hash)); ok {
			value = newer // the same URL twice in a step
		}
		if value == nil && !in.accept(h, a) {
			continue // it may be met again when there is room
		}
		if value != nil {
			in.meet(h, a, value)
		}
		in.known.put(a.memo(), a.Depth)
	}
}

// stored reads the entries of those links that the filters cannot tell to be new, by their numbers;
// one that is believed to be known without loses its job.
func (in *intake) stored(list []arrival) (stored map[int][]byte, ok bool) {
	type look struct {
		i   int
		key []byte
	}
	var looks []look
	for i := range list {
		a := &list[i]
		h := in.hosts.find(a.host)
		if h == nil {
			continue
		}
		hj := h.job(a.js)
		if hj == nil || hj.Tally.Accepted() == 0 {
			continue
		}
		verdict, err := in.seen.Test(ondisk.SetID{Pos: h.pos, Job: a.js.ID}, a.hash)
		if err != nil {
			in.buf.Fail(err)
			return nil, false
		}
		switch {
		case verdict == Yes && in.cfg.SeenBloom:
			a.js = nil // believed
		case verdict != No:
			looks = append(looks, look{i, ondisk.EntryKey(h.pos, a.js.ID, a.hash)})
		}
	}
	slices.SortFunc(looks, func(x, y look) int { return bytes.Compare(x.key, y.key) })
	if len(looks) == 0 {
		return nil, true
	}
	stored = make(map[int][]byte, len(looks))
	for _, l := range looks {
		if value, ok := in.buf.Get(l.key); ok {
			stored[l.i] = value
		}
	}
	return stored, true
}

// refuses says whether a link needs nothing: it is known at this depth, its form is wrong, its job
// does not admit it, or nothing may be taken of its host.
func (in *intake) refuses(a *arrival) bool {
	if in.known.covers(a.memo(), a.Depth) {
		return true
	}
	canonical, err := link.Canonical(a.URL)
	if err != nil || canonical != a.URL || Refusal(a.js.Spec, a.Link.URL, a.Depth, a.Kind) != "" || a.js.State == job.StateCanceled {
		in.known.put(a.memo(), a.Depth)
		return true
	}
	return in.turnsAway(a.js, a.Link.URL) != ""
}

// Refusal says in a few words why a job does not admit a URL, given in canonical form; empty if it
// does.
func Refusal(spec *job.Spec, url string, depth uint32, kind link.Kind) string {
	host := link.Host(url)
	switch {
	case !spec.InScope(host):
		return "out of scope"
	case !spec.AdmitsDepth(host, depth):
		return "deeper than the job goes"
	case kind == link.KindRequisite && !spec.Requisites:
		return "a page requisite, which the job does not ask for"
	case kind == link.KindSitemap && spec.NoSitemaps:
		return "a sitemap, which the job does not ask for"
	}
	return cmp.Or(link.Trap(url), spec.Filtered(url, depth, kind))
}

// accept takes a URL into the set, if there is room for it.
func (in *intake) accept(h *host, a *arrival) bool {
	h.rec.Serves(a.URL)
	p, ok := in.book(h, a.js).Accept(a.hash, a.URL, a.Depth, a.Hops, a.Kind)
	if !ok {
		return false
	}
	if in.fresh = append(in.fresh, p); len(in.fresh) > linksAtOnce {
		in.fresh = in.fresh[:0] // they came from elsewhere
	}
	return true
}

// meet deals with a link to a URL that is in the set: the smaller depth wins.
func (in *intake) meet(h *host, a *arrival, value []byte) {
	n, err := ondisk.DecodeEntry(value)
	if err != nil {
		in.buf.Fail(err)
		return
	}
	hj := in.book(h, a.js)
	switch {
	case n.Done && a.Depth < n.Final.Depth:
		hj.MetAt(a.hash, &n.Final, a.Depth)
		if a.js.Spec.BoundsDepth() || len(a.js.Spec.Include) > 0 {
			in.outgoing.putAgain(h, a.js, a.hash, a.Depth)
		}
	case !n.Done:
		in.meetPending(h, hj, a, n.At)
	}
	hj.Shallower(a.Depth)
}

func (in *intake) meetPending(h *host, hj *hostJob, a *arrival, at ondisk.Spot) {
	upgrade := a.Kind == link.KindPage && a.js.Spec.Requisites
	if a.Depth >= at.Depth && !upgrade {
		return
	}
	p, ok := hj.Pending(at)
	if !ok {
		return
	}
	it := h.lease.item(a.hash)
	upgrade = upgrade && p.Kind == link.KindRequisite && it == nil
	if a.Depth >= p.Depth && !upgrade {
		return
	}
	p.Depth = min(p.Depth, a.Depth)
	if upgrade {
		p.Kind = link.KindPage
	}
	hj.Move(at, &p, it != nil)
	if it != nil {
		it.Spot = p.Spot
	}
}

// Hashes calls fn for the hashes of a URL set in no order, until it returns false: what a filter is
// built from.
func (o *Owner) Hashes(set ondisk.SetID, fn func(hash uint64) bool) error {
	if h, js := o.hosts.byPos[set.Pos], o.jobs.byID[set.Job]; h != nil && js != nil && h.job(js) != nil {
		h.job(js).Hashes(fn)
	} else {
		o.buf.Hashes(set, math.MaxInt64, fn)
	}
	return o.buf.Err()
}
