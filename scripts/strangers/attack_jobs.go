package main

import (
	"bytes"
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/node/services/rpc"
	nodewire "github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/storage"
)

// attackJobs ends the job of the ring at the peer that keeps it, in all ways: as its poster would,
// as one who worked for it and knows of its end, and as an owner that hands its record over. If it
// is believed, the crawl ends.
var attackJobs = attack{
	name: "jobs", does: "the job of the ring is canceled, told to have been, and its record pushed so", atKeeper: true,
	make: func(ctx context.Context, t *target) error {
		id, err := job.ParseID(t.job)
		if err != nil {
			return err
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			for ctx.Err() == nil {
				for _, state := range []job.State{job.StatePaused, job.StateDone, job.StateCanceled} {
					s.end(ctx, id, job.Standing{State: state, Version: 1 << 40})
				}
				_ = harness.Sleep(ctx, 20*time.Millisecond)
			}
		})
	},
	judge: func(ctx context.Context, s *scene, r *report) error {
		asked := 0
		for begun := time.Now(); time.Since(begun) < s.lasts()/2 || asked == 0; asked++ {
			for _, p := range s.peers {
				j, err := p.Client.Job(ctx, s.job)
				if err != nil {
					return err
				}
				if j.State != job.StateRunning.String() {
					r.Blame("the job of the ring is %s", j.State)
					return nil
				}
			}
			if err := harness.Sleep(ctx, lookEvery); err != nil {
				return err
			}
		}
		r.Say("the job runs on, as each peer said %d times", asked)
		return nil
	},
}

// The services that are asked.
var (
	jobRequests = rpc.Method[*wire.JobRequest, *wire.JobReply]{Service: jobs.ServiceName}
	pushes      = rpc.Method[*nodewire.Records, *emptypb.Empty]{Service: records.ServiceRecords}
)

// end tries to have a job in another state.
func (s *stranger) end(ctx context.Context, id job.ID, lie job.Standing) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	signature := bytes.Repeat([]byte{7}, 64)
	state := uint32(lie.State)
	_, _ = jobRequests.Call(ctx, s, s.of, &wire.JobRequest{Id: id[:], SetState: state, Version: lie.Version, StateSignature: signature})
	reply, err := jobRequests.Call(ctx, s, s.of, &wire.JobRequest{Id: id[:], Get: true})
	if err != nil || len(reply.GetJobs()) == 0 {
		return
	}
	spec := reply.GetJobs()[0].GetSpec()
	_, _ = jobRequests.Call(ctx, s, s.of, &wire.JobRequest{Id: id[:], Post: spec, State: state, Version: lie.Version, StateSignature: signature})
	plain := proto.CloneOf(spec)
	plain.Signature = nil
	_, _ = jobRequests.Call(ctx, s, s.of, &wire.JobRequest{Id: id[:], Post: plain, State: state, Version: lie.Version})
	raw, err := proto.Marshal(&wire.Job{State: state, Version: lie.Version, StateSignature: signature})
	if err != nil {
		return
	}
	pos := ring.PosOf(ring.JobKey(id.String()))
	key := append(append(pos[:], id[:]...), 'r') // as crawl/job keeps it
	_, _ = pushes.Call(ctx, s, s.of, &nodewire.Records{Space: uint32(storage.KeyspaceJobs), Key: [][]byte{key}, Value: [][]byte{append([]byte{1}, raw...)}})
}

// keeper is the peer that keeps the job of the ring.
func (s *scene) keeper(ctx context.Context) *peer {
	j, err := s.peers[0].Client.Job(ctx, s.job)
	for _, p := range s.peers {
		if err == nil && j.Owner != "" && strings.HasSuffix(p.addr, j.Owner) {
			return p
		}
	}
	return s.peers[0]
}
