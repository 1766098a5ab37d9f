// Command walker is the second opinion on a crawl: it walks given hosts breadth first and prints
// the URLs that answered 200, sorted, one a line. It shares nothing with apoidea but the rules:
// links of a, area, link, iframe, frame and meta refresh against the base; robots.txt, nofollow;
// fragments dropped, hosts in lower case, dot segments and escapes normalised (here by net/url and
// a few lines, there by a WHATWG parser). It is slow and simple on purpose.
//
//	walker [--max-depth N] [--digests] URL...
//
// Names under .localhost are loopback (RFC 6761, section 6.3), whatever the system's resolver
// thinks of them.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// agent is the product token looked for in robots.txt.
const agent = "apoidea"

// maxBody is more than any page here has; what is beyond is not read.
const maxBody = 64 << 20

func main() {
	maxDepth := flag.Int("max-depth", -1, "links away from the seeds; negative is no bound")
	digests := flag.Bool("digests", false, "print a tab and the SHA-256 of the body behind each URL")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	w := newWalk(*maxDepth)
	if err := w.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "walker:", err)
		os.Exit(1)
	}
	for _, u := range w.ok {
		if *digests {
			fmt.Printf("%s\t%x\n", u, w.digests[u])
		} else {
			fmt.Println(u)
		}
	}
	fmt.Fprintf(os.Stderr, "walker: %d URLs met, %d answered 200, %d failed, %d forbidden\n", len(w.depth), len(w.ok), w.failed, w.forbidden)
}

// walk is the state of one walk.
type walk struct {
	client   *http.Client
	maxDepth int
	scope    map[string]bool
	robots   map[string]robots
	depth    map[string]int // smallest depth of each URL met
	levels   [][]string
	ok       []string
	digests  map[string][sha256.Size]byte

	failed, forbidden int
}

func newWalk(maxDepth int) *walk {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &walk{
		maxDepth: maxDepth,
		scope:    map[string]bool{}, robots: map[string]robots{}, depth: map[string]int{}, digests: map[string][sha256.Size]byte{},
		client: &http.Client{
			Timeout:       time.Minute,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				MaxIdleConnsPerHost: 4,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					host, port, err := net.SplitHostPort(addr)
					if err == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
						addr = net.JoinHostPort("127.0.0.1", port)
					}
					return dialer.DialContext(ctx, network, addr)
				},
			},
		},
	}
}

func (w *walk) run(ctx context.Context, seeds []string) error {
	for _, s := range seeds {
		u, err := url.Parse(s)
		if err != nil {
			return err
		}
		w.scope[strings.ToLower(u.Host)] = true
		w.admit(u, 0)
	}
	for depth := 0; depth < len(w.levels); depth++ {
		// A redirect adds its target to the level that is being walked.
		for i := 0; i < len(w.levels[depth]); i++ {
			u := w.levels[depth][i]
			if w.depth[u] != depth {
				continue // met again nearer to a seed
			}
			if err := w.visit(ctx, u, depth); err != nil {
				return err
			}
		}
	}
	slices.Sort(w.ok)
	return nil
}

func (w *walk) admit(u *url.URL, depth int) {
	key, host := canonical(u)
	if key == "" || !w.scope[host] || w.maxDepth >= 0 && depth > w.maxDepth {
		return
	}
	if d, known := w.depth[key]; known && d <= depth {
		return
	}
	w.depth[key] = depth
	for len(w.levels) <= depth {
		w.levels = append(w.levels, nil)
	}
	w.levels[depth] = append(w.levels[depth], key)
}

// visit fetches a URL and admits what it leads to. A page that cannot be had is counted and no
// error; a cancelled walk is one.
func (w *walk) visit(ctx context.Context, key string, depth int) error {
	u, err := url.Parse(key)
	if err != nil {
		return err
	}
	rules, known := w.robots[u.Host]
	if !known {
		if rules, err = w.fetchRobots(ctx, u); err != nil {
			return err
		}
		w.robots[u.Host] = rules
	}
	if !rules.allow(u) {
		w.forbidden++
		return nil
	}
	resp, body, err := w.get(ctx, key)
	for try := 0; err == nil && resp.StatusCode >= 500 && try < 3; try++ {
		time.Sleep(100 * time.Millisecond)
		resp, body, err = w.get(ctx, key)
	}
	if err != nil {
		w.failed++
		fmt.Fprintln(os.Stderr, "walker:", err)
		return ctx.Err()
	}
	if location := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && location != "" {
		if to, err := u.Parse(location); err == nil {
			w.admit(to, depth)
		}
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		w.failed++
		return nil
	}
	w.ok = append(w.ok, key)
	w.digests[key] = sha256.Sum256(body)
	if hasToken(resp.Header.Values("X-Robots-Tag"), "nofollow") {
		return nil
	}
	if media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); media == "text/html" || media == "application/xhtml+xml" {
		for _, to := range links(u, body) {
			w.admit(to, depth+1)
		}
	}
	return nil
}

func (w *walk) get(ctx context.Context, url string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", agent)
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return resp, body, err
}
