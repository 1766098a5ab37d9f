package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/resolve"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/ops/words"
)

// reachability reports how others reach the running peer.
func (e *examination) reachability(context.Context) Finding {
	s := e.status
	switch {
	case !e.runs:
		return fine("not running")
	case s == nil || e.statusErr != nil:
		return found(Fail, fmt.Sprintf("the peer runs but does not report its status: %v", e.statusErr), "see its log; a peer that is stopped (SIGSTOP) or out of memory does not respond")
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

const sourceBootstrap, sourceSeed, sourceRemembered = "--bootstrap", "--dns-seed", "remembered peer"

// entryPeers checks that the entry peers, DNS seeds and remembered peers respond.
func (e *examination) entryPeers(ctx context.Context) Finding {
	return judgeEntries(&e.Config, e.scout(ctx), e.runs)
}

// judgeEntries warns if a configured source works in part, and fails if one does not work.
func judgeEntries(c *node.Config, entries []node.Entry, runs bool) Finding {
	var sources []string
	if len(c.Bootstrap) > 0 {
		sources = append(sources, sourceBootstrap)
	}
	for _, domain := range c.DNSSeed {
		sources = append(sources, sourceSeed+" "+strings.TrimSuffix(domain, "."))
	}
	verdict := OK
	var texts []string
	for _, source := range sources {
		n, answer, bad := tally(source, entries)
		text := fmt.Sprintf("%s: %d of %s responding", source, answer, words.Counted(int64(n), "peer"))
		if n == 0 && len(bad) == 0 {
			text = source + ": not contacted in time"
		}
		if len(bad) > 0 {
			text += " (" + strings.Join(bad, "; ") + ")"
		}
		texts = append(texts, text)
		switch {
		case answer == 0:
			verdict = Fail
		case answer < n && verdict == OK:
			verdict = Warn
		}
	}
	known, remembered, _ := tally(sourceRemembered, entries)
	if known > 0 {
		texts = append(texts, fmt.Sprintf("%d of %s responding", remembered, words.Counted(int64(known), "remembered peer")))
	}
	switch {
	case len(sources) > 0 && verdict == OK:
		return fine("%s", strings.Join(texts, "; "))
	case len(sources) > 0:
		return found(verdict, strings.Join(texts, "; "),
			"check that the peer runs, that its port is open, that --network is the same, and the record of a seed (dig TXT _dnsaddr.DOMAIN); `apoidea peers --addrs` there lists addresses")
	case known > 0 && remembered == 0:
		return found(Warn, fmt.Sprintf("none configured, and none of %d remembered peers responds: the peer will wait for them", known),
			"set --bootstrap or --dns-seed, or start a ring without them with --found")
	case known > 0:
		return fine("none configured; %s", texts[0])
	case !runs && c.Profile == node.ProfilePublic:
		return found(Warn, "none configured or remembered: the peer will found its own ring", "set --bootstrap or --dns-seed to join others")
	default:
		return fine("none configured")
	}
}

// tally counts the entries of a source and those that responded. A seed that lists no peer is an
// entry of sourceSeed with the domain as its address.
func tally(source string, entries []node.Entry) (n, answer int, bad []string) {
	for _, e := range entries {
		switch {
		case e.Source == sourceSeed && source == sourceSeed+" "+e.Address:
			bad = append(bad, oneLine(e.Err))
		case e.Source == source && e.Err != nil:
			n++
			bad = append(bad, e.Address+": "+oneLine(e.Err))
		case e.Source == source:
			n++
			answer++
		}
	}
	return n, answer, bad
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
		return found(verdict, fmt.Sprintf("no response from %d of %s %s (%s)", len(bad), words.Counted(int64(len(states)), "server"), whose, strings.Join(bad, "; ")),
			"set another with --dns-server HOST:PORT, or fix the system's; a firewall may block UDP port 53")
	case slow > slowAnswer:
		return found(Warn, fmt.Sprintf("servers %s take %v to respond", whose, slow.Round(time.Millisecond)), "set a closer one with --dns-server HOST:PORT")
	default:
		return fine("%s %s, slowest response %v", words.Counted(int64(len(states)), "server"), whose, slow.Round(time.Millisecond))
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
