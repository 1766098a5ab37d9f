package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// giveUpAfter is how long a stranger waits for an answer that it does not want.
const giveUpAfter = 50 * time.Millisecond

// attackAbandoned says that it holds very many hosts, or reports very much of a few, and does not
// wait for the answer. If what nobody waits for is worked through, workers wait behind it, and it
// fills the memory.
var attackAbandoned = attack{
	name: "abandoned", does: "long lists of hosts as if held, given up at once",
	make: func(ctx context.Context, t *target) error {
		m := &wire.Session{Incarnation: 1, Seq: 1, Capacity: 1000}
		for i := range wire.MaxHeld {
			m.Held = append(m.GetHeld(), &wire.HostLease{Host: fmt.Sprintf("made-up-%d.example", i)})
		}
		held, err := proto.Marshal(m)
		if err != nil {
			return err
		}
		m.Held = nil
		id := job.NewID()
		for i := range 2000 {
			url := fmt.Sprintf("http://made-up-%d.example/%s", i, strings.Repeat("x", 1000))
			m.Hosts = append(m.GetHosts(), &wire.HostWork{Host: fmt.Sprintf("made-up-%d.example", i), Fetched: []*wire.Fetched{{Job: id[:], Url: []byte(url), Size: 1}}})
		}
		reports, err := proto.Marshal(m)
		if err != nil {
			return err
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			for ctx.Err() == nil {
				for _, raw := range [][]byte{held, reports} {
					within, cancel := context.WithTimeout(ctx, giveUpAfter)
					_, _ = s.Call(within, s.of, rpc.ServiceOwner, append([]byte("S"), raw...))
					cancel()
				}
			}
		})
	},
}
