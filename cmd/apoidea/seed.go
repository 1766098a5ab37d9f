package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/ops/seed"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newSeed(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Run a DNS seed",
		Long: `Run a DNS seed. A seed has a name, and apoidea run --dns-seed seeds.example.org joins the ring through it: the _dnsaddr TXT records of the name list entry
peers. seed serve is a name server that discovers and verifies such peers. With a DNS provider and no server, publish the records that seed zone prints.`,
	}
	cmd.AddCommand(newSeedServe(g), newSeedShow(g), newSeedZone(g))
	return cmd
}

type seedOptions struct {
	*globals
	config    seed.Config
	addresses []string
}

// addZone adds the flags of the zone.
func (o *seedOptions) addZone(f *pflag.FlagSet) {
	f.StringVar(&o.config.Zone, "zone", "", "domain given to --dns-seed, such as seeds.example.org")
	f.StringArrayVar(&o.config.NS, "ns", nil, "name server of the zone, as the parent delegates; repeatable (default ns.ZONE)")
}

// addRing adds the flags of the ring.
func (o *seedOptions) addRing(f *pflag.FlagSet) {
	c := &o.config
	f.StringVar(&c.Profile, "profile", c.Profile, "public (public addresses, one peer per network) or lab (any)")
	f.StringVar(&c.Network, "network", c.Network, "ring name")
	f.StringArrayVar(&c.Bootstrap, "bootstrap", nil, "multiaddr of a peer, from its peers --addrs; repeatable or space-separated")
	f.StringArrayVar(&c.DNSSeed, "dns-seed", nil, "domain of another seed of the same ring; repeatable")
	f.StringVar(&c.DNSServer, "dns-server", "", "DNS resolver for --dns-seed, HOST:PORT (default the system's)")
}

// dir is where the state of a seed lies.
func (o *seedOptions) dir() (string, error) { return filepath.Abs(filepath.Join(o.dataDir, "seed")) }

func newSeedServe(g *globals) *cobra.Command {
	o := seedOptions{globals: g, config: seed.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a zone with TXT records of reachable entry peers",
		Long: `Serve the zone of a DNS seed. The seed contacts the peers of the ring every few minutes, as a joining peer does: it dials their announced addresses
and verifies their identity. Each answer lists up to eight reliable peers, randomly selected, no two from one network.

The server is not a member of the ring. It answers only for its zone, does no recursion, and limits its answers to each network. Above --rate it drops every
second UDP query and answers the others with truncation, so that resolvers retry over TCP. Its state is in <data-dir>/seed and survives a restart; seed show
lists it. At the parent zone, the delegation needs the two records that seed zone prints.

Port 53 needs a capability: sudo setcap cap_net_bind_service=+ep "$(command -v apoidea)".`,
		Example: `  apoidea seed serve --zone seeds.example.org --address 192.0.2.7 \
    --bootstrap /ip4/192.0.2.9/tcp/4001/p2p/12D3KooW...
  apoidea seed serve --zone seeds.example.org --ns ns1.example.org --listen 192.0.2.7:53 \
    --dns-seed seeds.example.net
  apoidea seed serve --zone ring.test --profile lab --listen 127.0.0.1:5353 --every 10s \
    --bootstrap "$(apoidea peers --addrs)"
  apoidea run --dns-seed ring.test --dns-server 127.0.0.1:5353 --data-dir /tmp/fourth`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c, f := &o.config, cmd.Flags()
	o.addZone(f)
	f.StringVar(&c.Listen, "listen", c.Listen, "HOST:PORT to serve on, UDP and TCP; port 0: any")
	f.StringArrayVar(&o.addresses, "address", nil, "public IP address of this server, for --ns names; repeatable")
	f.StringArrayVar(&c.Names, "name", nil, "additional name below the zone: eu for eu.ZONE; repeatable")
	f.StringVar(&c.Mailbox, "mailbox", "", "mail address of the zone's administrator (default hostmaster@ZONE)")
	f.IntVar(&c.Rate, "rate", c.Rate, "UDP answers per second to a network (/24, /56)")
	o.addRing(f)
	f.DurationVar(&c.Every, "every", c.Every, "interval between visits to a reachable peer")
	f.IntVar(&c.Peers, "peers", c.Peers, "peers kept; the least reliable are dropped first")
	f.StringVar(&c.Metrics, "metrics", "", "loopback HOST:PORT of Prometheus metrics at /metrics (default off)")
	return cmd
}

// configure reads what the flags leave to be read.
func (o *seedOptions) configure() (err error) {
	for _, text := range o.addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%w: address %q: must be an IP address", errUsage, text)
		}
		o.config.Addresses = append(o.config.Addresses, addr.Unmap())
	}
	o.config.Version = versionString()
	o.config.Dir, err = o.dir()
	return err
}

func (o *seedOptions) serve(ctx context.Context, out, errOut io.Writer) error {
	if err := o.configure(); err != nil {
		return err
	}
	datadir.Private()
	log, done, err := o.logger(errOut)
	if err != nil {
		return err
	}
	defer done()
	s, err := seed.New(ctx, o.config, log)
	if err != nil {
		return err
	}
	if err := o.greet(out, s); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Run(ctx)
}

