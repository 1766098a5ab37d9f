package doctor

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/crawl/resolve"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node"
)

// ports checks that the configured addresses can be listened on, or reports how others reach the
// running peer.
func (e *examination) ports(ctx context.Context) Finding {
	if e.runs {
		return e.reached()
	}
	addrs, chosen := e.Config.ListenOn(e.kept.Listen)
	var free, taken []string
	cures := make(map[string]bool)
	for _, a := range addrs {
		network, addr, err := listenAddr(a)
		if err != nil {
			return found(Fail, err.Error(), "set --listen to all, all:4001, /ip4/0.0.0.0/tcp/4001 or /ip4/0.0.0.0/udp/4001/quic-v1")
		}
		if err := bind(ctx, network, addr); err != nil {
			taken = append(taken, fmt.Sprintf("%s: %v", a, p2p.ListenCause(err)))
			cures[p2p.ListenCure(err)] = true
		} else {
			free = append(free, a)
		}
	}
	switch {
	case len(taken) > 0 && chosen:
		return found(Warn, "the ports of the last run are in use ("+strings.Join(taken, "; ")+"); the peer will listen on others and be harder to find",
			"stop the process that uses them (ss -ltnup), or set other ports with --listen")
	case len(taken) > 0:
		return found(Fail, "cannot listen on "+strings.Join(taken, "; "), strings.Join(slices.Sorted(maps.Keys(cures)), "; "))
	case len(free) == 0:
		return fine("not set: free ports are chosen at the first start and reused")
	default:
		return fine("%s available", strings.Join(free, ", "))
	}
}

// listenAddr converts a listen multiaddr to a network and address of package net: TCP, or UDP for
// QUIC.
func listenAddr(text string) (network, addr string, err error) {
	m, err := ma.NewMultiaddr(text)
	if err != nil {
		return "", "", fmt.Errorf("listen %q: %w", text, err)
	}
	a, err := manet.ToNetAddr(m)
	if err != nil { // QUIC: the UDP part before it
		under, _ := ma.SplitFunc(m, func(c ma.Component) bool { return c.Protocol().Code == ma.P_QUIC_V1 })
		if a, err = manet.ToNetAddr(under); err != nil {
			return "", "", fmt.Errorf("listen %q: neither TCP nor QUIC: %w", text, err)
		}
	}
	return a.Network(), a.String(), nil
}

// bind listens for a moment.
func bind(ctx context.Context, network, addr string) error {
	var lc net.ListenConfig
	var c io.Closer
	var err error
	if strings.HasPrefix(network, "udp") {
		c, err = lc.ListenPacket(ctx, network, addr)
	} else {
		c, err = lc.Listen(ctx, network, addr)
	}
	if err != nil {
		return err
	}
	return c.Close()
}

// reached reports how others reach the running peer.
func (e *examination) reached() Finding {
	s := e.status
	switch {
	case s == nil:
		return found(Warn, "unknown: the running peer does not report it", "see the check of the peer below")
	case s.Role == "worker":
		cure := "forward the port of --listen on the router (TCP and UDP), or enable UPnP there; a worker can also stay as it is"
		if s.Reached == "unknown" {
			cure = "wait some minutes while other peers try, or set --reachability public if they can"
		}
		return found(Warn, "worker: "+s.WhyWorker(), cure)
	case len(s.Addrs) == 0:
		return found(Warn, "the peer has no address to announce", "forward the port of --listen on the router (TCP and UDP)")
	case s.Reached == "unknown":
		return fine("reachability not confirmed yet; listening at %s", strings.Join(s.Addrs, ", "))
	case s.Reached == "mapped":
		return fine("reachable through a port mapping of the router, at %s", strings.Join(s.Addrs, ", "))
	default:
		return fine("reachable (%s) at %s", s.Reached, strings.Join(s.Addrs, ", "))
	}
}

const sourceSeed, sourceRemembered = "--dns-seed", "remembered peer"

// seeds checks that each domain resolves to entry peers, and that they respond.
func (e *examination) seeds(ctx context.Context) Finding {
	if len(e.Config.DNSSeed) == 0 {
		return fine("not set")
	}
	entries := e.scout(ctx)
	worst := OK
	var texts []string
	for _, domain := range e.Config.DNSSeed {
		v, text := judgeSeed(strings.TrimSuffix(domain, "."), entries)
		texts = append(texts, text)
		worst = worse(worst, v)
	}
	first := e.Config.DNSSeed[0]
	at := ""
	if e.Config.DNSServer != "" {
		at = " @" + e.Config.DNSServer
	}
	return Finding{Verdict: worst, Found: strings.Join(texts, "; "), Cure: cureOf(worst,
		fmt.Sprintf("check the record with `dig TXT _dnsaddr.%s%s`, or name an entry peer with --bootstrap", first, at))}
}

