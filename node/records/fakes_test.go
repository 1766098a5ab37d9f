package records

import (
	"context"
	"log/slog"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

var quietLog = slog.New(slog.DiscardHandler)

// oneJob knows a single job.
type oneJob struct{ spec *job.Spec }

func (j oneJob) Job(id job.ID) (*job.Spec, job.State, bool) {
	return j.spec, job.StateRunning, id == j.spec.ID
}

func (j oneJob) Want(job.ID) {}

func (j oneJob) Draw(ctx context.Context, _ job.ID, _ *wire.Draw) (*wire.JobReply, error) {
	<-ctx.Done() // its owner does not answer
	return nil, ctx.Err()
}
