// Package churn simulates joining and dying peers during a crawl, and compares their final records
// with the truth.
package churn

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/sim"
)

// Churn tests that no page is lost while peers join and die.
var Churn = trial.Experiment{
	Name:  "churn",
	About: "peers join and die: wrong owners, lost pages, repeated fetches, cost",
	Long: `Two simulations in virtual time. Sessions are exponential with a median of 60 minutes and end with deaths, half of them silent. Joining peers keep the number of peers constant.

The ring alone, with ten times --peers (10,000) for a thirtieth of --hours. Owners are compared with the global truth; then a tenth of all peers dies at once.

Peers with the logic of the node, --peers (1,000) for --hours (2): ring, owners of hosts and bodies, replication, record handoff, outboxes, workers. A quarter of the dead peers
returns with its disk, after ten minutes on average. They crawl a synthetic web with one host per peer, whose servers log all requests. The owners' final records are compared
with that web. Not simulated: robots.txt, archive, owners of jobs, bytes below the messages. The defaults take about twenty minutes on two cores and 4 GiB; --peers 300 takes a
third of that.`,
	Run: runChurn,
}

func runChurn(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	peers, hours := o.Count(trial.Either(o, 1000, 40)), cmp.Or(o.Hours, trial.Either(o, 2, 0.3))
	r.Input("peers", peers)
	r.Input("hours", hours)
	length := time.Duration(hours * float64(time.Hour))
	ring := sim.ChurnConfig{Seed: o.Seed, Peers: ringShare * peers, For: length / ringHours, Internet: net}
	nodes := sim.CrawlConfig{Seed: o.Seed, Peers: peers, For: length, Return: returning, Internet: net}
	nodes.Progress = func(done, all time.Duration) { // the crawl takes longer than the ring alone
		share := done.Seconds() / all.Seconds()
		progress(fmt.Sprintf("crawl %.0f %% of virtual time", 100*share), share)
	}

	g, ctx := errgroup.WithContext(ctx)
	var alone *sim.ChurnReport
	var crawl *sim.CrawlReport
	g.Go(func() (err error) {
		alone, err = sim.RunChurn(ctx, ring)
		return err
	})
	g.Go(func() (err error) {
		crawl, err = sim.RunCrawl(ctx, nodes)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	ringTable(r, fmt.Sprintf("ring-%d", ring.Peers), alone)
	crawlTable(r, fmt.Sprintf("nodes-%d", peers), crawl)
	ringPlots(r, ring.Peers, alone)
	crawlPlots(r, peers, crawl)
	return nil
}

const (
	// ringShare is the factor on the number of peers of the ring alone, ringHours its part of the
	// time.
	ringShare = 10
	ringHours = 30
	// returning is the share of dead peers of the crawl that return with their disk.
	returning = 0.25
)

func ringTable(r *report.Report, row string, c *sim.ChurnReport) {
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

// seconds of a waiting time; NaN if the event did not occur.
func seconds(d time.Duration) float64 {
	if d < 0 {
		return math.NaN()
	}
	return d.Seconds()
}

func ringPlots(r *report.Report, peers int, c *sim.ChurnReport) {
	s := report.Series{Name: "ring", Columns: []string{
		"minutes", "peers", "keys_not_with_owner_pct", "keys_with_wrong_owner_pct", "lookups", "wrong", "failed", "waiting", "calls",
	}}
	var at, missing []float64
	for i := range c.Samples {
		p := &c.Samples[i]
		s.Rows = append(s.Rows, []float64{
			p.At.Minutes(), float64(p.Peers), 100 * (1 - p.Owned), 100 * p.Coverage.Wrong, float64(p.Lookups), float64(p.Wrong), float64(p.Failed),
			float64(p.Waiting), float64(p.Calls),
		})
		at = append(at, p.At.Minutes())
		missing = append(missing, max(0, 100*(1-p.Owned)))
	}
	r.Series = append(r.Series, s)
	plot := report.Plot{
		Name: "wrong-owners", Title: fmt.Sprintf("Keys without their owner in a ring of %d peers", peers), X: "minutes", Y: "% of all keys",
		Lines: []report.Line{{Label: "not served by their owner", X: at, Y: missing}, s.Line("served by another peer", 3)},
	}
	if n := len(c.Samples); c.Killed > 0 && n > 0 {
		for i := range c.Samples {
			if c.Samples[i].Peers <= c.Samples[0].Peers-c.Killed/2 {
				plot.Marks = []report.Mark{{X: at[max(i-1, 0)], Label: fmt.Sprintf("%d peers die", c.Killed)}}
				break
			}
		}
	}
	r.Plots = append(r.Plots, plot)
}

func crawlTable(r *report.Report, row string, c *sim.CrawlReport) {
	t := &r.Table
	pages := float64(c.Found)
	finished := math.NaN()
	if c.Finished {
		finished = c.Took.Minutes()
	}
	t.Add(row, "died", "peers", float64(c.Died))
	t.Add(row, "born", "peers", float64(c.Born))
	t.Add(row, "returned", "peers", float64(c.Returned))
	t.Add(row, "pages", "pages", float64(c.Truth))
	t.Add(row, "lost", "pages", float64(c.Lost))
	t.Add(row, "lost_by_quarantine", "pages", float64(c.Quarantined))
	t.Add(row, "beyond_truth", "pages", float64(c.Extra))
	t.Add(row, "refetched", "% of requests", 100*float64(c.Refetched)/float64(c.Requests))
	t.Add(row, "two_workers_at_once", "requests", float64(c.Overlaps))
	t.Add(row, "delay_not_kept", "requests", float64(c.Impolite))
	t.Add(row, "leases_lapsed", "leases", float64(c.Lapsed))
	t.Add(row, "records_moved", "records", float64(c.Moved))
	t.Add(row, "finished_after", "min", finished)
	t.Add(row, "load_max_over_mean", "requests", report.Spread(c.Loads))
	t.Add(row, "hosts_owned_max_over_mean", "hosts", report.Spread(c.HostLoads))
	for p := range sim.Purposes {
		if c.Sent[p].Calls > 0 {
			t.Add(row, "bytes_"+sim.Word(p), "B/page", float64(c.Sent[p].Bytes)/pages)
		}
	}
	t.Add(row, "upkeep_bytes", "B/peer/s", float64(c.Sent[dhtsim.Upkeep].Bytes)/c.PeerSeconds)
}

func crawlPlots(r *report.Report, peers int, c *sim.CrawlReport) {
	s := report.Series{Name: "crawl", Columns: []string{"minutes", "peers", "requests", "refetched", "urls_done", "urls_pending", "keys_not_with_owner_pct"}}
	for p := range sim.Purposes {
		s.Columns = append(s.Columns, sim.Word(p)+"_bytes")
	}
	var at []float64
	traffic := make([][]float64, sim.Purposes)
	last := &sim.CrawlSample{}
	for i := range c.Samples {
		p := &c.Samples[i]
		row := []float64{
			p.At.Minutes(), float64(p.Peers), float64(p.Requests), float64(p.Refetched), float64(p.Done), float64(p.Pending), 100 * (1 - p.Owned),
		}
		for purpose := range sim.Purposes {
			row = append(row, float64(p.Bytes[purpose]))
			per := (p.At - last.At).Seconds() * float64(p.Peers)
			traffic[purpose] = append(traffic[purpose], float64(p.Bytes[purpose]-last.Bytes[purpose])/per)
		}
		s.Rows = append(s.Rows, row)
		at = append(at, p.At.Minutes())
		last = p
	}
	requests := s.Line("requests to sites", 2)
	requests.Dashed = true
	load := report.Ranked("requests of a worker", c.Loads)
	loads := report.NewSeries("load", "share_of_peers", load.X)
	loads.Column("requests_per_hour", load.Y)
	r.Series = append(r.Series, s, loads)
	var lines []report.Line
	for p := range sim.Purposes {
		if c.Sent[p].Calls > 0 {
			lines = append(lines, report.Line{Label: sim.Word(p), X: at, Y: traffic[p]})
		}
	}
	r.Plots = append(r.Plots,
		report.Plot{
			Name: "pages", Title: fmt.Sprintf("A crawl by %d peers, %d of which died", peers, c.Died), X: "minutes", Y: "URLs",
			Lines: []report.Line{s.Line("with an outcome", 4), s.Line("outstanding", 5), requests},
		},
		report.Plot{
			Name: "load", Title: "Requests per worker", X: "% of peers, least busy first", Y: "requests per hour", Lines: []report.Line{load},
		},
		report.Plot{Name: "traffic", Title: "Bytes sent by purpose", X: "minutes", Y: "bytes per peer and second", LogY: true, Lines: lines},
	)
}
