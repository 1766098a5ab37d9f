package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/lab/cluster"
	"github.com/apoidea/apoidea/node/ops/words"
)

type clusterUp struct {
	*globals
	dir       *string
	n         int
	peer      settings.Peer
	job       settings.Job
	untilIdle bool
	web       bool
	webConfig webgen.Config
	settle    time.Duration
}

func newClusterUp(g *globals, dir *string) *cobra.Command {
	o := clusterUp{globals: g, dir: dir, webConfig: webgen.DefaultConfig()}
	o.webConfig.Hosts, o.webConfig.PagesPerHost = 24, 100
	cmd := &cobra.Command{
		Use:   "up [URL...]",
		Short: "Start a cluster and crawl the given URLs",
		Long: `Start those of peers 1 to N that are not running, and wait until they form one ring. URLs are posted as a job; an unfinished job with the same parameters is
continued. Without --until-idle the peers keep running in the background: see cluster status and cluster down.

Flags of run are passed to every peer; without any, those of the last start apply. Peer i is named peer<i>, has --data-dir DIR/peer<i> and fetches from
127.0.1.i, or from the i-th address after --fetch-from, which identifies it in server logs. A fixed port of --dashboard, --metrics, --pprof or
--optout-listen is that of peer 1 and is incremented for the others. All peers share one job key, DIR/job.key or --job-key, so that each can pause and
cancel the jobs of all.

--latency FILE emulates RTTs between the peers and between peers and sites: see apoidea help distances.

--web serves a synthetic web from this process, crawls it and prints the web server's audit.`,
		Example: `  apoidea cluster up -n 8 --web --until-idle
  apoidea cluster up -n 4 --dir /tmp/ring --allow-private --delay 10ms
  apoidea cluster up -n 8 --dir /tmp/ring --allow-private http://127.0.0.1:8080/ --until-idle --json
  apoidea cluster up -n 8 --web --until-idle --latency rtt.csv.gz`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cmd, o.peer.TakePrefixes(args))
		},
	}
	f := cmd.Flags()
	o.peer.Add(f)
	o.job.Add(f)
	f.IntVarP(&o.n, "peers", "n", 0, "number of peers (default as many as DIR has, or 4)")
	f.BoolVar(&o.untilIdle, "until-idle", false, "stop the cluster and exit when no work is left")
	f.BoolVar(&o.web, "web", false, "crawl a synthetic web served by this command; requires --until-idle")
	f.DurationVar(&o.settle, "settle", settleTime, "maximum time to form a ring")
	f.IntVar(&o.webConfig.Hosts, "web-hosts", o.webConfig.Hosts, "with --web: number of hosts")
	f.IntVar(&o.webConfig.PagesPerHost, "web-pages", o.webConfig.PagesPerHost, "with --web: pages per host")
	f.Uint64Var(&o.webConfig.Seed, "web-seed", o.webConfig.Seed, "with --web: random seed")
	return cmd
}

func (o *clusterUp) run(ctx context.Context, cmd *cobra.Command, urls []string) error {
	if cmd.Flags().Changed("peers") && o.n < 1 {
		return fmt.Errorf("%w: peers %d: must be at least 1", errUsage, o.n)
	}
	if o.web && !o.untilIdle {
		return fmt.Errorf("%w: --web: requires --until-idle, because this command serves the web", errUsage)
	}
	if o.web {
		if !cmd.Flags().Changed("allow-private") {
			o.peer.Config.AllowPrivate = true
			_ = cmd.Flags().Set("allow-private", "true")
		}
		if !cmd.Flags().Changed("delay") {
			_ = cmd.Flags().Set("delay", "5ms")
		}
	}
	c, err := openCluster(*o.dir)
	if err != nil {
		return err
	}
	isNew := c.Size() == 0
	if o.n == 0 && isNew {
		o.n = 4
	}
	if err := errors.Join(o.emulate(c), o.fromAnywhere(cmd)); err != nil {
		return err
	}
	cfg, err := o.peer.Configure(*o.dir, "", versionString())
	if err != nil {
		return err
	}
	spec, err := o.job.Spec(urls)
	defer o.job.Close() //nolint:errcheck // it was read
	if err != nil {
		return err
	}
	if from := cfg.FetchFrom; from.IsValid() {
		c.FetchFrom(from)
	}
	out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if o.web {
		err = o.withWeb(ctx, c, out, func(ctx context.Context, seeds []string) (*upResult, error) {
			spec.URLs = append(spec.URLs, seeds...)
			return o.crawl(ctx, c, passThrough(cmd), spec, errOut)
		})
	} else {
		var r *upResult
		if r, err = o.crawl(ctx, c, passThrough(cmd), spec, errOut); r != nil {
			err = cmp.Or(err, o.print(out, r))
		}
	}
	if err == nil && isNew && !o.quiet && !o.json {
		_, err = io.WriteString(errOut, nextSteps(*o.dir, o.untilIdle))
	}
	return err
}

