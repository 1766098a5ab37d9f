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
	// surveyTime is the timeout of a survey, surveyPeers its maximum number of peers.
	surveyTime  = time.Minute
	surveyPeers = 256
)

// Survey visits the peers of a ring once and returns the result. It uses only the settings of the
// ring.
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
		return !c.peers.Visiting()
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil // a partial result is sufficient
	}
	if err = errors.Join(loop.UnlessCanceled(err), ctx.Err(), c.net.Close()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stateLocked(time.Now()), nil
}

// zoneLifetime is the TTL of records in a manually maintained zone file, in seconds.
const zoneLifetime = 300

// Records are TXT records for a manually maintained zone. The JSON names are stable.
type Records struct {
	Name string   `json:"name"` // owner name
	TTL  uint32   `json:"ttl"`  // in seconds
	TXT  []string `json:"txt"`  // one record each
}

// DrawRecords draws peers from a state. It returns an error if there are none.
func DrawRecords(c *Config, s *State) (*Records, error) {
	r := &Records{Name: dnsaddr + dns.CanonicalName(c.Zone), TTL: zoneLifetime}
	for _, peer := range s.Draw(s.Written, rand.IntN) {
		r.TXT = append(r.TXT, txt(peer))
	}
	if len(r.TXT) == 0 {
		return nil, fmt.Errorf("no usable peer of network %q responds", s.Network)
	}
	return r, nil
}

// WriteZone writes lines for a zone file: the records, and as a comment the delegation to a seed.
func WriteZone(w io.Writer, c *Config, s *State) error {
	r, err := DrawRecords(c, s)
	if err != nil {
		return err
	}
	name, ns := dns.CanonicalName(c.Zone), c.nameServers()[0]
	var b strings.Builder
	fmt.Fprintf(&b, "; %d of the peers of network %q that answered by %s. Update these records daily.\n", len(r.TXT), s.Network, s.Written.UTC().Format(time.RFC3339))
	for _, text := range r.TXT {
		fmt.Fprintf(&b, "%s\t%d\tIN\tTXT\t%q\n", r.Name, r.TTL, text)
	}
	fmt.Fprintf(&b, "; Alternatively run apoidea seed serve --zone %s and delegate the zone to it with two records at the parent:\n", strings.TrimSuffix(name, "."))
	fmt.Fprintf(&b, ";%s\t%d\tIN\tNS\t%s\n;%s\t%d\tIN\tA\tADDRESS-OF-THAT-SERVER\n", name, authorityLifetime, ns, ns, authorityLifetime)
	_, err = io.WriteString(w, b.String())
	return err
}
