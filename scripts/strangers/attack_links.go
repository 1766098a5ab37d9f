package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/scripts/harness"
)

// mostFlooded are the URLs that a job may have beyond those of the web.
const mostFlooded = 2 * webHosts * 300

// attackLinks brings URLs that no page names, as if they were links to the hosts of the web. If
// they are taken, the site is asked for each of them.
var attackLinks = attack{
	name: "links", does: "links to pages that are not there",
	make: func(ctx context.Context, t *target) error {
		id, err := job.ParseID(t.job)
		if err != nil {
			return err
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			for n := 0; ctx.Err() == nil; {
				m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{id[:]}}
				for range 1000 {
					m.Url = append(m.Url, fmt.Appendf(nil, "http://h%d.web.localhost:%d/%s/%d", n%webHosts, t.port, s.Self(), n))
					n++
				}
				m.Job, m.Depth = make([]uint32, len(m.GetUrl())), make([]uint32, len(m.GetUrl()))
				m.Hops, m.Kind = make([]byte, len(m.GetUrl())), make([]byte, len(m.GetUrl()))
				s.tell(ctx, rpc.ServiceOwner, "L", m)
			}
		})
	},
	judge: func(ctx context.Context, s *scene, r *report) error {
		_ = harness.Sleep(ctx, s.lasts())
		jobs, err := s.peers[1].Client.Jobs(ctx)
		if err != nil {
			return err
		}
		for i := range jobs {
			if n := jobs[i].Outstanding(); n > mostFlooded {
				r.Blame("%d URLs wait that no page names", n)
			}
		}
		return nil
	},
}

// tell sends a message of a service's method, whatever the answer.
func (s *stranger) tell(ctx context.Context, service, tag string, m proto.Message) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return
	}
	within, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, _ = s.Call(within, s.of, service, append([]byte(tag), raw...))
	_ = harness.Sleep(ctx, time.Millisecond)
}