// nextSteps lists commands for a new cluster, whose peers have stopped or keep running.
func nextSteps(dir string, ended bool) string {
	dir = words.ShellQuote(dir)
	peer := filepath.Join(dir, "peer1")
	if ended {
		return fmt.Sprintf(`next: apoidea export urls --data-dir %s    # outcomes of the URLs that this peer owns
      apoidea check --data-dir %s    # check its data
      apoidea cluster up --dir %s    # restart the same peers
`, peer, peer, dir)
	}
	return fmt.Sprintf(`next: apoidea status --ring --data-dir %s    # state of the ring
      apoidea dashboard --data-dir %s    # link to the dashboard of a peer
      apoidea cluster down --dir %s    # stop the peers, keep their data
`, peer, peer, dir)
}

// emulate assigns the rows of --latency: the number of peer rows is that of the first start, so
// that no site moves when peers are added.
func (o *clusterUp) emulate(c *cluster.Cluster) error {
	if o.peer.LatencyRow != 0 {
		return fmt.Errorf("%w: --latency-row: applies to a single peer; peer i of a cluster has row i-1", errUsage)
	}
	if o.peer.Latency == "" {
		return nil
	}
	if o.peer.LatencyPeers == 0 {
		o.peer.LatencyPeers = max(o.n, c.Size())
		if n := c.LatencyPeers(); n > 0 {
			o.peer.LatencyPeers = n
		}
	}
	c.Emulate(o.peer.LatencyPeers)
	return nil
}

// fromAnywhere makes the paths among the peers' flags absolute: peers that are added later may be
// started from another place.
func (o *clusterUp) fromAnywhere(cmd *cobra.Command) error {
	files := map[string]string{"latency": o.peer.Latency, "geoip": o.peer.Config.GeoIP, "hierarchy": o.peer.Config.Hierarchy, "job-key": o.peer.Config.JobKey}
	if jobs := o.peer.Config.Jobs; jobs != node.JobsAny && jobs != node.JobsMine {
		files["jobs"] = jobs
	}
	for name, path := range files {
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if err := cmd.Flags().Set(name, abs); err != nil {
			return err
		}
	}
	return nil
}

// passThrough lists the peers' flags that were set, for their command lines.
func passThrough(cmd *cobra.Command) []string {
	names := make(map[string]bool)
	peer := pflag.NewFlagSet("peer", pflag.ContinueOnError)
	new(settings.Peer).Add(peer)
	peer.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	names["log-level"], names["log-format"] = true, true
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !names[f.Name] || slices.Contains(ofEachPeer, f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	return args
}

// ofEachPeer are flags that the cluster sets for each peer.
var ofEachPeer = []string{"name", "fetch-from", "latency-row", "latency-peers"}

// upResult is what cluster up prints as JSON: with --until-idle the status of the ring at its end,
// and beside it what was started.
type upResult struct {
	*progress.Ran
	Dir   string            `json:"dir"`
	Count int               `json:"peers_running"`
	Job   string            `json:"job,omitempty"`
	Web   *webgen.AuditHost `json:"web,omitempty"`
}

// crawl brings the cluster up, posts the job and, with --until-idle, follows it to its end and
// takes the cluster down. A result beside an error is of a crawl that ended and fetched nothing.
func (o *clusterUp) crawl(ctx context.Context, c *cluster.Cluster, args []string, spec control.JobSpec, errOut io.Writer) (*upResult, error) {
	say := func(text string) {
		if !o.quiet && !o.json {
			fmt.Fprintln(errOut, text)
		}
	}
	defer context.AfterFunc(ctx, func() {
		if o.untilIdle {
			say("interrupted: stopping the peers (a second interrupt leaves them running)")
		}
	})()
	if o.untilIdle {
		c.Hold() // what is fetched before the counters are read would not count as of this run
	}
	settle, cancel := context.WithTimeout(ctx, o.settle)
	err := c.Up(settle, o.n, args, say)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w while the ring was forming", errInterrupted)
		}
		if o.untilIdle || ctx.Err() != nil {
			return nil, errors.Join(err, takeDown(ctx, c))
		}
		if running := c.Running(); len(running) > 0 {
			err = fmt.Errorf("%w; peers %v keep running (to stop them: apoidea cluster down --dir %s)", err, running, *o.dir)
		}
		return nil, err
	}
	r := &upResult{Dir: *o.dir, Count: len(c.Running())}
	say(fmt.Sprintf("%d peers form one ring in %s", r.Count, *o.dir))
	err = o.work(ctx, c, spec, r, errOut, say)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; the same command continues the crawl", errInterrupted)
	}
	if o.untilIdle {
		err = errors.Join(err, takeDown(ctx, c))
	}
	if err != nil && r.Ran == nil {
		return nil, err
	}
	return r, err
}

