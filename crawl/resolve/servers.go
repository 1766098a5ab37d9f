package resolve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// ServerState is what came of asking one server.
type ServerState struct {
	Server string        // address and port
	Took   time.Duration // until its answer, or until it was given up
	// Err is nil if the server answers questions; what it answers is not judged.
	Err error
}

// Servers asks each server once, past the cache, for the name servers of the root, which every one
// of them knows, and says which answer.
func (r *Resolver) Servers(ctx context.Context) []ServerState {
	states := make([]ServerState, len(r.config.Servers))
	var all sync.WaitGroup
	for i, server := range r.config.Servers {
		all.Go(func() {
			begin := r.config.Now()
			reply, err := r.roundTrip(ctx, "udp", server, new(dns.Msg).SetQuestion(".", dns.TypeNS))
			if err == nil && (reply.Rcode == dns.RcodeServerFailure || reply.Rcode == dns.RcodeNotImplemented) {
				err = fmt.Errorf("answered %s", rcodeText(reply.Rcode))
			}
			states[i] = ServerState{Server: server, Took: r.config.Now().Sub(begin), Err: err}
		})
	}
	all.Wait()
	return states
}
