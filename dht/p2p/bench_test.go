//go:build unix

package p2p

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCall measures calls between two hosts of one process; cpu-us/op is user
// and system time of both sides together.
func BenchmarkCall(b *testing.B) {
	for _, transport := range transports {
		for _, size := range []int{64, 16 << 10} {
			for _, inFlight := range []int{1, 32} {
				b.Run(fmt.Sprintf("%s/%d-bytes/%d-in-flight", transport.name, size, inFlight), func(b *testing.B) {
					benchmarkCall(b, transport.listen, size, inFlight)
				})
			}
		}
	}
}

func benchmarkCall(b *testing.B, listen string, size, inFlight int) {
	server := newNet(b, "bench", listen, func(n *Net) { n.Handle("echo", echo) })
	client := newNet(b, "bench", listen, nil)
	introduce(client, server)
	req := make([]byte, size)
	if _, err := client.Call(b.Context(), server.Self(), "echo", req); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := cpuTime(b)
	b.ResetTimer()
	var callers sync.WaitGroup
	for i := range inFlight {
		calls := b.N / inFlight
		if i < b.N%inFlight {
			calls++
		}
		callers.Go(func() {
			for range calls {
				if _, err := client.Call(b.Context(), server.Self(), "echo", req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
