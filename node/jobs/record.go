package jobs

import (
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

// KeyPrefix begins the keys of what a book keeps, one record a job; the job's ID follows.
const KeyPrefix = "job/"

func keyOf(id job.ID) []byte { return append([]byte(KeyPrefix), id[:]...) }

// Read reads a record of a book.
func Read(value []byte) (*job.Spec, job.Standing, error) { return decode(value) }

// recordOf is what a book keeps on disk of a job.
func recordOf(spec *job.Spec, s job.Standing) *wire.Job {
	return &wire.Job{Spec: spec.Wire(), State: uint32(s.State), Version: s.Version, StateSignature: []byte(s.Signature)}
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

func standingOf(rec *wire.Job) job.Standing {
	return job.Standing{State: job.State(rec.GetState()), Version: rec.GetVersion(), Signature: string(rec.GetStateSignature())}
}

// Made is the record of a job that is running.
func Made(spec *job.Spec) ([]byte, error) {
	return proto.Marshal(recordOf(spec, job.Posted()))
}

// Resumed is the record of a job once it is running again. One that is signed stays as it is, as
// only its poster can say so; what comes late of a job that is done is crawled all the same.
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
