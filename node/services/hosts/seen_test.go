package hosts

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dedup"
)

// BenchmarkSeenBloom fills the filters of --seen bloom as Apoidea 3.2 sizes them, 1,000 hosts of
// 4,000 URLs at a peer, within the memory limit of a peer. It reports the memory and the share of
// 4,000,000 other URLs that the filters report as seen.
func BenchmarkSeenBloom(b *testing.B) {
	const hosts, urls = 1000, 4000
	hash := func(host, url int, part string) uint64 {
		return link.Hash([16]byte{1}, fmt.Sprintf("https://host-%d.example/%s/%d.html", host, part, url))
	}
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		sets := dedup.NewSets(dedup.Paper, func(int, func(uint64) bool) error { return nil }, seenMemory)
		lost := 0
		for url := range urls {
			for host := range hosts {
				h := hash(host, url, "known")
				if seen, _ := sets.Test(host, h); seen { // the loader does not fail
					lost++
				}
				_ = sets.Add(host, h)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		wrong := 0
		for url := range urls {
			for host := range hosts {
				if seen, _ := sets.Test(host, hash(host, url, "other")); seen {
					wrong++
				}
			}
		}
		stats := sets.Stats()
		if stats.Sets != hosts || stats.Hashes+lost != hosts*urls {
			b.Fatalf("%d sets of %d URLs and %d lost: the memory limit evicts some", stats.Sets, stats.Hashes, lost)
		}
		b.ReportMetric(float64(stats.Bytes)/hosts, "counted-B/host")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/hosts, "heap-B/host")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "heap-MB")
		b.ReportMetric(1e6*float64(wrong)/(hosts*urls), "false-per-million")
		b.ReportMetric(1e6*stats.FalsePositive, "expected-false-per-million")
		b.ReportMetric(1e6*float64(lost)/(hosts*urls), "lost-per-million")
	}
}
