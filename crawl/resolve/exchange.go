package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// maxChain bounds how many CNAMEs are followed for one name, over all answers.
const maxChain = 8

// maxAddrs bounds the addresses stored of one name and family.
const maxAddrs = 32

// udpSize is the EDNS answer size over UDP: it avoids fragmentation (DNS flag day 2020).
const udpSize = 1232

// resolutionDelay is how long the IPv6 answer is awaited after the IPv4 one. RFC 8305, section 3,
// recommends 50 ms; no user waits for a page here, and the answer is cached.
const resolutionDelay = 500 * time.Millisecond

// ask resolves name. One without a dot is looked up in the search domains first, as in
// resolv.conf(5) with ndots:1.
func (r *Resolver) ask(ctx context.Context, name string) answer {
	var failed *answer
	if !strings.Contains(name, ".") {
		for _, domain := range r.config.Search {
			a := r.askFamilies(ctx, name+"."+domain)
			if len(a.addrs) > 0 {
				return a
			}
			if a.err.Temporary() {
				failed = &a
			}
		}
	}
	a := r.askFamilies(ctx, name)
	if len(a.addrs) == 0 && failed != nil {
		return *failed
	}
	return a
}

// askFamilies queries the IPv4 and IPv6 addresses of name concurrently and combines the answers.
func (r *Resolver) askFamilies(ctx context.Context, name string) answer {
	if r.config.NoIPv6 {
		return r.askType(ctx, name, dns.TypeA)
	}
	ctx6, cancel := context.WithCancel(ctx)
	defer cancel()
	var v6 answer
	var both sync.WaitGroup
	both.Go(func() { v6 = r.askType(ctx6, name, dns.TypeAAAA) })
	v4 := r.askType(ctx, name, dns.TypeA)
	if len(v4.addrs) > 0 {
		defer time.AfterFunc(resolutionDelay, cancel).Stop()
	}
	both.Wait()
	if v6.err != nil && v6.err.Temporary() {
		v4.ttl = min(v4.ttl, r.config.MinTTL)
	}
	return r.combine(v4, v6)
}

// combine merges the answers of both families: any addresses are used; without addresses a
// temporary failure takes precedence, so that a name with an empty IPv6 answer and a lost IPv4
// query is looked up again soon.
func (r *Resolver) combine(v4, v6 answer) answer {
	switch {
	case len(v4.addrs) > 0 && len(v6.addrs) > 0:
		addrs := append(slices.Clip(v4.addrs), v6.addrs...)
		return answer{addrs: order(addrs, r.config.PreferIPv6, false), ttl: min(v4.ttl, v6.ttl)}
	case len(v4.addrs) > 0:
		return v4
	case len(v6.addrs) > 0:
		return v6
	case v6.err == nil || v4.err.Temporary():
		return v4
	case v6.err.Temporary():
		return v6
	default:
		v4.ttl = min(v4.ttl, v6.ttl)
		return v4
	}
}

// order puts the preferred family first, each in the order given.
func order(addrs []netip.Addr, preferIPv6, noIPv6 bool) []netip.Addr {
	out := make([]netip.Addr, 0, len(addrs))
	for _, first := range []bool{true, false} {
		for _, a := range addrs {
			if a.Is6() && noIPv6 {
				continue
			}
			if (a.Is6() == preferIPv6) == first {
				out = append(out, a)
			}
		}
	}
	return out
}

// askType resolves one type of record, and follows aliases that the server did not.
func (r *Resolver) askType(ctx context.Context, name string, qtype uint16) answer {
	ttl := r.config.MaxTTL
	target := dns.Fqdn(name)
	for links := 0; links <= maxChain; {
		msg, err := r.exchange(ctx, target, qtype)
		if err != nil {
			return r.failed(name, err)
		}
		found := follow(msg, target, qtype, maxChain-links)
		ttl = min(ttl, found.ttl)
		switch {
		case len(found.addrs) > 0:
			return answer{addrs: found.addrs, ttl: max(ttl, r.config.MinTTL)}
		case msg.Rcode == dns.RcodeNameError:
			return r.absent(name, NotFound, msg)
		case found.links == 0:
			return r.absent(name, NoData, msg)
		}
		links += found.links
		target = found.target
	}
	return r.failed(name, fmt.Errorf("CNAME chain exceeds %d aliases", maxChain))
}

// absent returns a negative answer. Without an SOA it is cached no longer than a failure.
func (r *Resolver) absent(name string, kind Kind, msg *dns.Msg) answer {
	ttl := r.config.FailureTTL
	for _, rr := range msg.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			seconds := min(soa.Hdr.Ttl, soa.Minttl) // RFC 2308, section 5
			ttl = max(min(time.Duration(seconds)*time.Second, r.config.MaxNegativeTTL), r.config.FailureTTL)
		}
	}
	return answer{err: &Error{Host: name, Kind: kind}, ttl: ttl}
}

func (r *Resolver) failed(name string, err error) answer {
	kind := ServerFailure
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		kind = Timeout
	}
	return answer{err: &Error{Host: name, Kind: kind, Err: err}, ttl: r.config.FailureTTL}
}

