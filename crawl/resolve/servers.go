package resolve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// ServerState is the result of querying one server.
type ServerState struct {
	Server string        // address and port
	Took   time.Duration // until its answer or timeout
	// Err is nil if the server answers queries; the content of the answer is not checked.
	Err error
}

// Servers queries each server once, without the cache, for the name servers of the root, which
// every server can resolve, and reports which answer.
func (r *Resolver) Servers(ctx context.Context) []ServerState {
	states := make([]ServerState, len(r.config.Servers))
	var all sync.WaitGroup
	for i, server := range r.config.Servers {
		all.Go(func() {
			begin := r.config.Now()
			reply, err := r.roundTrip(ctx, "udp", server, new(dns.Msg).SetQuestion(".", dns.TypeNS))
			if err == nil && (reply.Rcode == dns.RcodeServerFailure || reply.Rcode == dns.RcodeNotImplemented) {
				err = fmt.Errorf("response code %s", rcodeText(reply.Rcode))
			}
			states[i] = ServerState{Server: server, Took: r.config.Now().Sub(begin), Err: err}
		})
	}
	all.Wait()
	return states
}
