package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newWeb(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "web", Short: "Serve a synthetic web for tests"}
	cmd.AddCommand(newWebServe(g))
	return cmd
}

type webOptions struct {
	*globals
	listen string
	config webgen.Config

	changes, log string
}

func newWebServe(g *globals) *cobra.Command {
	o := webOptions{globals: g, config: webgen.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a synthetic web and audit its crawlers",
		Long: `Serve a synthetic web, generated from the seed on request: many hosts (h0.web.localhost, h1.web.localhost, ..., which resolve to loopback), duplicates,
redirects, robots.txt rules, sitemaps and errors. /_audit returns a JSON report of the requests to each host.

With --changes it serves the pages of a file instead: a CSV file, maybe of gzip, with the columns page, host and unix_s. The first row of a page is the start of
its window, the others are changes of its text. Pages have an ETag and Last-Modified. Of 10 % of the pages they stay the same, 5 % answer some requests
without a condition with 304, and 20 % have a new nonce in their markup and a new ETag in each response.`,
		Example: `  apoidea web serve --listen 127.0.0.1:8080 --hosts 16 --pages 1000
  apoidea run --allow-private --delay 0 --until-idle --scope '*.web.localhost:8080' \
    http://h0.web.localhost:8080/
  curl -s http://127.0.0.1:8080/_audit
  apoidea web serve --changes pages.csv.gz --speed 86400 --log requests.ndjson`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "listen address; port 0: any")
	cmd.Flags().StringVar(&o.changes, "changes", "", "file of pages and the times of their changes")
	cmd.Flags().Float64Var(&o.config.Speed, "speed", o.config.Speed, "seconds of --changes that pass in a second")
	cmd.Flags().StringVar(&o.log, "log", "", "file to which each request is added as a line of JSON")
	addWebFlags(cmd.Flags(), &o.config)
	return cmd
}

// maxSpeed passes a century in 30 seconds.
const maxSpeed = 1e8

func addWebFlags(f *pflag.FlagSet, c *webgen.Config) {
	f.Uint64Var(&c.Seed, "seed", c.Seed, "random seed; the same seed makes the same pages")
	f.IntVar(&c.Hosts, "hosts", c.Hosts, "number of hosts")
	f.IntVar(&c.PagesPerHost, "pages", c.PagesPerHost, "pages per host")
	f.Float64Var(&c.Pareto, "pareto", 0, "Pareto shape of pages per host, around --pages; 0: all equal")
	f.IntVar(&c.Links, "links", c.Links, "links per page")
	f.IntVar(&c.PageBytes, "page-bytes", c.PageBytes, "mean page size in bytes")
	f.StringVar(&c.Domain, "domain", c.Domain, "domain of the host names")
	f.Float64Var(&c.DuplicateShare, "duplicate-share", c.DuplicateShare, "share of pages with another page's body")
	f.Float64Var(&c.RedirectShare, "redirect-share", c.RedirectShare, "share of pages that redirect")
	f.Float64Var(&c.CrossHostShare, "cross-host-share", c.CrossHostShare, "share of links to other hosts")
	f.Float64Var(&c.ErrorShare, "error-share", c.ErrorShare, "share of pages with an error")
	f.Float64Var(&c.RobotsShare, "robots-share", c.RobotsShare, "share of hosts with robots.txt rules")
	f.Float64Var(&c.SitemapShare, "sitemap-share", c.SitemapShare, "share of hosts with sitemaps")
	f.Float64Var(&c.NofollowShare, "nofollow-share", c.NofollowShare, "share of pages and links marked nofollow")
	f.DurationVar(&c.Latency, "latency", c.Latency, "delay before each response")
	f.DurationVar(&c.CrawlDelay, "crawl-delay", c.CrawlDelay, "Crawl-delay in each robots.txt")
}

func (o *webOptions) run(ctx context.Context, out io.Writer) error {
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return fmt.Errorf("%w: listen %q: must be HOST:PORT, such as 127.0.0.1:8080", errUsage, o.listen)
	}
	if !(o.config.Speed > 0 && o.config.Speed <= maxSpeed) {
		return fmt.Errorf("%w: speed %v: must be above 0 and at most %v", errUsage, o.config.Speed, maxSpeed)
	}
	pages := fmt.Sprintf("%d hosts with %d pages each", o.config.Hosts, o.config.PagesPerHost)
	if o.changes != "" {
		var err error
		if o.config.Changes, err = webgen.ReadChanges(o.changes); err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		pages = fmt.Sprintf("%d hosts with pages that change", len(o.config.Changes))
	}
	if o.log != "" {
		f, err := os.OpenFile(o.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		o.config.Log = f
	}
	err := webgen.Serve(ctx, o.listen, o.config, func(addr net.Addr) {
		seeds := webgen.New(o.config).Seeds(portOf(addr))
		if o.json {
			_ = words.Line(out, map[string]any{"listen": addr.String(), "audit": "http://" + addr.String() + "/_audit", "seeds": seeds})
			return
		}
		fmt.Fprintf(out, "%s at %s; first seed %s; audit at http://%s/_audit\n", pages, addr, seeds[0], addr)
	})
	if ctx.Err() != nil {
		return nil // an interrupt is how a server ends
	}
	return err
}

func portOf(addr net.Addr) int {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

func newDashboard(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "dashboard",
		Short: "Print a link to the dashboard of the running peer",
		Long: `Print a link to the dashboard of the running peer: its work, jobs, ring, charts and controls. The link logs in one browser, once, within 15 minutes.
Without a login the dashboard is read-only; with --dashboard-login, and beyond loopback, it requires one.`,
		Example: "  apoidea dashboard\n  xdg-open \"$(apoidea dashboard)\"",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Dashboard, error) { return c.Dashboard(cmd.Context()) },
				func(out io.Writer, d *control.Dashboard) error {
					_, err := fmt.Fprintln(out, d.Login)
					return err
				})
		},
	}
}
