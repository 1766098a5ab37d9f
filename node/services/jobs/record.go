package jobs

import (
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

// KeyPrefix is the key prefix of a book's records, one per job; the job's ID follows.
const KeyPrefix = "job/"

func keyOf(id job.ID) []byte { return append([]byte(KeyPrefix), id[:]...) }

// Read decodes a record of a book.
func Read(value []byte) (*job.Spec, job.Standing, error) { return decode(value) }

// recordOf returns the record that a book stores for a job.
func recordOf(spec *job.Spec, s job.Standing) *wire.Job {
	return &wire.Job{Spec: spec.Wire(), State: uint32(s.State), Version: s.Version, Refresh: uint64(s.Refresh), StateSignature: []byte(s.Signature)}
}

func decode(value []byte) (*job.Spec, job.Standing, error) {
	rec := new(wire.Job)
	if err := proto.Unmarshal(value, rec); err != nil {
		return nil, job.Standing{}, err
	}
	spec, err := job.FromDisk(rec.GetSpec())
	if err != nil {
		return nil, job.Standing{}, err
	}
	return spec, standingOf(rec), nil
}

// standed is a message with a standing.
type standed interface {
	GetState() uint32
	GetVersion() uint64
	GetRefresh() uint64
	GetStateSignature() []byte
}

func standingOf(m standed) job.Standing {
	return job.Standing{State: job.State(m.GetState()), Version: m.GetVersion(), Refresh: job.Refresh(m.GetRefresh()), Signature: string(m.GetStateSignature())}
}

// Resumed returns the record of a job in state running. A signed job is unchanged, since only its
// poster can change it; late links of a done job are crawled in any case.
func Resumed(value []byte) ([]byte, error) {
	rec := new(wire.Job)
	if err := proto.Unmarshal(value, rec); err != nil {
		return nil, err
	}
	if len(rec.GetSpec().GetSignature()) > 0 {
		return value, nil
	}
	rec.State, rec.Version = uint32(job.StateRunning), rec.GetVersion()+1
	return proto.Marshal(rec)
}
