package node

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/subnets"
)

// jobMover is what custody does with the records of jobs, on the loop of their service.
type jobMover struct {
	ranged
	jobs *jobService
}

// Note implements custody.Space.
func (m jobMover) Note(custody.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m jobMover) Remove(pos custody.Pos) error {
	_, err := m.jobs.registry.Remove(pos, pos.Next())
	return err
}

// Import implements mover.
func (m jobMover) Import(p custody.Push) (later bool, err error) {
	kvs := make([]job.KV, len(p.Records))
	for i, r := range p.Records {
		kvs[i] = job.KV{Key: r.Key, Value: r.Value}
	}
	if _, err = m.jobs.registry.Import(kvs); err != nil {
		return false, refuse("%v", err)
	}
	m.jobs.wake() // its seeds may not have been sent
	return true, nil
}

// subnetMover is what custody does with the records of subnets, on the loop of their service.
type subnetMover struct {
	ranged
	subnets *subnetService
}

// Note implements custody.Space.
func (m subnetMover) Note(custody.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m subnetMover) Remove(pos custody.Pos) error {
	_, err := m.subnets.state.Remove(subnets.Pos(pos), subnets.Pos(pos.Next()))
	return err
}

// Import implements mover.
func (m subnetMover) Import(p custody.Push) (later bool, err error) {
	kvs := make([]subnets.KV, len(p.Records))
	for i, r := range p.Records {
		kvs[i] = subnets.KV{Key: r.Key, Value: r.Value}
	}
	if _, err = m.subnets.state.Import(time.Now(), kvs); err != nil {
		return false, refuse("%v", err)
	}
	return true, nil
}

// bodyMover is what custody does with the records of bodies, on the loop of their owner.
type bodyMover struct {
	ranged
	contents *contents
}

// Note implements custody.Space.
func (m bodyMover) Note(custody.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m bodyMover) Remove(pos custody.Pos) error {
	_, err := m.contents.state.Remove(dedup.Pos(pos), dedup.Pos(pos.Next()))
	return err
}

// Import implements mover.
func (m bodyMover) Import(p custody.Push) (later bool, err error) {
	kvs := make([]dedup.KV, len(p.Records))
	for i, r := range p.Records {
		kvs[i] = dedup.KV{Key: r.Key, Value: r.Value}
	}
	if _, _, err = m.contents.state.Import(kvs); err != nil {
		return false, refuse("%v", err)
	}
	return true, nil
}
