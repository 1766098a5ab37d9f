package main

import (
	"context"
	"fmt"
	"io"
	"net"

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
}

func newWebServe(g *globals) *cobra.Command {
	o := webOptions{globals: g, config: webgen.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a synthetic web and audit its crawlers",
		Long: `Serve a synthetic web, generated from the seed on request: many hosts (h0.web.localhost, h1.web.localhost, ..., which resolve to loopback), duplicates,
redirects, robots.txt rules, sitemaps and errors. /_audit returns a JSON report of the requests to each host.`,
		Example: `  apoidea web serve --listen 127.0.0.1:8080 --hosts 16 --pages 1000
  apoidea run --allow-private --delay 0 --until-idle --scope '*.web.localhost:8080' \
    http://h0.web.localhost:8080/
  curl -s http://127.0.0.1:8080/_audit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "listen address; port 0: any")
	addWebFlags(cmd.Flags(), &o.config)
	return cmd
}

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
	err := webgen.Serve(ctx, o.listen, o.config, func(addr net.Addr) {
		seeds := webgen.New(o.config).Seeds(portOf(addr))
		if o.json {
			_ = words.Line(out, map[string]any{"listen": addr.String(), "audit": "http://" + addr.String() + "/_audit", "seeds": seeds})
			return
		}
		fmt.Fprintf(out, "%d hosts with %d pages each at %s; first seed %s; audit at http://%s/_audit\n",
			o.config.Hosts, o.config.PagesPerHost, addr, seeds[0], addr)
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
