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

// ports says whether what is configured can be listened on, or how others reach the peer that runs.
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
			return found(Fail, err.Error(), "give --listen as in all, all:4001, /ip4/0.0.0.0/tcp/4001 or /ip4/0.0.0.0/udp/4001/quic-v1")
		}
		if err := bind(ctx, network, addr); err != nil {
			taken = append(taken, fmt.Sprintf("%s: %v", a, p2p.ListenCause(err)))
			cures[p2p.ListenCure(err)] = true
		} else {
			free = append(free, a)
		}
	}
	page := e.page(ctx)
	switch {
	case len(taken) > 0 && chosen:
		return found(Warn, "the ports of the last run are gone ("+strings.Join(taken, "; ")+"), so the peer will listen elsewhere and be harder to find",
			"end what has them (ss -ltnup), or fix the ports with --listen")
	case len(taken) > 0:
		return found(Fail, "cannot listen on "+strings.Join(taken, "; "), strings.Join(slices.Sorted(maps.Keys(cures)), "; "))
	case page != nil:
		return found(Fail, fmt.Sprintf("the page cannot be served at %s: %v", e.Config.Dashboard, p2p.ListenCause(page)), "give it another address with --dashboard, or port 0, or off")
	case len(free) == 0:
		return fine("any that is free, chosen at the first start and kept")
	default:
		return fine("%s can be listened on", strings.Join(free, ", "))
	}
}

// page tries the address of the web page, if a port is fixed.
func (e *examination) page(ctx context.Context) error {
	if _, port, err := net.SplitHostPort(e.Config.Dashboard); err != nil || port == "0" {
		return nil //nolint:nilerr // off, or wrong, which Validate says
	}
	return bind(ctx, "tcp", e.Config.Dashboard)
}

// listenAddr turns a multiaddr to listen on into a network and address of package net: TCP, or UDP
// for QUIC.
func listenAddr(text string) (network, addr string, err error) {
	m, err := ma.NewMultiaddr(text)
	if err != nil {
		return "", "", fmt.Errorf("listen %q: %w", text, err)
	}
	a, err := manet.ToNetAddr(m)
	if err != nil { // of QUIC the part before it
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

// reached says how others reach the peer that runs.
func (e *examination) reached() Finding {
	s := e.status
	switch {
	case s == nil:
		return found(Warn, "the peer that runs does not say", "see the check of the peer, below")
	case s.Role == "worker":
		cure := "forward a port of the router to it (TCP and UDP, the port of --listen; or switch UPnP on there), or leave it so: workers are welcome"
		if s.Reached == "unknown" {
			cure = "wait some minutes, until others have tried; --reachability public says that they can"
		}
		return found(Warn, s.WhyWorker()+": it works for others and owns nothing", cure)
	case len(s.Addrs) == 0:
		return found(Warn, "the peer has no address to give to others", "forward a port of the router to it (TCP and UDP, the port of --listen)")
	case s.Reached == "unknown":
		return fine("it is not known yet whether others can dial this peer, at %s", strings.Join(s.Addrs, ", "))
	case s.Reached == "mapped":
		return fine("reached through the router, at %s", strings.Join(s.Addrs, ", "))
	default:
		return fine("reached (%s) at %s", s.Reached, strings.Join(s.Addrs, ", "))
	}
}

const sourceSeed, sourceRemembered = "--dns-seed", "remembered peer"

// seeds says of each domain whether it names entry peers, and whether they answer.
func (e *examination) seeds(ctx context.Context) Finding {
	if len(e.Config.DNSSeed) == 0 {
		return fine("none is set")
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
		fmt.Sprintf("check the name: `dig TXT _dnsaddr.%s%s` shows what it says; --bootstrap names an entry peer without DNS", first, at))}
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
		return Fail, domain + " was not asked in time"
	case named == 0:
		return Fail, domain + " names no peer: " + failures[0]
	case answer == 0:
		return Fail, fmt.Sprintf("%s names %s, none answers: %s", domain, count(named, "peer"), failures[0])
	case answer < named:
		return Warn, fmt.Sprintf("%s names %s; answering: %d (%s)", domain, count(named, "peer"), answer, failures[0])
	default:
		return OK, fmt.Sprintf("%s names %s; answering: all", domain, count(named, "peer"))
	}
}

// bootstrap says of each entry peer that was given whether it answers, and of those remembered how
// many.
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
		memory = fmt.Sprintf("; of %d remembered %d answer", known, remembered)
	}
	cure := "check that the peer runs, that its port is open, and that --network is the same; `apoidea status --json` there shows its addresses"
	switch {
	case given == 0 && len(e.Config.Bootstrap) > 0:
		return found(Fail, "the entry peers were not asked in time", cure)
	case given > 0 && answer == 0:
		return found(Fail, "none of those given answers ("+strings.Join(bad, "; ")+")"+memory, cure)
	case answer < given:
		return found(Warn, strings.Join(bad, "; ")+memory, cure)
	case given > 0:
		return fine("%d given, all answer%s", given, memory)
	case known > 0 && remembered == 0 && len(e.Config.DNSSeed) == 0:
		return found(Warn, fmt.Sprintf("none is given, and of %d remembered none answers: the peer will wait for them", known),
			"name one with --bootstrap or --dns-seed; --found serves without the others")
	case known > 0:
		return fine("none is given%s", memory)
	case len(e.Config.DNSSeed) == 0 && !e.runs && e.Config.Profile == node.ProfilePublic:
		return found(Warn, "none is given and none remembered: the peer will found a ring of its own", "name one with --bootstrap or --dns-seed to join others")
	default:
		return fine("none is given")
	}
}

// slowAnswer is when a resolver holds a crawl up.
const slowAnswer = time.Second

// resolver asks each name server. A lab that crawls by address does without.
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
		return found(verdict, fmt.Sprintf("no answer from %d of %s %s (%s)", len(bad), count(len(states), "server"), whose, strings.Join(bad, "; ")),
			"name one that does with --dns-server HOST:PORT, or mend the system's; a firewall may hold back UDP port 53")
	case slow > slowAnswer:
		return found(Warn, fmt.Sprintf("servers %s take %v to answer", whose, slow.Round(time.Millisecond)), "name a nearer one with --dns-server HOST:PORT")
	default:
		return fine("%s %s, slowest answer after %v", count(len(states), "server"), whose, slow.Round(time.Millisecond))
	}
}

// oneLine is an error on one line of bounded length.
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
