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
func Read(value []byte) (*job.Spec, job.State, error) {
	spec, s, err := decode(value)
	return spec, s.State, err
}

// recordOf is what a book keeps on disk of a job.
func recordOf(spec *job.Spec, s job.Standing) *wire.Job {
	return &wire.Job{Spec: spec.Wire(), State: uint32(s.State), Version: s.Version}
}

func decode(value []byte) (*job.Spec, job.Standing, error) {
	rec := new(wire.Job)
	if err := proto.Unmarshal(value, rec); err != nil {
		return nil, job.Standing{}, err
	}
	spec, err := job.FromDisk(rec.GetSpec())
	return spec, job.Standing{State: job.State(rec.GetState()), Version: rec.GetVersion()}, err
}

// Made is the record of a job that is running.
func Made(spec *job.Spec) ([]byte, error) {
	return proto.Marshal(recordOf(spec, job.Standing{State: job.StateRunning, Version: 1}))
}

// Resumed is the record of a job once it is running again.
func Resumed(value []byte) ([]byte, error) {
	rec := new(wire.Job)
	if err := proto.Unmarshal(value, rec); err != nil {
		return nil, err
	}
	rec.State, rec.Version = uint32(job.StateRunning), rec.GetVersion()+1
	return proto.Marshal(rec)
}
