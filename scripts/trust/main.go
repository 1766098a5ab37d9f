// Command trust measures the spot checks of workers: by simulation in virtual time, and with real
// peers.
//
//	go run ./scripts/trust [-quick] [-seed 1] [found|left|extra|changing]...
package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/scripts/harness"
)

// options are those of the command line.
type options struct {
	work  string
	quick bool
	seed  uint64

	honest bool // real peers without liars
	port   int
}

// row is a part of the figures.
type row struct {
	name, words string
	run         func(ctx context.Context, o *options) (fine bool, err error)
	real        bool // only if it is named
}

var rows = []row{
	{"found", "pages that a worker reports until a forged one is found", found, false},
	{"left", "forged pages that are left at the end of a job", left, false},
	{"extra", "requests to sites for checks", extra, false},
	{"changing", "honest workers that are reset, since pages change", changing, false},
	{"peers", "ten real peers, two of which fetch through proxies that forge pages", peers, true},
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "fewer runs")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of all random draws")
	flag.BoolVar(&o.honest, "honest", false, "no liars among the real peers")
	flag.IntVar(&o.port, "port", 18840, "port of the web server of the real peers")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, r := range rows {
			line(r.name, r.words)
		}
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		chosen, err := harness.Choose(rows, names, func(r row) string { return r.name }, func(r row) bool { return !r.real })
		fine := err == nil
		for _, r := range chosen {
			ok, err := r.run(ctx, &o)
			if err != nil {
				return false, fmt.Errorf("%s: %w", r.name, err)
			}
			fine = fine && ok
		}
		return fine, err
	})
}

// check prints a figure.
func check(fine bool, format string, args ...any) bool {
	word := "ok   "
	if !fine {
		word = "WRONG"
	}
	fmt.Println(word, fmt.Sprintf(format, args...))
	return fine
}

func say(format string, args ...any) { fmt.Println("-    ", fmt.Sprintf(format, args...)) }

// runs makes runs with seeds in parallel, and returns their results in order.
func runs[T any](n int, seed uint64, run func(seed uint64) (T, error)) ([]T, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards first
	var first error
	results, next := make([]T, n), make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				r, err := run(seed*1_000_003 + uint64(i))
				mu.Lock()
				if results[i] = r; err != nil && first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return results, first
}

// found: a worker that forges half or 1 % of its pages, which fetches from 8 or 64 hosts at once.
func found(ctx context.Context, o *options) (bool, error) {
	fine, n := true, 100
	if o.quick {
		n = 20
	}
	for _, of := range []struct {
		lies   float64
		within int
	}{{0.5, 500}, {0.01, 25_000}} {
		for _, parallel := range []int{8, 64} {
			list, err := runs(n, o.seed, func(seed uint64) (int, error) {
				return untilFound(ctx, shape{rate: checkRate, workers: 17, liars: 1, lies: of.lies, pages: 4 * of.within, hostPages: 100, only: true, parallel: parallel, seed: seed})
			})
			if err != nil {
				return false, err
			}
			slices.Sort(list)
			in := 0
			for _, pages := range list {
				if pages <= of.within {
					in++
				}
			}
			fine = check(in*100 >= 99*n, "forges %g %% of its pages, %d hosts at once: found within %d pages in %d of %d runs; median %d, 99 %% %d, most %d",
				of.lies*100, parallel, of.within, in, n, list[n/2], list[n*99/100], list[n-1]) && fine
		}
	}
	return fine, nil
}

// left: a fifth of the peers forges a tenth of the pages that they fetch, those of their own hosts
// included. As owners they are honest. 200 peers have 17 workers each, the leaf set; the owners do
// not share what they find.
func left(ctx context.Context, o *options) (bool, error) {
	fine := true
	for _, of := range []struct {
		peers, pages int
		collude      bool
	}{
		{200, 10_000, false}, {200, 2000, false}, {200, 10_000, true}, {10, 10_000, false}, {10, 500, false}, {10, 10_000, true},
	} {
		owners := max(of.peers, 40) // four rings of ten
		if o.quick {
			owners = 20
		}
		list, err := runs(owners, o.seed, func(seed uint64) (result, error) {
			return crawl(ctx, shape{
				rate: checkRate, workers: min(of.peers, leafSet), liars: -1, lies: 0.1, collude: of.collude, pages: of.pages, hostPages: 100, parallel: 8, seed: seed,
			})
		})
		if err != nil {
			return false, err
		}
		sum := total(list)
		how := "each for itself"
		if of.collude {
			how = "all alike"
		}
		share := float64(sum.forged) / float64(sum.pages)
		fine = check(share <= 0.005, "%d peers, %d pages each, a fifth forges 10 %% (%s): %.2f %% forged pages left; %d of %d liars found, counted by owner, %d losses, %d honest reset",
			of.peers, of.pages, how, share*100, sum.found, sum.liars, sum.losses, sum.wrong) && fine
	}
	return fine, nil
}

// leafSet is the number of workers of an owner in a large ring, its own included.
const leafSet = 2*ring.DefaultR + 1

func total(list []result) (sum result) {
	for i := range list {
		sum.add(&list[i])
	}
	return sum
}

// extra: requests of honest workers for checks, with each robots.txt that a checker reads; a crawl
// without checks makes the others.
func extra(ctx context.Context, o *options) (bool, error) {
	fine, owners := true, 20
	if o.quick {
		owners = 4
	}
	for _, peers := range []int{200, 10} {
		for _, hostPages := range []int{20, 100, 1000} {
			var sums [2]result
			for i, rate := range []float64{0, checkRate} {
				list, err := runs(owners, o.seed, func(seed uint64) (result, error) {
					return crawl(ctx, shape{
						rate: rate, workers: min(peers, leafSet), pages: 10_000, hostPages: hostPages, parallel: 8, seed: seed,
					})
				})
				if err != nil {
					return false, err
				}
				sums[i] = total(list)
			}
			pages := float64(sums[0].pages)
			all := float64(sums[1].requests+sums[1].robots-sums[0].requests-sums[0].robots) / pages
			fine = check(all <= 0.03, "%d peers, hosts of %d pages: %.2f %% more requests, of them %.2f %% for robots.txt; %d honest reset; the job takes %.2f of the time",
				peers, hostPages, all*100, float64(sums[1].robots-sums[0].robots)/pages*100, sums[1].wrong, sums[1].took.Seconds()/sums[0].took.Seconds()) && fine
		}
	}
	return fine, nil
}