// chain is the answer for a name in one message: the target of its aliases and the records at their
// end.
type chain struct {
	target string
	links  int
	addrs  []netip.Addr
	ttl    time.Duration // the smallest in the chain
}

// follow reads the answer section from target on. Records outside of the alias chain are ignored.
func follow(msg *dns.Msg, target string, qtype uint16, maxLinks int) chain {
	c := chain{target: target, ttl: time.Duration(1<<31-1) * time.Second}
	for {
		next := ""
		for _, rr := range msg.Answer {
			h := rr.Header()
			if h.Class != dns.ClassINET || !strings.EqualFold(h.Name, c.target) {
				continue
			}
			if alias, ok := rr.(*dns.CNAME); ok && next == "" {
				next = alias.Target
				c.ttl = min(c.ttl, time.Duration(h.Ttl)*time.Second)
				continue
			}
			if addr, ok := address(rr, qtype); ok && len(c.addrs) < maxAddrs {
				c.addrs = append(c.addrs, addr)
				c.ttl = min(c.ttl, time.Duration(h.Ttl)*time.Second)
			}
		}
		if len(c.addrs) > 0 || next == "" || c.links > maxLinks {
			return c
		}
		c.target = dns.Fqdn(next)
		c.links++
	}
}

// address returns the address in a record of the requested type.
func address(rr dns.RR, qtype uint16) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		addr, ok := netip.AddrFromSlice(rr.A)
		return addr.Unmap(), ok && qtype == dns.TypeA
	case *dns.AAAA:
		addr, ok := netip.AddrFromSlice(rr.AAAA)
		return addr, ok && qtype == dns.TypeAAAA
	default:
		return netip.Addr{}, false
	}
}

// exchange sends one query to the servers in turn until one returns a usable answer.
func (r *Resolver) exchange(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	var failed failures
	for range r.config.Rounds {
		for _, server := range r.config.Servers {
			msg, err := r.exchangeOne(ctx, server, name, qtype)
			if err == nil {
				return msg, nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			failed.add(fmt.Errorf("server %s: %w", server, plain(err)))
		}
	}
	return nil, &failed
}

// plain removes the addresses from a network error, since the local one differs each time.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// failures collects the distinct errors of servers.
type failures struct {
	errs  []error
	times []int
}

func (f *failures) add(err error) {
	for i, had := range f.errs {
		if had.Error() == err.Error() {
			f.times[i]++
			return
		}
	}
	f.errs, f.times = append(f.errs, err), append(f.times, 1)
}

// Error returns all errors on one line, repeated ones with their count.
func (f *failures) Error() string {
	texts := make([]string, len(f.errs))
	for i, err := range f.errs {
		if texts[i] = err.Error(); f.times[i] > 1 {
			texts[i] += fmt.Sprintf(" (%d times)", f.times[i])
		}
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (f *failures) Unwrap() []error { return f.errs }

// exchangeOne queries one server over UDP, then over TCP if the answer was truncated.
func (r *Resolver) exchangeOne(ctx context.Context, server, name string, qtype uint16) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(udpSize, false)
	reply, err := r.roundTrip(ctx, "udp", server, query)
	if err == nil && reply.Truncated {
		reply, err = r.roundTrip(ctx, "tcp", server, query)
	}
	if err != nil {
		return nil, err
	}
	if reply.Rcode == dns.RcodeFormatError {
		query = new(dns.Msg).SetQuestion(name, qtype) // a server that predates EDNS
		if reply, err = r.roundTrip(ctx, "udp", server, query); err != nil {
			return nil, err
		}
	}
	if reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		return nil, fmt.Errorf("response code %s", rcodeText(reply.Rcode))
	}
	return reply, saysSomething(reply)
}

// saysSomething returns an error for a message without records that is not a valid negative answer.
func saysSomething(reply *dns.Msg) error {
	switch {
	case len(reply.Answer) > 0 || reply.Rcode == dns.RcodeNameError:
		return nil
	case reply.Truncated:
		return errors.New("answer truncated over TCP as well")
	case isReferral(reply):
		return errors.New("answer is a referral: server does not resolve recursively")
	default:
		return nil
	}
}

// isReferral distinguishes a referral to other servers from a negative answer (RFC 2308, section
// 2.2).
func isReferral(reply *dns.Msg) bool {
	servers := false
	for _, rr := range reply.Ns {
		switch rr.(type) {
		case *dns.SOA:
			return false
		case *dns.NS:
			servers = true
		}
	}
	return servers && !reply.Authoritative
}

func rcodeText(code int) string {
	if text, known := dns.RcodeToString[code]; known {
		return text
	}
	return fmt.Sprintf("code %d", code)
}

// roundTrip sends one message to a server and returns the answer, within the Config's timeout and
// until ctx ends.
func (r *Resolver) roundTrip(ctx context.Context, network, server string, query *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: r.config.Timeout, UDPSize: udpSize}
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a deadline would be overwritten by the client's own
	defer stop()
	reply, _, err := client.ExchangeWithConn(query, conn)
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
