package seed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/miekg/dns"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/loop"
)

const (
	// visitors is the number of concurrent visits.
	visitors = 16
	// mostHeard limits the peers received in one visit.
	mostHeard = 32
)

// crawler visits peers, and then the peers that they announce.
type crawler struct {
	cfg     *Config
	log     *slog.Logger
	net     *p2p.Net
	visited func(answered bool) // counts a visit

	mu      sync.Mutex // guards the fields below; not held during I/O
	peers   *PeerSet
	changed bool // since the last write of the state
}

// newCrawler returns a crawler with a new peer ID and without listeners.
func newCrawler(c *Config, log *slog.Logger) (*crawler, error) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		return nil, err
	}
	cfg := p2p.Config{Network: c.Network, Identity: key, UserAgent: "apoidea-seed/" + c.Version, Reachability: p2p.ReachPrivate}
	if c.Profile == profilePublic {
		cfg.Profile = p2p.Public
	}
	net, err := p2p.New(cfg, log)
	if err != nil {
		return nil, err
	}
	book := NewPeerSet(Rules{Public: c.Profile == profilePublic, Every: c.Every, Most: c.Peers})
	return &crawler{cfg: c, log: log, net: net, visited: func(bool) {}, peers: book}, nil
}

// visitAll visits due peers until ctx ends, or until none is due and enough returns true.
func (c *crawler) visitAll(ctx context.Context, enough func() bool) error {
	todo := make(chan peer.AddrInfo)
	var visiting sync.WaitGroup
	defer visiting.Wait()
	defer close(todo)
	for range visitors {
		visiting.Go(func() {
			for to := range todo {
				c.visit(ctx, to)
			}
		})
	}
	var sought time.Time
	for {
		if now := time.Now(); sought.IsZero() || now.Sub(sought) >= c.cfg.Every && c.lonely() {
			sought = now
			c.seek(ctx)
		}
		due := c.due()
		for _, to := range due {
			select {
			case todo <- to:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		switch {
		case len(due) > 0:
			continue
		case enough():
			return nil
		}
		if err := loop.Sleep(ctx, look); err != nil {
			return err
		}
	}
}

func (c *crawler) due() []peer.AddrInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peers.Due(time.Now(), visitors)
}

// lonely reports that no peer responds, so that new entry peers are needed.
func (c *crawler) lonely() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peers.Answering() == 0
}

// seek adds the configured entry peers.
func (c *crawler) seek(ctx context.Context) {
	if len(c.cfg.Bootstrap)+len(c.cfg.DNSSeed) == 0 {
		return // only the set is available
	}
	found, report := c.entries(ctx)
	if len(found) == 0 && ctx.Err() == nil {
		c.log.Warn("no entry peer responds; retrying", "tried", report.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, info := range found {
		c.peers.Announced(now, info)
	}
}

// entries returns the configured entry peers that respond, with their addresses.
func (c *crawler) entries(ctx context.Context) (found []peer.AddrInfo, report *p2p.Report) {
	var bootstrap []string
	for _, list := range c.cfg.Bootstrap {
		bootstrap = append(bootstrap, strings.Fields(list)...)
	}
	report = c.net.Probe(ctx, p2p.Sources{Bootstrap: bootstrap, DNSSeeds: c.cfg.DNSSeed, DNSServer: c.cfg.DNSServer})
	for _, id := range report.Entries {
		info := peer.AddrInfo{ID: id}
		for _, text := range c.net.AddrsOf(id) {
			if a, err := ma.NewMultiaddr(text); err == nil {
				info.Addrs = append(info.Addrs, a)
			}
		}
		found = append(found, info)
	}
	return found, report
}

// visit visits a peer and records the result.
func (c *crawler) visit(ctx context.Context, to peer.AddrInfo) {
	v, err := c.net.Visit(ctx, to)
	if err == nil && !v.Member {
		err = errNoMember
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		c.peers.Released(to.ID)
		return
	}
	c.visited(err == nil)
	now := time.Now()
	c.peers.Visited(now, to.ID, v.Address, err)
	for _, info := range v.Heard[:min(len(v.Heard), mostHeard)] {
		c.peers.Announced(now, info)
	}
	c.changed = true
}

// errNoMember is the error for a peer that is joining or leaving.
var errNoMember = errors.New("responds but is not a member: joining or leaving")

// stateLocked returns the current state. The caller holds mu.
func (c *crawler) stateLocked(now time.Time) *State {
	return &State{
		Version: stateVersion, Zone: c.cfg.Zone, Network: c.cfg.Network, Public: c.cfg.Profile == profilePublic, Written: now, Peers: c.peers.Peers(),
	}
}

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
