package experiment

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/apoidea/apoidea/node/sim"
)

func init() {
	register(&Experiment{
		Name:  "churn",
		About: "peers come and die: who owns which key, and what is lost",
		Long: `A ring of 10,000 peers (ten times --peers) in virtual time: sessions are exponential with a median of 60 minutes and end with deaths, half of them
silent; newcomers hold the size. Then a tenth of all peers dies at once. Owners are held against the global truth.`,
		Run: runChurn,
	})
}

// internet is what --rtt names, or one made from the seed.
func internet(o *Options, r *Report) (func() sim.Internet, error) {
	if o.RTT == "" {
		r.Input("rtt", "synthetic")
		return func() sim.Internet { return sim.NewSynthetic(o.Seed) }, nil
	}
	m, err := sim.LoadMatrix(o.RTT)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	r.Input("rtt", o.RTT)
	r.Input("rtt_nodes", m.Size())
	return func() sim.Internet { return m }, nil
}

func runChurn(ctx context.Context, o *Options, r *Report, progress func(Progress)) error {
	net, err := internet(o, r)
	if err != nil {
		return err
	}
	peers, hours := 1000, 2.0
	if o.Quick {
		peers, hours = 60, 0.5
	}
	if o.Peers > 0 {
		peers = o.Peers
	}
	if o.Hours > 0 {
		hours = o.Hours
	}
	r.Input("peers", peers)
	r.Input("hours", hours)
	cfg := sim.ChurnConfig{
		Seed: o.Seed, Peers: ringShare * peers, For: time.Duration(hours * float64(time.Hour) / ringHours), Session: time.Hour, Internet: net(),
		Progress: func(done, all time.Duration) {
			progress(Progress{fmt.Sprintf("ring of %d peers: %v of %v", ringShare*peers, done, all), done.Seconds() / all.Seconds()})
		},
	}
	report, err := sim.RunChurn(ctx, cfg)
	if err != nil {
		return err
	}
	ringTable(r, fmt.Sprintf("ring-%d", cfg.Peers), report)
	ringPlots(r, cfg.Peers, report)
	return nil
}

const (
	// ringShare times as many peers are in the ring alone as have the whole logic of the node, for a ringHours part of the time.
	ringShare = 10
	ringHours = 30
)

func ringTable(r *Report, row string, c *sim.ChurnReport) {
	t := &r.Table
	share := func(part, whole int) float64 { return 100 * float64(part) / float64(whole) }
	t.Add(row, "peers", "mean", c.Peers)
	t.Add(row, "died", "peers", float64(c.Died))
	t.Add(row, "born", "peers", float64(c.Born))
	t.Add(row, "wrong_owners", "% of lookups", share(c.Churn.Wrong, c.Churn.Lookups))
	t.Add(row, "owner_not_found", "% of lookups", share(c.Churn.Failed, c.Churn.Lookups))
	t.Add(row, "owner_not_yet_serving", "% of lookups", share(c.Churn.Waiting, c.Churn.Lookups))
	t.Add(row, "wrong_owners_after_30s", "lookups", float64(c.Quiet.Wrong+c.Quiet.Failed+c.Quiet.Waiting))
	t.Add(row, "keys_not_with_owner_after_30s", "%", max(0, 100*(1-c.QuietOwned)-1e-9))
	t.Add(row, "keys_not_with_owner", "% mean", 100*(1-c.Owned))
	t.Add(row, "keys_not_with_owner_max", "%", 100*(1-c.OwnedMin))
	t.Add(row, "keys_with_wrong_owner_max", "%", 100*c.WrongMax)
	t.Add(row, "calls_per_lookup", "calls", float64(c.Churn.Calls)/float64(c.Churn.Lookups))
	t.Add(row, "upkeep_calls", "calls/peer/s", c.UpkeepCalls)
	t.Add(row, "upkeep_bytes", "B/peer/s", c.UpkeepBytes)
	t.Add(row, "killed_at_once", "peers", float64(c.Killed))
	t.Add(row, "owners_right_after", "s", seconds(c.Owners))
	t.Add(row, "settled_after", "s", seconds(c.Settled))
	t.Add(row, "wrong_owners_meanwhile", "% of lookups", share(c.Shock.Wrong, c.Shock.Lookups))
}

// seconds of a time that was waited for; NaN if it did not come.
func seconds(d time.Duration) float64 {
	if d < 0 {
		return math.NaN()
	}
	return d.Seconds()
}

func ringPlots(r *Report, peers int, c *sim.ChurnReport) {
	s := Series{Name: "ring", Columns: []string{
		"minutes", "peers", "keys_not_with_owner_pct", "keys_with_wrong_owner_pct", "lookups", "wrong", "failed", "waiting", "calls",
	}}
	var at, missing, wrong []float64
	for i := range c.Samples {
		p := &c.Samples[i]
		s.Rows = append(s.Rows, []float64{
			p.At.Minutes(), float64(p.Peers), 100 * (1 - p.Owned), 100 * p.Coverage.Wrong, float64(p.Lookups), float64(p.Wrong), float64(p.Failed),
			float64(p.Waiting), float64(p.Calls),
		})
		at = append(at, p.At.Minutes())
		missing, wrong = append(missing, max(0, 100*(1-p.Owned))), append(wrong, 100*p.Coverage.Wrong)
	}
	r.Series = append(r.Series, s)
	plot := Plot{
		Name: "wrong-owners", Title: fmt.Sprintf("Keys without their owner in a ring of %d peers", peers), X: "minutes", Y: "% of all keys",
		Lines: []Line{{Label: "not served by their owner", X: at, Y: missing}, {Label: "served by another peer", X: at, Y: wrong}},
	}
	if n := len(c.Samples); c.Killed > 0 && n > 0 {
		for i := range c.Samples {
			if c.Samples[i].Peers <= c.Samples[0].Peers-c.Killed/2 {
				plot.Marks = []Mark{{X: at[max(i-1, 0)], Label: fmt.Sprintf("%d peers die", c.Killed)}}
				break
			}
		}
	}
	r.Plots = append(r.Plots, plot)
}
