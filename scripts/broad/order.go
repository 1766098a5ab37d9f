//go:build linux

package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// graph is a real web: to which pages each page links. Its pages lie on hosts of pagesAHost, as
// pages with numbers near each other are near each other in it.
type graph struct {
	links [][]int32

	mu    sync.Mutex
	asked []int32 // pages, in the order in which they were asked for first
	known []bool  // which those are
}

const (
	pagesAHost = 2000
	// orderDelay has URLs wait: where each is fetched as soon as it is known no order does anything.
	orderDelay = "100ms"
)

// order prints how much of the PageRank of a real web the first fifth of its pages has that a peer
// fetches, in each order.
func (b *bench) order(ctx context.Context) error {
	g, err := readGraph(b.graph)
	if err != nil {
		return fmt.Errorf("graph %q: %w", b.graph, err)
	}
	rank := g.pageRank()
	fifth := len(g.links) / 5
	best := slices.Clone(rank)
	slices.Sort(best)
	slices.Reverse(best)
	figure(fmt.Sprintf("%d pages: PageRank of the fifth with the most", len(rank)), sum(best[:fifth]), "", "", "")
	mass := make(map[string]float64)
	for _, order := range []string{"breadth", "links"} {
		began := time.Now()
		cpu, err := b.fetchFifth(ctx, g, order, fifth)
		if err != nil {
			return err
		}
		fetched := g.asked[:min(fifth, len(g.asked))]
		for _, page := range fetched {
			mass[order] += rank[page]
		}
		figure("  of the fifth fetched first, --order "+order, mass[order], "", "", fmt.Sprintf("%d pages, %.1f s, %.1f CPU s", len(g.asked), time.Since(began).Seconds(), cpu.Seconds()))
	}
	figure("  links / breadth", mass["links"]/mass["breadth"], "", "", "")
	return nil
}

func sum(list []float64) (s float64) {
	for _, v := range list {
		s += v
	}
	return s
}

// fetchFifth has a peer crawl so many pages.
func (b *bench) fetchFifth(ctx context.Context, g *graph, order string, pages int) (cpu time.Duration, err error) {
	g.asked, g.known = nil, make([]bool, len(g.links))
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	serving, end := context.WithCancel(ctx)
	defer end()
	ln, names, err := listen(serving, &group)
	if err != nil {
		return 0, err
	}
	srv := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	group.Go(func() { _ = srv.Serve(ln) })
	context.AfterFunc(serving, func() { _ = srv.Close() })
	port := ln.Addr().(*net.TCPAddr).Port
	seed := 0 // the page with the most links, as a directory has
	for page := range g.links {
		if len(g.links[page]) > len(g.links[seed]) {
			seed = page
		}
	}
	dir := filepath.Join(b.work, order)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := harness.Start(ctx, dir, "p", nil, append(b.peerFlags(names), "--order", order, "--delay", orderDelay, "--max-pages", strconv.Itoa(pages), "--until-idle",
		"--scope", fmt.Sprintf("*.%s:%d", domain, port), urlOf(int32(seed), port))...)
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	<-p.Done
	if p.Err != nil {
		return 0, p.Ended()
	}
	cpu, _ = p.Used()
	return cpu, nil
}

func urlOf(page int32, port int) string {
	return fmt.Sprintf("http://h%d.%s:%d/%d", page/pagesAHost, domain, port, page)
}

// ServeHTTP gives a page with its links.
func (g *graph) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	page, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/"))
	if err != nil || page < 0 || page >= len(g.links) {
		http.NotFound(rw, req)
		return
	}
	g.mu.Lock()
	if !g.known[page] {
		g.known[page] = true
		g.asked = append(g.asked, int32(page)) // of a file that was read into memory
	}
	g.mu.Unlock()
	port := req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr).Port
	rw.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(rw, "<title>%d</title>page %d\n", page, page)
	for _, to := range g.links[page] {
		fmt.Fprintf(rw, "<a href=%s>%d</a>\n", urlOf(to, port), to)
	}
}

// readGraph reads a page a line.
func readGraph(file string) (*graph, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	g := &graph{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var list []int32
		for field := range strings.FieldsSeq(lines.Text()) {
			to, err := strconv.ParseInt(field, 10, 32)
			if err != nil {
				return nil, err
			}
			list = append(list, int32(to))
		}
		g.links = append(g.links, list)
	}
	for _, list := range g.links {
		for _, to := range list {
			if to < 0 || int(to) >= len(g.links) {
				return nil, fmt.Errorf("a link to page %d of %d", to, len(g.links))
			}
		}
	}
	return g, lines.Err()
}

// pageRank is that of each page, of 1 together (Page, Brin, Motwani and Winograd 1999: damping
// 0.85; what pages without links have goes to all).
func (g *graph) pageRank() []float64 {
	const damping, rounds = 0.85, 60
	n := float64(len(g.links))
	rank, next := make([]float64, len(g.links)), make([]float64, len(g.links))
	for i := range rank {
		rank[i] = 1 / n
	}
	for range rounds {
		lost := 0.0
		clear(next)
		for page, list := range g.links {
			if len(list) == 0 {
				lost += rank[page]
			}
			for _, to := range list {
				next[to] += rank[page] / float64(len(list))
			}
		}
		for i := range next {
			next[i] = (1-damping)/n + damping*(next[i]+lost/n)
		}
		rank, next = next, rank
	}
	return rank
}
