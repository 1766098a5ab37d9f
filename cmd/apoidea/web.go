package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/crawl/webgen"
)

func newWeb(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "web", Short: "A synthetic web to crawl on this machine"}
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
		Short: "Serve a synthetic web of many hosts from a seed, and audit who crawls it how",
		Long: `Serve a web whose every page is made from the seed when it is asked for: many hosts (h0.web.localhost, h1.web.localhost, ... which
resolve to loopback), duplicates, redirects, robots rules, sitemaps, faults. /_audit answers, as JSON, how each host was crawled.`,
		Example: `  apoidea web serve --listen 127.0.0.1:8080 --hosts 16 --pages 1000
  apoidea run --allow-private --delay 0 --until-idle --scope '*.web.localhost:8080' \
    http://h0.web.localhost:8080/
  curl -s http://127.0.0.1:8080/_audit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "address to serve on; port 0 lets the system choose")
	addWebFlags(cmd.Flags(), &o.config)
	return cmd
}

func addWebFlags(f *pflag.FlagSet, c *webgen.Config) {
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the web: the same seed makes the same pages")
	f.IntVar(&c.Hosts, "hosts", c.Hosts, "hosts")
	f.IntVar(&c.PagesPerHost, "pages", c.PagesPerHost, "pages a host")
	f.Float64Var(&c.Pareto, "pareto", 0, "shape of the Pareto distribution of pages a host, around --pages; 0: all alike")
	f.IntVar(&c.Links, "links", c.Links, "links a page")
	f.IntVar(&c.PageBytes, "page-bytes", c.PageBytes, "mean size of a page")
	f.StringVar(&c.Domain, "domain", c.Domain, "what the host names end in")
	f.Float64Var(&c.DuplicateShare, "duplicate-share", c.DuplicateShare, "share of pages with the body of another page")
	f.Float64Var(&c.RedirectShare, "redirect-share", c.RedirectShare, "share of pages that redirect")
	f.Float64Var(&c.CrossHostShare, "cross-host-share", c.CrossHostShare, "share of links to other hosts")
	f.Float64Var(&c.ErrorShare, "error-share", c.ErrorShare, "share of pages with a fault")
	f.Float64Var(&c.RobotsShare, "robots-share", c.RobotsShare, "share of hosts whose robots.txt forbids something")
	f.Float64Var(&c.SitemapShare, "sitemap-share", c.SitemapShare, "share of hosts with sitemaps")
	f.Float64Var(&c.NofollowShare, "nofollow-share", c.NofollowShare, "share of pages and links that forbid following")
	f.DurationVar(&c.Latency, "latency", c.Latency, "wait before each response")
	f.DurationVar(&c.CrawlDelay, "crawl-delay", c.CrawlDelay, "Crawl-delay named in every robots.txt")
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
		fmt.Fprintf(out, "%d hosts of %d pages on %s; first seed %s; audit at http://%s/_audit\n",
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