// print prints the result; a cluster in the background was reported already.
func (o *clusterUp) print(out io.Writer, r *upResult) error {
	if o.json {
		return words.JSON(out, r)
	}
	if o.quiet || r.Ran == nil {
		return nil
	}
	var more []string
	if a := r.Web; a != nil {
		more = append(more, words.Singular(fmt.Sprintf("web server audit: %d requests, %d distinct URLs, %d workers, %d overlaps of workers on a host, %d robots.txt violations",
			a.Requests, a.DistinctURLs, len(a.Workers), a.Overlaps, a.RobotsViolations)))
	}
	return r.Ran.Print(out, filepath.Join(*o.dir, "peer*", "archive"), more...)
}

// takeDown ends the peers even though ctx may have ended: an interrupt asks for just that.
func takeDown(ctx context.Context, c *cluster.Cluster) error {
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
	defer cancel()
	return c.Down(down)
}

func (o *clusterUp) work(ctx context.Context, c *cluster.Cluster, spec control.JobSpec, r *upResult, errOut io.Writer, say func(string)) error {
	cl := c.Client(c.Running()[0])
	defer cl.Close()
	var crawl *progress.Crawl
	if o.untilIdle {
		var err error
		if crawl, err = progress.Begin(ctx, cl); err != nil {
			return err
		}
		c.Release(map[bool]byte{true: cluster.Tied, false: cluster.Free}[o.web]) // without the web its hosts would count as failing
	}
	var job *control.Job
	if len(spec.URLs) > 0 {
		var err error
		if job, err = o.job.Post(ctx, cl, spec, say); err != nil {
			return err
		}
		r.Job = job.ID
		if crawl == nil || progress.Finished(job) == "" { // that is the result, and is printed at the end
			say(progress.Posted(job))
		}
	}
	if crawl == nil {
		return nil
	}
	var err error
	r.Ran, err = crawl.End(ctx, job, true, o.peer.Config.Patience, progress.Screen{Err: errOut, Quiet: o.quiet || o.json}, o.hints(errOut))
	return err
}

// withWeb serves the synthetic web while fn runs, and prints what its audit found. The port is that
// of the last time: an unfinished crawl has URLs of it. The web outlives an interrupt until fn has
// stopped the peers, which would count its hosts as failing otherwise.
func (o *clusterUp) withWeb(ctx context.Context, c *cluster.Cluster, out io.Writer, fn func(ctx context.Context, seeds []string) (*upResult, error)) error {
	port := c.WebPort()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil && port != 0 {
		return fmt.Errorf("web: %w; the crawl in %s uses port %d: stop the program that listens there, or choose another --dir", err, *o.dir, port)
	}
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	c.KeepWebPort(portOf(ln.Addr()))
	if port != 0 {
		o.webConfig.FlakyFailures = -1 // its pages have failed the last time, and failures add up
	}
	web := webgen.New(o.webConfig)
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group errgroup.Group
	group.Go(func() error { return web.Serve(serve, ln) })
	r, err := fn(ctx, web.Seeds(portOf(ln.Addr())))
	stop()
	err = cmp.Or(err, group.Wait())
	if r == nil {
		return err
	}
	a := web.Audit().Totals
	r.Web = &a
	return cmp.Or(err, o.print(out, r))
}
