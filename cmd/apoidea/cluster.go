package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/cluster"
	"github.com/apoidea/apoidea/node/control"
)

// downTime is what peers get to end in good order before they are killed.
const downTime = 20 * time.Second

func newCluster(g *globals) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Many real peers on this machine, one process and one data directory each",
		Example: `  apoidea cluster up -n 8 --web --until-idle
  apoidea cluster up -n 8 --dir /tmp/ring --allow-private --delay 0 http://127.0.0.1:8080/ --until-idle
  apoidea cluster up -n 4 && apoidea cluster status && apoidea cluster kill 2 && apoidea cluster down`,
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", filepath.Join(defaultDataDir(), "cluster"), "directory of the cluster: peer i keeps its data in DIR/peer<i>")
	cmd.AddCommand(newClusterUp(g, &dir), newClusterStatus(g, &dir), newClusterAdd(g, &dir), newClusterKill(g, &dir), newClusterLeave(g, &dir), newClusterDown(g, &dir))
	return cmd
}

func openCluster(dir string) (*cluster.Cluster, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return cluster.Open(dir, binary)
}

type clusterUp struct {
	*globals
	dir       *string
	n         int
	peer      runFlags
	job       jobFlags
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
		Short: "Start a cluster; with URLs post them as a job; with --until-idle end when the work is done",
		Long: `Start peers 1 to N that do not run yet and wait until they form one ring. With URLs they are posted as a job (one with the same words
that is not finished is continued). Without --until-idle the peers go on in the background: see cluster status and cluster down.

Flags of run are passed on to every peer. Peer i fetches from 127.0.1.i, so that a server's log shows who came.
--web serves a synthetic web from this process, crawls it, and prints its audit.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cmd, args)
		},
	}
	f := cmd.Flags()
	o.peer.add(f, node.ProfileLab)
	o.job.add(f)
	f.IntVarP(&o.n, "peers", "n", 4, "number of peers")
	f.BoolVar(&o.untilIdle, "until-idle", false, "stop the cluster and exit when the whole ring has no work left")
	f.BoolVar(&o.web, "web", false, "crawl a synthetic web served by this command; needs --until-idle")
	f.DurationVar(&o.settle, "settle", 2*time.Minute, "how long the peers may take to form a ring")
	f.IntVar(&o.webConfig.Hosts, "web-hosts", o.webConfig.Hosts, "with --web: hosts")
	f.IntVar(&o.webConfig.PagesPerHost, "web-pages", o.webConfig.PagesPerHost, "with --web: pages a host")
	f.Uint64Var(&o.webConfig.Seed, "web-seed", o.webConfig.Seed, "with --web: seed")
	return cmd
}

func (o *clusterUp) run(ctx context.Context, cmd *cobra.Command, urls []string) error {
	if o.web && !o.untilIdle {
		return fmt.Errorf("%w: --web needs --until-idle, since the web ends with this command", errUsage)
	}
	if o.web {
		if !cmd.Flags().Changed("allow-private") {
			o.peer.allowPrivate = true
			_ = cmd.Flags().Set("allow-private", "true")
		}
		if !cmd.Flags().Changed("delay") {
			_ = cmd.Flags().Set("delay", "5ms")
		}
	}
	if _, err := o.peer.configure(&globals{dataDir: *o.dir}); err != nil {
		return err
	}
	spec, err := o.job.spec(urls)
	if err != nil {
		return err
	}
	c, err := openCluster(*o.dir)
	if err != nil {
		return err
	}
	out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if !o.web {
		return o.crawl(ctx, c, passThrough(cmd), spec, out, errOut)
	}
	return o.withWeb(ctx, out, errOut, func(ctx context.Context, seeds []string) error {
		spec.URLs = append(spec.URLs, seeds...)
		return o.crawl(ctx, c, passThrough(cmd), spec, out, errOut)
	})
}

// passThrough lists the peers' flags that were set, for their command lines.
func passThrough(cmd *cobra.Command) []string {
	names := make(map[string]bool)
	peer := pflag.NewFlagSet("peer", pflag.ContinueOnError)
	new(runFlags).add(peer, node.ProfileLab)
	peer.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	names["log-level"] = true
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !names[f.Name] || f.Name == "fetch-from" {
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

// crawl brings the cluster up, posts the job and, with --until-idle, follows it to its end and takes the cluster down.
func (o *clusterUp) crawl(ctx context.Context, c *cluster.Cluster, args []string, spec control.JobSpec, out, errOut io.Writer) error {
	say := func(text string) {
		if !o.quiet && !o.json {
			fmt.Fprintln(errOut, text)
		}
	}
	settle, cancel := context.WithTimeout(ctx, o.settle)
	err := c.Up(settle, o.n, args, say)
	cancel()
	if err != nil {
		if o.untilIdle || ctx.Err() != nil {
			err = errors.Join(err, takeDown(ctx, c))
		}
		return err
	}
	say(fmt.Sprintf("%d peers form one ring in %s", o.n, *o.dir))
	final, err := o.work(ctx, c, spec, out, errOut, say)
	if o.untilIdle {
		err = errors.Join(err, takeDown(ctx, c))
	}
	if err != nil || final == nil {
		return err
	}
	if o.json {
		return printJSON(out, final)
	}
	if o.quiet {
		return nil
	}
	_, err = fmt.Fprintf(out, "%d pages, %d duplicates, %d redirects, %d errors, %d denied by robots.txt, %d fetched again, %s; WARC files in %s\n",
		final.Pages, final.Duplicates, final.Redirects, final.Errors, final.RobotsDenied, final.Refetched, bytesText(final.Bytes), filepath.Join(*o.dir, "peer*", "archive"))
	return err
}

// takeDown ends the peers even though ctx may have ended: an interrupt asks for just that.
func takeDown(ctx context.Context, c *cluster.Cluster) error {
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
	defer cancel()
	return c.Down(down)
}

func (o *clusterUp) work(ctx context.Context, c *cluster.Cluster, spec control.JobSpec, out, errOut io.Writer, say func(string)) (*control.Status, error) {
	cl := c.Client(1)
	defer cl.Close()
	if len(spec.URLs) > 0 {
		spec.Continue = true
		job, err := cl.Post(ctx, spec)
		if err != nil {
			return nil, err
		}
		say("job " + job.ID + map[bool]string{true: " continued", false: " posted"}[job.Continued])
	}
	if !o.untilIdle {
		return nil, nil
	}
	if err := follow(ctx, cl, "", errOut, o.quiet || o.json, false, out); err != nil {
		return nil, err
	}
	return cl.Status(ctx, true)
}

// withWeb serves the synthetic web while fn runs, and prints what its audit found.
func (o *clusterUp) withWeb(ctx context.Context, out, errOut io.Writer, fn func(ctx context.Context, seeds []string) error) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	web := webgen.New(o.webConfig)
	serve, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	group.Go(func() error { return web.Serve(serve, ln) })
	err = fn(ctx, web.Seeds(portOf(ln.Addr())))
	stop()
	if werr := group.Wait(); werr != nil && err == nil {
		err = werr
	}
	if err != nil {
		return err
	}
	a := web.Audit().Totals
	if !o.json && !o.quiet {
		fmt.Fprintf(out, "seen by the web: %d requests, %d distinct URLs, %d workers, %d overlaps of workers at one host, %d robots violations\n",
			a.Requests, a.DistinctURLs, len(a.Workers), a.Overlaps, a.RobotsViolations)
	}
	return nil
}

func newClusterStatus(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show each peer of the cluster and the sums over the ring", Args: cobra.NoArgs,
		Example: "  apoidea cluster status --dir /tmp/ring --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			return g.clusterStatus(cmd.Context(), cmd.OutOrStdout(), c)
		},
	}
}

// clusterPeer is one line of cluster status.
type clusterPeer struct {
	Number int             `json:"number"`
	Runs   bool            `json:"runs"`
	Error  string          `json:"error,omitempty"`
	Status *control.Status `json:"status,omitempty"`
}

func (g *globals) clusterStatus(ctx context.Context, out io.Writer, c *cluster.Cluster) error {
	running := make(map[int]bool)
	for _, i := range c.Running(ctx) {
		running[i] = true
	}
	var peers []clusterPeer
	var sum control.Counters
	for i := 1; i <= c.Size(); i++ {
		p := clusterPeer{Number: i, Runs: running[i]}
		if running[i] {
			cl := c.Client(i)
			s, err := cl.Status(ctx, false)
			cl.Close()
			if err != nil {
				p.Error = err.Error()
			} else {
				p.Status = s
				sum.Add(&s.Counters)
			}
		}
		peers = append(peers, p)
	}
	if g.json {
		return printJSON(out, map[string]any{"peers": peers, "running": len(running), "sum": sum})
	}
	rows := [][]string{{"#", "STATE", "PEER", "MEMBERS", "HOSTS", "LEASED", "PAGES", "DUPLICATES", "PENDING", "RSS"}}
	for _, p := range peers {
		if p.Status == nil {
			state := "not running"
			if p.Runs {
				state = "not answering: " + p.Error
			}
			rows = append(rows, []string{strconv.Itoa(p.Number), state})
			continue
		}
		s := p.Status
		rows = append(rows, []string{
			strconv.Itoa(p.Number), s.State, short(s.Peer), strconv.Itoa(s.Ring.Members), number(s.HostsOwned), number(s.HostsLeased),
			number(s.Pages), number(s.Duplicates), number(s.URLsPending), bytesText(s.RSSBytes),
		})
	}
	rows = append(rows, []string{"sum", "", "", "", number(sum.HostsOwned), number(sum.HostsLeased), number(sum.Pages), number(sum.Duplicates), number(sum.URLsPending)})
	return table(out, rows)
}

func newClusterAdd(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "add [COUNT]", Short: "Start further peers like the others", Args: cobra.MaximumNArgs(1),
		Example: "  apoidea cluster add 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			k := 1
			if len(args) == 1 {
				var err error
				if k, err = strconv.Atoi(args[0]); err != nil {
					return fmt.Errorf("%w: count %q: must be a number", errUsage, args[0])
				}
			}
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Minute)
			defer cancel()
			added, err := c.Add(ctx, k, nil)
			if err != nil {
				return err
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"added": added})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "added peers", added)
			return err
		},
	}
}

// newClusterEach makes a command that does one thing to each peer named by number.
func newClusterEach(g *globals, dir *string, name, short, done string, do func(context.Context, *cluster.Cluster, int) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " NUMBER...", Short: short, Args: cobra.MinimumNArgs(1), Example: "  apoidea cluster " + name + " 2 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			var numbers []int
			for _, arg := range args {
				i, err := strconv.Atoi(arg)
				if err != nil {
					return fmt.Errorf("%w: peer %q: must be a number from 1 to %d", errUsage, arg, c.Size())
				}
				if err := do(cmd.Context(), c, i); err != nil {
					return err
				}
				numbers = append(numbers, i)
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{done: numbers})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), done, numbers)
			return err
		},
	}
}

func newClusterKill(g *globals, dir *string) *cobra.Command {
	return newClusterEach(g, dir, "kill", "Kill peers without warning, as a crash would", "killed",
		func(_ context.Context, c *cluster.Cluster, i int) error { return c.Kill(i) })
}

func newClusterLeave(g *globals, dir *string) *cobra.Command {
	return newClusterEach(g, dir, "leave", "Let peers leave the ring in good order", "left",
		func(ctx context.Context, c *cluster.Cluster, i int) error { return c.Leave(ctx, i) })
}

func newClusterDown(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Stop all peers in good order, keeping their data", Args: cobra.NoArgs, Example: "  apoidea cluster down --dir /tmp/ring",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			n := len(c.Running(cmd.Context()))
			if err := takeDown(cmd.Context(), c); err != nil {
				return err
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]int{"stopped": n})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d peers stopped; their data stays in %s\n", n, *dir)
			return err
		},
	}
}
