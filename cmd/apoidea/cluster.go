package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/lab/cluster"
	"github.com/apoidea/apoidea/node/ops/words"
)

// downTime is what peers get to end in good order before they are killed.
const downTime = 20 * time.Second

// settleTime is what a ring gets to close after a change.
const settleTime = 2 * time.Minute

func newCluster(g *globals) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Run a cluster of peers on this machine",
		Example: `  apoidea cluster up -n 8 --web --until-idle
  apoidea cluster up -n 8 --dir /tmp/ring --allow-private --delay 0 --until-idle \
    http://127.0.0.1:8080/
  apoidea cluster up -n 4 && apoidea cluster status
  apoidea cluster kill 2 && apoidea cluster down`,
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", filepath.Join(defaultDataDir(), "cluster"), "cluster directory; peer i uses DIR/peer<i>")
	cmd.AddCommand(newClusterUp(g, &dir), newClusterStatus(g, &dir), newClusterAdd(g, &dir), newClusterStart(g, &dir), newClusterKill(g, &dir), newClusterLeave(g, &dir), newClusterDown(g, &dir))
	return cmd
}

// wantPeers refuses a command that names no peer.
var wantPeers = atLeast(1, "one peer number")

func openCluster(dir string) (*cluster.Cluster, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return cluster.Open(dir, binary)
}

func newClusterStatus(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show each peer of the cluster and the totals", Args: noArgs,
		Example: "  apoidea cluster status --dir /tmp/ring --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			if c.Size() == 0 {
				return control.Usage("no cluster in " + *dir + ": start one with `apoidea cluster up`, or set --dir")
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
	for _, i := range c.Running() {
		running[i] = true
	}
	var peers []clusterPeer
	var sum control.Counters
	rss := int64(0)
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
				rss += s.RSSBytes
			}
		}
		peers = append(peers, p)
	}
	if g.json {
		return words.JSON(out, map[string]any{"peers": peers, "running": len(running), "sum": sum})
	}
	rows := [][]string{{"#", "STATE", "PEER", "MEMBERS", "HOSTS", "LEASED", "PAGES", "DUPLICATES", "PENDING", "RSS"}}
	for _, p := range peers {
		if p.Status == nil {
			state := "not running"
			if p.Runs {
				state = "unreachable" // starting or stopping; --json has the error
			}
			rows = append(rows, []string{strconv.Itoa(p.Number), state, "", "", "", "", "", "", "", ""})
			continue
		}
		s := p.Status
		rows = append(rows, []string{
			strconv.Itoa(p.Number), s.State, words.Short(s.Peer), strconv.Itoa(s.Ring.Members), words.Number(s.HostsOwned), words.Number(s.HostsLeased),
			words.Number(s.Pages), words.Number(s.Duplicates), words.Number(s.URLsPending), words.Bytes(s.RSSBytes),
		})
	}
	rows = append(rows, []string{"sum", fmt.Sprintf("%d run", len(running)), "", "", words.Number(sum.HostsOwned), words.Number(sum.HostsLeased), words.Number(sum.Pages), words.Number(sum.Duplicates), words.Number(sum.URLsPending), words.Bytes(rss)})
	return words.List(out, rows)
}

func newClusterAdd(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "add [COUNT]", Short: "Add peers to the cluster", Args: atMost(1),
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
			ctx, cancel := context.WithTimeout(cmd.Context(), settleTime)
			defer cancel()
			added, err := c.Add(ctx, k, nil)
			if err != nil {
				return err
			}
			return g.say(cmd.OutOrStdout(), map[string]any{"added": added}, "added "+peersText(added))
		},
	}
}

// each applies an operation to every peer given by number and reports it.
func (g *globals) each(cmd *cobra.Command, dir string, args []string, done string, do func(context.Context, *cluster.Cluster, int) error) (*cluster.Cluster, error) {
	c, err := openCluster(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, arg := range args {
		i, err := strconv.Atoi(arg)
		if err != nil {
			return nil, fmt.Errorf("%w: peer %q: must be a number from 1 to %d", errUsage, arg, c.Size())
		}
		if err := do(cmd.Context(), c, i); err != nil {
			return nil, err
		}
		numbers = append(numbers, i)
	}
	return c, g.say(cmd.OutOrStdout(), map[string]any{done: numbers}, done+" "+peersText(numbers))
}

func peersText(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprint("peer ", numbers[0])
	}
	return "peers " + strings.Trim(fmt.Sprint(numbers), "[]")
}

func newClusterKill(g *globals, dir *string) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "kill NUMBER...", Short: "Kill peers without warning, like a crash", Args: wantPeers,
		Long: `Kill peers without warning, like a crash. The other peers detect it within seconds and repair the ring. cluster up
restarts killed peers with their data.`,
		Example: "  apoidea cluster kill 2 5\n  apoidea cluster kill 3 --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := g.each(cmd, *dir, args, "killed", func(ctx context.Context, c *cluster.Cluster, i int) error { return c.Kill(ctx, i) })
			if err != nil || !wait || len(c.Running()) == 0 {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), settleTime)
			defer cancel()
			begin := time.Now()
			if err := c.WaitClosed(ctx, len(c.Running()), nil); err != nil || g.json || g.quiet {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ring consistent after %s\n", words.Seconds(time.Since(begin).Seconds()))
			return err
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the remaining ring is consistent")
	return cmd
}

func newClusterLeave(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "leave NUMBER...", Short: "Make peers leave the ring and stop", Args: wantPeers,
		Example: "  apoidea cluster leave 2 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := g.each(cmd, *dir, args, "left", func(ctx context.Context, c *cluster.Cluster, i int) error { return c.Leave(ctx, i) })
			return err
		},
	}
}

func newClusterStart(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "start NUMBER...", Short: "Restart killed or stopped peers in the given order", Args: wantPeers,
		Long: `Restart killed or stopped peers in the given order, with their data and flags, and return immediately. They rejoin the ring through the peers of their
last run.`,
		Example: "  apoidea cluster kill 2 5 && apoidea cluster start 5 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := g.each(cmd, *dir, args, "started", func(_ context.Context, c *cluster.Cluster, i int) error { return c.Start(i) })
			return err
		},
	}
}

func newClusterDown(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Stop all peers and keep their data", Args: noArgs, Example: "  apoidea cluster down --dir /tmp/ring",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			n := len(c.Running())
			if err := takeDown(cmd.Context(), c); err != nil {
				return err
			}
			text := words.Singular(fmt.Sprintf("%d peers stopped; data remains in %s", n, *dir))
			if n == 0 {
				text = "no peer is running in " + *dir
			}
			return g.say(cmd.OutOrStdout(), map[string]int{"stopped": n}, text)
		},
	}
}