// greet prints the address of the seed.
func (o *seedOptions) greet(out io.Writer, s *seed.Seed) error {
	if o.json {
		return words.Line(out, map[string]string{"zone": o.config.Zone, "listen": s.Addr(), "metrics": s.MetricsAddr()})
	}
	if o.quiet {
		return nil
	}
	line := fmt.Sprintf("serving %s at %s, UDP and TCP", o.config.Zone, s.Addr())
	if at := s.MetricsAddr(); at != "" {
		line += "; metrics at http://" + at + "/metrics"
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func newSeedShow(g *globals) *cobra.Command {
	o := seedOptions{globals: g}
	return &cobra.Command{
		Use:   "show",
		Short: "List the peers of the seed and their status",
		Long: `List the peers in the seed's state, best first, whether the seed is running or not. GIVEN is in (in the answers), spare (new; used if too few others are in)
or out. WHY has the reason. The state is written once a minute.`,
		Example: "  apoidea seed show\n  apoidea seed show --json | jq -r '.peers[] | select(.given == \"out\") | .why'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := o.state()
			if err != nil {
				return err
			}
			return o.show(cmd.OutOrStdout(), state, time.Now())
		},
	}
}

// state reads what the seed of the data directory wrote.
func (o *seedOptions) state() (*seed.State, error) {
	dir, err := o.dir()
	if err != nil {
		return nil, err
	}
	state, err := seed.ReadState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no seed state in %s: start a seed with apoidea seed serve and wait a minute, or set --data-dir", dir)
	}
	return state, err
}

// shown is the document of seed show --json.
type shown struct {
	Zone    string      `json:"zone"`    // that the seed answers for
	Network string      `json:"network"` // of its ring
	Written time.Time   `json:"written"` // when it was as it is here
	Peers   []seed.Line `json:"peers"`   // the best first
}

func (o *seedOptions) show(out io.Writer, s *seed.State, now time.Time) error {
	lines := s.Lines(now)
	if o.json {
		return words.JSON(out, shown{s.Zone, s.Network, s.Written, lines})
	}
	count := map[string]int{}
	rows := [][]string{{"PEER", "GIVEN", "2H", "8H", "DAY", "WEEK", "VISITS", "ANSWERED", "ADDRESS", "WHY"}}
	for _, l := range lines {
		count[l.Given]++
		row := []string{words.Short(l.Peer), l.Given}
		for _, window := range []string{"2h", "8h", "day", "week"} {
			row = append(row, fmt.Sprintf("%.0f%%", 100*l.Reliability[window]))
		}
		answered := "never"
		if !l.Answered.IsZero() {
			answered = words.Seconds(now.Sub(l.Answered).Seconds()) + " ago"
		}
		address := l.Address
		if address == "" {
			address = strings.Join(l.Told[:min(1, len(l.Told))], "")
		}
		rows = append(rows, append(row, words.Number(int64(l.Visits)), answered, words.OrDash(address), words.Legible(l.Why)))
	}
	fmt.Fprintf(out, "%s, network %s, %s ago: %d in, %d spare, %d out\n", s.Zone, s.Network, words.Seconds(now.Sub(s.Written).Seconds()), count["in"], count["spare"], count["out"])
	return words.Table(out, rows)
}

func newSeedZone(g *globals) *cobra.Command {
	o := seedOptions{globals: g, config: seed.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "zone",
		Short: "Print TXT records of entry peers for a zone file",
		Long: `Print the TXT records of a DNS seed for publication without a seed server: up to eight peers from the seed's state in the data directory, or with
--bootstrap or --dns-seed from the peers reachable now. Each of those is contacted once.

The records do not update themselves: print them again each day, or run seed serve.`,
		Example: `  apoidea seed zone --zone seeds.example.org
  apoidea seed zone --zone seeds.example.org --bootstrap /ip4/192.0.2.9/tcp/4001/p2p/12D3KooW...`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.zone(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addZone(cmd.Flags())
	o.addRing(cmd.Flags())
	return cmd
}

func (o *seedOptions) zone(ctx context.Context, out, errOut io.Writer) error {
	var state *seed.State
	var err error
	if len(o.config.Bootstrap)+len(o.config.DNSSeed) > 0 {
		state, err = o.survey(ctx, errOut)
	} else {
		state, err = o.state()
	}
	if err != nil {
		return err
	}
	if o.config.Zone == "" {
		o.config.Zone = state.Zone
	}
	if err := o.config.ValidateZone(); err != nil {
		return err
	}
	if o.json {
		records, err := seed.DrawRecords(&o.config, state)
		if err != nil {
			return err
		}
		return words.JSON(out, records)
	}
	return seed.WriteZone(out, &o.config, state)
}

func (o *seedOptions) survey(ctx context.Context, errOut io.Writer) (*seed.State, error) {
	log, done, err := o.logger(errOut)
	if err != nil {
		return nil, err
	}
	defer done()
	o.config.Version = versionString()
	return seed.Survey(ctx, o.config, log)
}
