package node

import (
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/crawling"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/hosts"
	"github.com/apoidea/apoidea/node/jobs"
	"github.com/apoidea/apoidea/node/manners"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/subnets"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// recordsAtOnce is how many records are merged before others of the loop have their turn.
const recordsAtOnce = 256

// inPieces merges records some at a time. They need not be on disk when that is through.
func inPieces(records []kv.Record, merge func([]kv.Record) error) (func() (through bool, err error), bool) {
	return func() (bool, error) {
		n := min(recordsAtOnce, len(records))
		if err := merge(records[:n]); err != nil {
			return false, rpc.Refuse("%v", err)
		}
		records = records[n:]
		return len(records) == 0, nil
	}, true
}

// hostMover is what custody does with hosts, in steps of their owner.
type hostMover struct {
	ranged
	hosts.Mover
}

func moverOf(w *hosts.Owners) hostMover {
	m := w.Mover()
	return hostMover{ranged{scan: m.Scan, head: headOf(storage.KeyspaceHosts)}, m}
}

// jobMover is what custody does with the records of jobs, on the loop of their service.
type jobMover struct {
	ranged
	jobs *jobs.Service
}

// Note implements custody.Space.
func (m jobMover) Note(ring.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m jobMover) Remove(pos ring.Pos) error {
	return m.jobs.Remove(pos, pos.Next())
}

// Import implements mover.
func (m jobMover) Import(p custody.Push) (merge func() (through bool, err error), later bool) {
	return inPieces(p.Records, m.jobs.Import)
}

// subnetMover is what custody does with the records of subnets, on the loop of their service.
type subnetMover struct {
	ranged
	subnets *subnets.Service
}

// Note implements custody.Space.
func (m subnetMover) Note(ring.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m subnetMover) Remove(pos ring.Pos) error {
	return m.subnets.Remove(pos, pos.Next())
}

// Import implements mover.
func (m subnetMover) Import(p custody.Push) (merge func() (through bool, err error), later bool) {
	return inPieces(p.Records, m.subnets.Import)
}

// bodyMover is what custody does with the records of bodies, on the loop of their owner.
type bodyMover struct {
	ranged
	contents *crawling.Contents
}

// Note implements custody.Space.
func (m bodyMover) Note(ring.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m bodyMover) Remove(pos ring.Pos) error {
	return m.contents.Remove(pos, pos.Next())
}

// Import implements mover.
func (m bodyMover) Import(p custody.Push) (merge func() (through bool, err error), later bool) {
	return inPieces(p.Records, m.contents.Import)
}

// domainMover is what custody does with the records of domains, on the loop of their service.
type domainMover struct {
	ranged
	domains *manners.Domains
}

// Note implements custody.Space.
func (m domainMover) Note(ring.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m domainMover) Remove(pos ring.Pos) error {
	return m.domains.Remove(pos, pos.Next())
}

// Import implements mover.
func (m domainMover) Import(p custody.Push) (merge func() (through bool, err error), later bool) {
	return inPieces(p.Records, m.domains.Import)
}