func judgeSeed(domain string, entries []node.Entry) (Verdict, string) {
	named, answer := 0, 0
	var failures []string
	for _, e := range entries {
		switch {
		case e.Source == sourceSeed && e.Address == domain:
			failures = append(failures, oneLine(e.Err))
		case e.Source == sourceSeed+" "+domain:
			named++
			if e.Err == nil {
				answer++
			} else {
				failures = append(failures, oneLine(e.Err))
			}
		}
	}
	switch {
	case named == 0 && len(failures) == 0:
		return Fail, domain + " was not queried in time"
	case named == 0:
		return Fail, domain + " lists no peer: " + failures[0]
	case answer == 0:
		return Fail, fmt.Sprintf("%s lists %s, none responds: %s", domain, count(named, "peer"), failures[0])
	case answer < named:
		return Warn, fmt.Sprintf("%s lists %s, %d responding (%s)", domain, count(named, "peer"), answer, failures[0])
	default:
		return OK, fmt.Sprintf("%s lists %s, all responding", domain, count(named, "peer"))
	}
}

// bootstrap checks each configured entry peer, and counts the remembered peers that respond.
func (e *examination) bootstrap(ctx context.Context) Finding {
	var bad []string
	given, answer, known, remembered := 0, 0, 0, 0
	for _, entry := range e.scout(ctx) {
		switch {
		case entry.Source == sourceRemembered:
			known++
			if entry.Err == nil {
				remembered++
			}
		case strings.HasPrefix(entry.Source, sourceSeed):
		case entry.Err != nil:
			given++
			bad = append(bad, entry.Address+": "+oneLine(entry.Err))
		default:
			given++
			answer++
		}
	}
	memory := ""
	if known > 0 {
		memory = fmt.Sprintf("; %d of %s responding", remembered, count(known, "remembered peer"))
	}
	cure := "check that the peer runs, that its port is open, and that --network is the same; `apoidea status --json` there lists its addresses"
	switch {
	case given == 0 && len(e.Config.Bootstrap) > 0:
		return found(Fail, "the entry peers were not contacted in time", cure)
	case given > 0 && answer == 0:
		return found(Fail, "no configured entry peer responds ("+strings.Join(bad, "; ")+")"+memory, cure)
	case answer < given:
		return found(Warn, strings.Join(bad, "; ")+memory, cure)
	case given > 0:
		return fine("%d configured, all responding%s", given, memory)
	case known > 0 && remembered == 0 && len(e.Config.DNSSeed) == 0:
		return found(Warn, fmt.Sprintf("none configured, and none of %d remembered peers responds: the peer will wait for them", known),
			"set --bootstrap or --dns-seed, or start a ring without them with --found")
	case known > 0:
		return fine("none configured%s", memory)
	case len(e.Config.DNSSeed) == 0 && !e.runs && e.Config.Profile == node.ProfilePublic:
		return found(Warn, "none configured or remembered: the peer will found its own ring", "set --bootstrap or --dns-seed to join others")
	default:
		return fine("none configured")
	}
}

// slowAnswer is the response time from which a resolver slows a crawl down.
const slowAnswer = time.Second

// resolver queries each name server. A crawl of a lab by address needs none.
func (e *examination) resolver(ctx context.Context) Finding {
	cfg := resolve.Config{}
	whose := "of the system (/etc/resolv.conf)"
	if e.Config.DNSServer != "" {
		cfg.Servers, whose = []string{e.Config.ResolverAddr()}, "of --dns-server"
	}
	states := resolve.New(cfg).Servers(ctx)
	var bad []string
	slow := time.Duration(0)
	for _, s := range states {
		if s.Err != nil {
			bad = append(bad, s.Server+": "+oneLine(s.Err))
		} else {
			slow = max(slow, s.Took)
		}
	}
	verdict := Warn
	if len(bad) == len(states) && (e.Config.Profile == node.ProfilePublic || e.Config.DNSServer != "") {
		verdict = Fail
	}
	switch {
	case len(bad) > 0:
		return found(verdict, fmt.Sprintf("no response from %d of %s %s (%s)", len(bad), count(len(states), "server"), whose, strings.Join(bad, "; ")),
			"set another with --dns-server HOST:PORT, or fix the system's; a firewall may block UDP port 53")
	case slow > slowAnswer:
		return found(Warn, fmt.Sprintf("servers %s take %v to respond", whose, slow.Round(time.Millisecond)), "set a closer one with --dns-server HOST:PORT")
	default:
		return fine("%s %s, slowest response %v", count(len(states), "server"), whose, slow.Round(time.Millisecond))
	}
}

// oneLine formats an error as one line of bounded length.
func oneLine(err error) string {
	const most = 300
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func worse(a, b Verdict) Verdict {
	order := []Verdict{OK, Warn, Fail}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

func cureOf(v Verdict, cure string) string {
	if v == OK {
		return ""
	}
	return cure
}
