package hosts

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// taken counts input from other peers by job: batches of links, and outcomes. Hosts that arrived or
// left count under the zero ID. If two ring walks find equal counts, nothing arrived in between.
// The number of accepted URLs does not suffice: a link to a known page at a smaller depth emits the
// page's links again.
type taken map[job.ID]uint64

// links counts a batch of links for the jobs of the accepted ones.
func (t taken) links(m *wire.Links, reply *wire.LinksReply) {
	refused := make(map[uint32]struct{}, len(reply.GetBusy())+len(reply.GetMoved()))
	for _, list := range [][]uint32{reply.GetBusy(), reply.GetMoved()} {
		for _, i := range list {
			refused[i] = struct{}{}
		}
	}
	last := -1
	for i := range m.GetUrl() {
		n := 0
		if len(m.GetJob()) > 0 {
			n = int(m.GetJob()[i])
		}
		if _, no := refused[uint32(i)]; no || n == last { // an index of a bounded list
			continue
		}
		last = n
		t[job.ID(m.GetJobIds()[n])]++
	}
}

// reports counts accepted outcomes by job.
func (t taken) reports(v *owner.Visit) {
	for id, n := range v.Taken {
		t[id] += n
	}
}

// hosts counts an arrival or departure of hosts.
func (t taken) hosts() { t[job.ID{}]++ }

// report returns the counts in their wire form.
func (t taken) report() map[string]uint64 {
	out := make(map[string]uint64, len(t))
	for id, n := range t {
		out[id.String()] = n
	}
	return out
}
