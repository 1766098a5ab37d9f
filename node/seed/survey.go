package seed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/node/loop"
)

const (
	// surveyTime bounds a survey, surveyPeers how many peers it keeps.
	surveyTime  = time.Minute
	surveyPeers = 256
)

// Survey visits the peers of a ring once, and returns what it found. It needs of a configuration
// what is about the ring.
func Survey(ctx context.Context, cfg Config, log *slog.Logger) (*State, error) {
	if err := cfg.ValidateRing(); err != nil {
		return nil, err
	}
	cfg.Every, cfg.Peers = mostEvery, surveyPeers
	c, err := newCrawler(&cfg, log)
	if err != nil {
		return nil, err
	}
	around, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	err = c.visitAll(around, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.book.Visiting()
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil // what was found by then is enough
	}
	if err = errors.Join(loop.UnlessCanceled(err), ctx.Err(), c.net.Close()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stateLocked(time.Now()), nil
}

// zoneLifetime of records in a zone file that somebody keeps by hand, in seconds.
const zoneLifetime = 300

// Records are the TXT records of a zone that somebody keeps by hand. The JSON names are a contract.
type Records struct {
	Name string   `json:"name"` // under which they stand
	TTL  uint32   `json:"ttl"`  // in seconds
	TXT  []string `json:"txt"`  // one record each
}

// DrawRecords draws, from a state, whom newcomers are told. The error says so where there is
// nobody.
func DrawRecords(c *Config, s *State) (*Records, error) {
	r := &Records{Name: dnsaddr + dns.CanonicalName(c.Zone), TTL: zoneLifetime}
	for _, peer := range s.Draw(s.Written, rand.IntN) {
		r.TXT = append(r.TXT, txt(peer))
	}
	if len(r.TXT) == 0 {
		return nil, fmt.Errorf("no peer of network %q answers that can be given", s.Network)
	}
	return r, nil
}

// WriteZone writes lines for a zone file: the records, and how the zone would be delegated to a
// seed instead.
func WriteZone(w io.Writer, c *Config, s *State) error {
	r, err := DrawRecords(c, s)
	if err != nil {
		return err
	}
	name, ns := dns.CanonicalName(c.Zone), c.nameServers()[0]
	var b strings.Builder
	fmt.Fprintf(&b, "; %d of the peers of network %q that answered by %s. Peers come and go: print these anew each day.\n", len(r.TXT), s.Network, s.Written.UTC().Format(time.RFC3339))
	for _, text := range r.TXT {
		fmt.Fprintf(&b, "%s\t%d\tIN\tTXT\t%q\n", r.Name, r.TTL, text)
	}
	fmt.Fprintf(&b, "; With a server (apoidea seed serve --zone %s), two records at the parent lead to it instead, and it has SOA and NS itself:\n", strings.TrimSuffix(name, "."))
	fmt.Fprintf(&b, ";%s\t%d\tIN\tNS\t%s\n;%s\t%d\tIN\tA\tADDRESS-OF-THAT-SERVER\n", name, authorityLifetime, ns, ns, authorityLifetime)
	_, err = io.WriteString(w, b.String())
	return err
}
