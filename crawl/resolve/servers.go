package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxAddrs bounds the addresses stored of one name and family.
	maxAddrs = 32
	// udpSize is the EDNS answer size over UDP: it avoids fragmentation (DNS flag day 2020).
	udpSize = 1232
	// maxSearch bounds the search domains, as glibc once did.
	maxSearch = 6
	// maxAliases bounds the aliases followed for one name where a server does not follow them.
	maxAliases = 8
	// rounds is how often the list of servers is tried before a lookup fails.
	rounds = 2
)

// systemServers reads the servers and search domains of this machine. Without a server it is the
// local one, as in resolv.conf(5).
func systemServers(file string) (servers, search []string) {
	conf, err := dns.ClientConfigFromFile(file)
	if err != nil || len(conf.Servers) == 0 {
		return []string{"127.0.0.1:53"}, nil
	}
	for _, s := range conf.Servers {
		servers = append(servers, net.JoinHostPort(s, conf.Port))
	}
	for _, domain := range conf.Search {
		domain = strings.ToLower(strings.Trim(domain, "."))
		if validName(domain) == nil && len(search) < maxSearch {
			search = append(search, domain)
		}
	}
	return servers, search
}

// askType queries the servers in turn for one type of record until one returns a usable answer.
// Without addresses and error the servers answered that there is no such record.
func (r *Resolver) askType(ctx context.Context, name string, qtype uint16) ([]netip.Addr, error) {
	for aliases := 0; aliases <= maxAliases; aliases++ {
		reply, err := r.query(ctx, name, qtype)
		if err != nil {
			return nil, err
		}
		addrs, alias := addresses(reply)
		if len(addrs) > 0 || alias == "" {
			return addrs, nil
		}
		name = alias
	}
	return nil, fmt.Errorf("over %d aliases", maxAliases)
}

// query queries the servers in turn until one returns a usable answer.
func (r *Resolver) query(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	var last error
	for range rounds {
		for _, server := range r.servers {
			reply, err := r.exchange(ctx, server, new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype).SetEdns0(udpSize, false))
			if err == nil {
				return reply, nil
			}
			last = fmt.Errorf("server %s: %w", server, plain(err))
			if ctx.Err() != nil {
				return nil, last
			}
		}
	}
	return nil, last
}

// plain removes the addresses from a network error, since the local one differs each time.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// exchange queries one server over UDP, then over TCP if the answer was truncated.
func (r *Resolver) exchange(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
	reply, err := r.roundTrip(ctx, "udp", server, query)
	if err == nil && reply.Rcode == dns.RcodeFormatError { // an old server that does not know EDNS
		query.Extra = nil
		reply, err = r.roundTrip(ctx, "udp", server, query)
	}
	if err == nil && reply.Truncated {
		reply, err = r.roundTrip(ctx, "tcp", server, query)
	}
	switch {
	case err != nil:
		return nil, err
	case reply.Rcode == dns.RcodeNameError:
		return reply, nil
	case reply.Rcode != dns.RcodeSuccess:
		return nil, fmt.Errorf("response code %s", rcodeText(reply.Rcode))
	case len(reply.Answer) > 0:
		return reply, nil
	case reply.Truncated:
		return nil, errors.New("answer truncated over TCP as well")
	case !reply.RecursionAvailable && !reply.Authoritative:
		return nil, errors.New("server does not resolve recursively")
	default:
		return reply, nil
	}
}

// addresses returns the addresses in an answer, or else the last alias if nothing in the answer
// shows that the server followed it.
func addresses(reply *dns.Msg) (addrs []netip.Addr, alias string) {
	for _, rr := range reply.Answer {
		var addr netip.Addr
		switch rr := rr.(type) {
		case *dns.A:
			addr, _ = netip.AddrFromSlice(rr.A)
		case *dns.AAAA:
			addr, _ = netip.AddrFromSlice(rr.AAAA)
		case *dns.CNAME:
			alias = rr.Target
		}
		if addr.IsValid() && len(addrs) < maxAddrs {
			addrs = append(addrs, addr.Unmap())
		}
	}
	if reply.Rcode == dns.RcodeNameError || len(reply.Ns) > 0 {
		alias = ""
	}
	return addrs, alias
}

func rcodeText(code int) string {
	if text, known := dns.RcodeToString[code]; known {
		return text
	}
	return fmt.Sprintf("code %d", code)
}

// roundTrip sends one message to a server and returns the answer, within the timeout of a query.
func (r *Resolver) roundTrip(ctx context.Context, network, server string, query *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: r.timeout, UDPSize: udpSize}
	reply, _, err := client.ExchangeContext(ctx, query, server)
	if err != nil {
		return nil, err
	}
	if !reply.Response {
		return nil, errors.New("answer is a query")
	}
	if len(reply.Question) != 1 || reply.Question[0].Qtype != query.Question[0].Qtype ||
		!strings.EqualFold(reply.Question[0].Name, query.Question[0].Name) {
		return nil, errors.New("answer to another query")
	}
	return reply, nil
}

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
	states := make([]ServerState, len(r.servers))
	var all sync.WaitGroup
	for i, server := range r.servers {
		all.Go(func() {
			begin := r.now()
			reply, err := r.roundTrip(ctx, "udp", server, new(dns.Msg).SetQuestion(".", dns.TypeNS))
			if err == nil && (reply.Rcode == dns.RcodeServerFailure || reply.Rcode == dns.RcodeNotImplemented) {
				err = fmt.Errorf("response code %s", rcodeText(reply.Rcode))
			}
			states[i] = ServerState{Server: server, Took: r.now().Sub(begin), Err: err}
		})
	}
	all.Wait()
	return states
}
